"""Damaged files: named, kept, and no obstacle to other trials."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from damages import DAMAGES, cut, empty, first_line, folder, garbage
from studies_on_disk import begin, finish, make_study, report, result

from tracking.cause import cause_of
from tracking.damage import DamagedFileError, kept_name, set_aside, unless_damaged
from tracking.files import read_lines, read_object
from tracking.lag import lag
from tracking.ledger import Ledger, run_of_trial
from tracking.replay import Replay
from tracking.salvage import salvage
from tracking.study import Study
from tracking.table import table, to_markdown
from tracking.tracker import MemoryTracker, RunSpec
from tracking.trial_folder import TrialFolder

Damage = Callable[[Path], None]
FILES = ("result.json", "config.yaml", "provenance.json", "attempts.jsonl", "journal.jsonl", "statistics/dev.jsonl")
CONFIG = {"key": "k", "data_fingerprint": "f", "model": {"d_k": 8}, "train": {}, "decode": {"beam": 4}, "data": {}}
PATHS = {"runs": "runs", "data": "data", "checkpoints": None}
WHOLE = {("journal.jsonl", empty), ("journal.jsonl", cut), ("attempts.jsonl", cut)}
"""Not damage: a journal may be empty, and a crash may tear the last line."""


@pytest.fixture
def pair(tmp_path: Path) -> Study:
    """Two finished trials with all their files."""
    study = make_study(tmp_path / "pair", {"base": [1], "a_heads_1": [1]})
    for trial in study.trials:
        where = study.trial_folder(trial)
        attempt = begin(where)
        where.config_path.write_text(yaml.safe_dump({**CONFIG, "paths": PATHS}, sort_keys=False))
        where.provenance_path.write_text(json.dumps({"commit": "abc", "dirty": False, "device": "cpu"}) + "\n")
        report(where, attempt, range(1, 10), checkpoints=(5,))
        where.write_hypotheses("dev", ["a", "b"])
        scores = result(trial, attempt, 9)["scores"]["dev"]
        where.write_statistics("dev", {"key": trial.key, "step": 9, "scores": scores}, [{"nats": 1.0}, {"nats": 2.0}])
        finish(study, trial, attempt, 9)
    return study


def damaged(study: Study, name: str, damage: Damage) -> TrialFolder:
    """The folder of base after damage to this file."""
    where = study.trial_folder(study.trials[0])
    damage(where.path / name)
    return where


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_each_is_named_and_the_other_trial_is_unaffected(pair: Study, name: str, damage: Damage) -> None:
    where = damaged(pair, name, damage)
    found = where.damage()
    assert [error.path for error in found] == [] if (name, damage) in WHOLE else [where.path / name]
    assert all(Path(name).name in error.note and error.remedy for error in found)
    state = "damaged" if name == "result.json" else "finished"
    assert where.state(pair.trials[0].key) == state
    rows = table(pair)
    assert (rows[0].scores["ppl"] is None, rows[1].scores["ppl"]) == (state == "damaged", 4.5)
    assert ("damaged: result.json" in to_markdown(pair, rows)) == (state == "damaged")
    assert lag(pair, "memory").behind > 0


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_it_holds_back_only_its_own_trial_from_mlflow(pair: Study, name: str, damage: Damage) -> None:
    damaged(pair, name, damage)
    tracker = MemoryTracker()
    done = Replay(pair.folder, tracker, "memory").once()
    assert all(f"base-s1: {pair.folder}/base-s1/{name}" in problem for problem in done.problems)
    named = (name, damage) not in WHOLE and name != "statistics/dev.jsonl"
    if named and (name, damage) != ("attempts.jsonl", empty):  # without attempts there is no run
        assert len(done.problems) == 1
    sent = [run for run in tracker.runs.values() if run.tags.get("trial.key") == pair.trials[1].key]
    assert [run.status for run in sent] == ["FINISHED"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_the_damaged_content_is_kept_and_the_rest_stays(pair: Study, name: str, damage: Damage) -> None:
    before = pair.trial_folder(pair.trials[0]).journal()
    where = damaged(pair, name, damage)
    path = where.path / name
    content = path.read_bytes() if path.is_file() else None
    found = where.damage()
    for error in found:
        assert salvage(where, error)
    assert where.damage() == []
    if found and path.name != "attempts.jsonl":
        kept = path.with_name(f"{path.name}.damaged")
        assert (kept / "inside").exists() if content is None else kept.read_bytes() == content
    if name != "journal.jsonl":
        assert where.journal() == before
    elif damage is first_line:
        assert where.journal() == before[1:]
    assert begin(where) >= 2, "an attempt's number is never used twice"


@pytest.mark.parametrize(
    ("bad", "lost"),
    [
        ([3], "1 report between steps 3 and 5"),
        ([3, 4], "2 reports between steps 3 and 6"),
        ([0, 3, 8], "1 report before step 2, 1 report between steps 3 and 5, 1 report after step 8"),
        (list(range(9)), "9 reports"),
    ],
)
def test_salvage_names_the_lost_reports(pair: Study, bad: list[int], lost: str) -> None:
    where = pair.trial_folder(pair.trials[0])
    lines = where.journal_path.read_text().splitlines()
    where.journal_path.write_text("".join("nonsense\n" if i in bad else f"{line}\n" for i, line in enumerate(lines)))
    (error,) = where.damage()
    kept = f"kept as journal.jsonl.damaged; {9 - len(bad)} of 9 lines are good and stay"
    assert salvage(where, error) == f"{kept}; lost: {lost}"
    assert [report.step for report in where.journal()] == [i + 1 for i in range(9) if i not in bad]


def test_a_journal_that_is_a_folder_loses_all_reports(pair: Study) -> None:
    where = damaged(pair, "journal.jsonl", folder)
    assert salvage(where, where.damage()[0]) == "kept as journal.jsonl.damaged; lost: all reports"


def test_only_damage_is_a_lasting_problem(pair: Study) -> None:
    tracker = MemoryTracker()
    assert not Replay(pair.folder, tracker, "memory").once().lasting
    damaged(pair, "journal.jsonl", garbage)
    assert Replay(pair.folder, tracker, "memory").once().lasting

    class Unreachable(MemoryTracker):
        def find_run(self, spec: RunSpec, known: str | None) -> str | None:
            raise ConnectionError("server down")

    assert not Replay(pair.folder, Unreachable(), "memory").once().lasting


def test_the_number_in_a_lost_line_is_not_used_again(tmp_path: Path) -> None:
    where = TrialFolder(tmp_path / "base-s1")
    for _ in range(3):
        begin(where)
    lines = where.attempts_path.read_bytes().splitlines(keepends=True)
    where.attempts_path.write_bytes(b"".join([*lines[:-1], b"nonsense\n"]))
    (error,) = where.damage()
    salvage(where, error)
    assert begin(where) >= 4
    (where.path / "checkpoints" / "0123456789abcdef" / "a9").mkdir(parents=True)
    garbage(where.attempts_path)
    salvage(where, where.damage()[0])
    assert begin(where) >= 10


def test_missing_attempts_are_damage(pair: Study) -> None:
    where = pair.trial_folder(pair.trials[0])
    where.attempts_path.unlink()
    (error,) = where.damage()
    assert "attempts.jsonl is damaged: is missing, but journal.jsonl has reports" in error.note
    salvage(where, error)
    assert where.damage() == []
    assert begin(where) == 2


def test_a_file_where_the_folder_should_be_is_named(pair: Study) -> None:
    where = pair.trial_folder(pair.trials[0])
    where.path.rename(where.path.with_name("elsewhere"))
    where.path.write_text("")
    (error,) = where.damage()
    assert (error.path, where.state("k")) == (where.path, "damaged")
    salvage(where, error)
    assert (where.damage(), where.state("k")) == ([], "missing")


def test_an_unfinished_trial_is_damaged_as_long_as_it_cannot_resume(pair: Study) -> None:
    where = pair.trial_folder(pair.trials[0])
    where.result_path.unlink()
    assert where.state("k") == "interrupted"
    for name in ("journal.jsonl", "config.yaml"):
        garbage(where.path / name)
        assert where.state("k") == "damaged"
        salvage(where, where.damage()[0])
        assert where.state("k") == "interrupted"


def test_set_aside_files_get_different_names(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "a.json").write_text(str(number))
        set_aside(tmp_path / "a.json")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        **{"a.json.damaged": "0", "a.json.damaged-2": "1", "a.json.damaged-3": "2"},
    }
    assert kept_name(tmp_path / "a.json").name == "a.json.damaged-4"


@pytest.mark.parametrize("name", ["mlflow-runs.json", "mlflow-synced.json"])
@pytest.mark.parametrize("damage", [empty, cut, garbage, folder])
def test_a_ledger_is_started_over_and_the_runs_stay(pair: Study, name: str, damage: Damage) -> None:
    tracker = MemoryTracker()
    Replay(pair.folder, tracker, "memory").once()
    runs = set(tracker.runs)
    damage(pair.folder / name)
    assert name in lag(pair, "memory").words() or name == "mlflow-runs.json"
    if name == "mlflow-runs.json":
        with pytest.raises(DamagedFileError, match=name):
            run_of_trial(pair.folder, pair.trials[0].key, "memory")
    done = Replay(pair.folder, tracker, "memory").once()
    assert (done.problems, set(tracker.runs)) == ((), runs)
    assert f"{name}.damaged" in done.notices[0]
    assert (pair.folder / f"{name}.damaged").exists()
    assert Ledger(pair.folder / name, "memory").get(pair.trials[0].key)
    assert Replay(pair.folder, tracker, "memory").once().notices == ()


@pytest.mark.parametrize("content", ['{"memory": 3}', '{"memory": {"k": 3}}', '{"memory": {"k": {"step": 3}}}'])
def test_a_ledger_of_another_shape_is_damaged(tmp_path: Path, content: str) -> None:
    for name in ("mlflow-runs.json", "mlflow-synced.json"):
        (tmp_path / name).write_text(content)
        with pytest.raises(DamagedFileError, match="are not runs of trials"):
            Ledger(tmp_path / name, "memory")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ({"ts": 1.0, "attempt": 1, "metrics": {}}, "must have a step"),
        ({"ts": 1.0, "attempt": 1, "step": "3", "metrics": {}}, "must have a step"),
        ({"ts": 1.0, "attempt": 1, "step": 3, "metrics": {"a": "b"}}, "each a number"),
        ({"ts": 1.0, "attempt": 1, "step": 3}, "must have metrics"),
    ],
)
def test_an_incomplete_line_is_named_with_its_number(tmp_path: Path, line: object, cause: str) -> None:
    where = TrialFolder(tmp_path)
    report(where, begin(where), range(1, 3))
    with where.journal_path.open("a") as journal:
        journal.write(f"{json.dumps(line)}\n")
    with pytest.raises(DamagedFileError, match=rf"journal\.jsonl:3: .*{cause}"):
        where.journal()


def test_a_score_that_is_not_a_number_is_damage(pair: Study) -> None:
    where = pair.trial_folder(pair.trials[0])
    content = json.loads(where.result_path.read_text())
    content["scores"]["dev"]["bleu"] = "30"
    where.result_path.write_text(json.dumps(content))
    assert (where.state(pair.trials[0].key), table(pair)[0].scores["bleu"]) == ("damaged", None)


def test_an_error_that_is_not_utf8_is_still_shown(tmp_path: Path) -> None:
    where = TrialFolder(tmp_path)
    where.error_path.write_bytes(b"\xffboom at ftp://me:secret@host\nmore")
    assert where.cause() == "\ufffdboom at ftp://***@host"
    where.error_path.write_text("")
    assert where.cause() == "no cause was written"


def test_a_cause_includes_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(DamagedFileError) as caught:
        read_object(tmp_path / "result.json")
    assert cause_of(caught.value) == f"{caught.value}; {caught.value.remedy}"
    assert unless_damaged(lambda: read_lines(tmp_path), None) is None
