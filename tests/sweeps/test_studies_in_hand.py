"""Studies are listed, and read without being named: the one that was active last."""

import json
import os
import time
from pathlib import Path

import pytest
from finished_trials import study_in, sweep
from typed import refusal, typed

from sweeps.planning.named_study import study_to_read
from sweeps.serving import store_to_serve
from tracking.lag import SyncLog
from tracking.replay import PassOutcome
from tracking.study import Study, write_study
from tracking.uri import default_uri

OLDER, NEWER = "synthetic-tiny", "mine"
ROWS = "sweep.rows=[base,d_smoothing_0,big]"
READING = ("status", "table")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The default study, finished, and a newer one of two seeds, of which base's are finished."""
    sweep(tmp_path, ROWS)
    asked_at(study_in(tmp_path), "2030-01-01T00:00:00+00:00")
    sweep(tmp_path, f"sweep.name={NEWER}", "sweep.rows=[base,a_heads_1]", "sweep.seeds=[1,2]", ends=2)
    asked_at(study_in(tmp_path, NEWER), "2031-01-01T00:00:00Z")
    return tmp_path


def asked_at(study: Study, ts: str) -> None:
    """Make the study's last command that old. Its trials were active in the years before."""
    write_study(Study(**{**vars(study), "asked": ({"ts": ts, "command": "ablate sweep"},)}))


def listed(folder: Path) -> list[dict[str, object]]:
    done = typed(folder, "studies", "--json")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    lines: list[dict[str, object]] = json.loads(done.stdout)
    return lines


def test_the_studies_are_listed_with_the_newest_first(folder: Path) -> None:
    (folder / "runs/broken").mkdir()
    (folder / "runs/broken/study.json").write_text("{")
    (folder / "runs/no study").mkdir()
    newer, older, broken = listed(folder)
    counts = {name: newer[name] for name in ("name", "rows", "seeds", "trials", "finished", "failed", "damage")}
    assert counts == {"name": NEWER, "rows": 2, "seeds": 2, "trials": 4, "finished": 2, "failed": 0, "damage": None}
    assert (newer["asked"], newer["base"]) == ("2031-01-01T00:00:00+00:00", {"ppl": 4.5, "bleu": 30.0})
    assert (older["name"], older["finished"]) == (OLDER, 3)
    assert (broken["name"], broken["trials"]) == ("broken", None)
    assert "broken/study.json: not a study" in str(broken["damage"])
    shown = " ".join(typed(folder, "studies").stdout.split())
    assert "mine 2 × 2 2 of 4 2031-01-01 00:00 PPL 4.50, BLEU 30.0" in shown
    assert "broken damaged" in shown
    assert shown.endswith("Next: ablate table")


def test_a_folder_without_studies_says_how_to_begin(tmp_path: Path) -> None:
    done = typed(tmp_path, "studies", "paths.runs=elsewhere")
    assert (done.exit_code, listed(tmp_path), list(tmp_path.iterdir())) == (0, [], [])
    assert done.stdout.splitlines()[-1] == "Next: ablate sweep paths.runs=elsewhere"


@pytest.mark.parametrize("verb", READING)
def test_the_newest_study_is_read_and_named(folder: Path, verb: str) -> None:
    done = typed(folder, verb)
    assert (done.exit_code, NEWER in done.stdout, OLDER in done.stdout) == (0, True, False)
    assert " ".join(done.stderr.split()).startswith(f"Study {NEWER}, the most recently active of 2;")
    for words in ([f"sweep.name={OLDER}"], ["scale=tiny"], ["data=synthetic"]):
        named = typed(folder, verb, *words)
        assert (named.exit_code, OLDER in named.stdout, named.stderr) == (0, True, ""), named.output


@pytest.mark.parametrize("words", [["status", "--json"], ["table", "--format", "json"], ["table", "--format", "csv"]])
def test_what_scripts_read_stays_clean(folder: Path, words: list[str]) -> None:
    done = typed(folder, *words)
    assert (done.stdout[0], "Study" in done.stdout) == ("r" if words[-1] == "csv" else "[", False)
    assert done.stderr.startswith("Study mine")


def test_the_only_study_needs_no_name_and_no_notice(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.name=only", "sweep.rows=[base]", "scale=half")
    for verb in READING:
        done = typed(tmp_path, verb, "sweep.rows=[base]")
        assert (done.exit_code, done.stderr, "only" in done.stdout) == (0, "", True), done.output
    assert study_to_read(["paths.runs=" + str(tmp_path / "runs")]).settings.study_folder == tmp_path / "runs/only"


def test_a_trial_that_reports_makes_its_study_the_newest(folder: Path) -> None:
    study = study_in(folder)
    report = {"ts": time.time() + 1e9, "attempt": 1, "step": 7, "metrics": {}}
    study.trial_folder(study.trials[0]).journal_path.write_text(json.dumps(report) + "\n")
    assert [line["name"] for line in listed(folder)] == [OLDER, NEWER]


def test_files_of_a_copy_are_newer_but_the_study_is_not(folder: Path) -> None:
    for path in (folder / "runs" / OLDER).rglob("*"):
        os.utime(path, (2e9, 2e9))
    assert [line["name"] for line in listed(folder)] == [NEWER, OLDER]


def test_a_damaged_study_is_passed_over_unless_it_is_the_only_one(folder: Path) -> None:
    (folder / f"runs/{NEWER}/study.json").write_text("{")
    done = typed(folder, "table")
    assert (done.exit_code, OLDER in done.stdout) == (0, True)
    assert "Skipped: " in done.stderr
    assert f"{NEWER}/study.json" in done.stderr
    (folder / f"runs/{OLDER}/study.json").write_text("[]")
    message = refusal(folder, "table")
    assert f"{NEWER}/study.json: not a study" in message
    assert f"{OLDER}/study.json: not a study" in message


def test_the_next_command_names_a_study_that_is_not_the_newest(folder: Path) -> None:
    for words, last in (
        ([f"sweep.name={OLDER}"], f"Next: ablate table sweep.name={OLDER}"),
        ([], f"Next: ablate sweep sweep.name={NEWER}"),
    ):
        assert typed(folder, "status", *words).stdout.splitlines()[-1] == last


def test_plan_and_sweep_keep_their_default_study(folder: Path) -> None:
    assert "Plan of synthetic-tiny" in typed(folder, "plan").stdout


def test_the_ui_serves_the_store_of_the_newest_study(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert f"paths.runs is {folder}/runs, which has no mlflow.db" in refusal(folder, "ui")
    SyncLog(folder / "runs" / NEWER, "http://host:5000").note(PassOutcome(1, 1, ()))
    done = typed(folder, "ui")
    assert (done.exit_code, "All of MLflow: http://host:5000" in done.stdout) == (0, True), done.output
    assert "Study mine, the most recently active of 2" in done.stderr
    SyncLog(folder / "runs" / NEWER, "postgresql://me:secret@host/db").note(PassOutcome(1, 1, ()))
    assert "mine is tracked at postgresql://host/db" in refusal(folder, "ui")
    (folder / "runs/mlflow.db").touch()
    assert store_to_serve([f"sweep.name={OLDER}"]).uri == default_uri(folder / "runs")


def test_sync_sends_to_the_store_that_has_the_study(folder: Path) -> None:
    SyncLog(folder / "runs" / NEWER, f"sqlite:///{folder}/elsewhere.db").note(PassOutcome(1, 1, ()))
    assert typed(folder, "sync").exit_code == 0
    assert (folder / "elsewhere.db").exists()
    assert not (folder / "runs" / "mlflow.db").exists()
    SyncLog(folder / "runs" / NEWER, "postgresql://me:secret@host/db").note(PassOutcome(1, 1, ()))
    assert "mine is tracked at postgresql://host/db" in refusal(folder, "sync")
