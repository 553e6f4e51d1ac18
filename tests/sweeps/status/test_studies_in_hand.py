"""Studies are listed, and read without being named: the one that was active last."""

import json
import re
import shutil
from pathlib import Path

import pytest
from finished_trials import study_in, sweep
from typed import refusal, typed

from sweeps.planning.studies.named_study import study_to_read
from sweeps.running.recording.recorder import Recorder
from tracking.study import Study, write_study

OLDER = "synthetic-tiny"
NEWER = "mine"
ROWS = "sweep.rows=[base,d_smoothing_0,big]"
READING = ("status", "table")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default study, finished, and a newer one of two seeds, of which base's are finished. Only
    read."""
    folder = tmp_path_factory.mktemp("two").resolve()
    sweep(folder, ROWS)
    asked_at(study_in(folder), "2030-01-01T00:00:00+00:00")
    sweep(folder, f"sweep.name={NEWER}", "sweep.rows=[base,a_heads_1]", "sweep.seeds=[1,2]", ends=2)
    asked_at(study_in(folder, NEWER), "2031-01-01T00:00:00Z")
    return folder


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "own").resolve()


def asked_at(study: Study, ts: str) -> None:
    """Make the study's last command that old. Its trials were active in the years before."""
    write_study(Study(**{**vars(study), "asked": ({"ts": ts, "command": "allelse sweep"},)}))


def studies(folder: Path) -> list[dict[str, object]]:
    outcome = typed(folder, "studies", "--json")
    assert (outcome.exit_code, outcome.stderr) == (0, ""), outcome.output
    lines: list[dict[str, object]] = json.loads(outcome.stdout)
    return lines


def test_the_studies_are_listed_with_the_newest_first(own: Path) -> None:
    (own / "runs/broken").mkdir()
    (own / "runs/broken/study.json").write_text("{")
    (own / "runs/no study").mkdir()
    newer, older, broken = studies(own)
    counts = {
        name: newer[name]
        for name in ("name", "rows", "seeds", "trials", "finished", "failed", "damage")
    }
    assert counts == {
        "name": NEWER,
        "rows": 2,
        "seeds": 2,
        "trials": 4,
        "finished": 2,
        "failed": 0,
        "damage": None,
    }
    assert (newer["asked"], newer["base"]) == (
        "2031-01-01T00:00:00+00:00",
        {"ppl": 4.5, "bleu": 30.0},
    )
    assert (older["name"], older["finished"]) == (OLDER, 3)
    assert (broken["name"], broken["trials"]) == ("broken", None)
    assert "broken/study.json: not a study" in str(broken["damage"])
    output = " ".join(typed(own, "studies").stdout.split())
    assert "mine 2 × 2 2 of 4 2031-01-01 00:00 PPL 4.50, BLEU 30.0" in output
    assert "broken damaged" in output
    assert output.endswith("Next: allelse table")


def test_a_folder_without_studies_says_how_to_begin(tmp_path: Path) -> None:
    outcome = typed(tmp_path, "studies", "paths.runs=elsewhere")
    assert (outcome.exit_code, studies(tmp_path), list(tmp_path.iterdir())) == (0, [], [])
    assert outcome.stdout.splitlines()[-1] == "Next: allelse sweep paths.runs=elsewhere"


@pytest.mark.parametrize("verb", READING)
def test_the_newest_study_is_read_and_named(folder: Path, verb: str) -> None:
    outcome = typed(folder, verb)
    assert (outcome.exit_code, NEWER in outcome.stdout, OLDER in outcome.stdout) == (0, True, False)
    assert " ".join(outcome.stderr.split()).startswith(
        f"Study {NEWER}, the most recently active of 2;"
    )
    for words in ([f"sweep.name={OLDER}"], ["scale=tiny"], ["data=synthetic"]):
        named_study = typed(folder, verb, *words)
        assert (named_study.exit_code, OLDER in named_study.stdout, named_study.stderr) == (
            0,
            True,
            "",
        ), named_study.output


def test_the_only_study_needs_no_name_and_no_notice(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.name=only", "sweep.rows=[base]", "scale=half")
    for verb in READING:
        outcome = typed(tmp_path, verb)
        assert (outcome.exit_code, outcome.stderr, "only" in outcome.stdout) == (0, "", True), (
            outcome.output
        )
    assert (
        study_to_read(["paths.runs=" + str(tmp_path / "runs")]).settings.study_folder
        == tmp_path / "runs/only"
    )


def test_a_damaged_study_is_passed_over_unless_it_is_the_only_one(own: Path) -> None:
    (own / f"runs/{NEWER}/study.json").write_text("{")
    outcome = typed(own, "table")
    assert (outcome.exit_code, OLDER in outcome.stdout) == (0, True)
    assert "Skipped: " in outcome.stderr
    assert f"{NEWER}/study.json" in outcome.stderr
    (own / f"runs/{OLDER}/study.json").write_text("[]")
    message = refusal(own, "table")
    assert f"{NEWER}/study.json: not a study" in message
    assert f"{OLDER}/study.json: not a study" in message


def test_the_next_command_names_a_study_that_is_not_the_newest(folder: Path) -> None:
    for words, last in (
        ([f"sweep.name={OLDER}"], f"Next: allelse table sweep.name={OLDER}"),
        ([], f"Next: allelse sweep sweep.name={NEWER}"),
    ):
        assert typed(folder, "status", *words).stdout.splitlines()[-1] == last


def test_plan_and_sweep_keep_their_default_study(folder: Path) -> None:
    assert "Plan of synthetic-tiny" in typed(folder, "plan").stdout


def test_a_long_error_leaves_the_other_columns_their_room(tmp_path: Path) -> None:
    failed = Recorder(sweep(tmp_path, "sweep.rows=[base,big]", ends=1).trials[0])
    failed.begin()
    failed.fail("ValueError: the operands have other shapes, " + "and others still, " * 9, "")
    outcome = typed(tmp_path, "status")
    lines = [line.split() for line in outcome.stdout.splitlines()]
    assert ["row", "seed", "state", "step", "dev", "PPL"] in lines, outcome.output
    assert any(line[:4] == ["base", "1", "failed", "ValueError:"] for line in lines)
    assert any(line[:2] == ["base-s1:", "ValueError:"] for line in lines), "whole, below the table"


def test_finished_trials_whose_attempts_are_lost_keep_their_lines(tmp_path: Path) -> None:
    study = sweep(tmp_path, "sweep.rows=[base]", "sweep.seeds=[1,2]", ends=2)
    for trial in study.trials:
        trial.folder.attempts_path.unlink()
    words = [line.split() for line in typed(tmp_path, "status").stdout.splitlines()]
    assert [line[1:3] for line in words if line[:1] == ["base"]] == [
        ["1", "finished"],
        ["2", "finished"],
    ]


def test_trials_of_a_row_that_have_not_begun_share_a_line(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.rows=[base,big]", "sweep.seeds=[1,2,3,4]", ends=1)
    outcome = typed(tmp_path, "status")
    lines = [re.split(r" {2,}", line.strip()) for line in outcome.stdout.splitlines()]
    shown = [(line[0], line[1], line[2]) for line in lines if line[0] in ("base", "big")]
    assert sorted(shown) == [
        ("base", "1 to 4", "missing"),
        ("big", "1", "finished"),
        ("big", "2 to 4", "missing"),
    ], "the longest trial of a seed comes first"
    assert len(json.loads(typed(tmp_path, "status", "--json").stdout)) == 8
