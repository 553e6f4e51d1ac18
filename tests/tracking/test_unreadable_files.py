"""Unreadable files: reported with the system's message and left unchanged, since they may be intact."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from damages import UNREADABLE, broken_disk, garbage, kept, looped
from studies_on_disk import begin, finish, make_study, report, result

from tracking.cause import cause_of
from tracking.damage import DamagedFileError, UnreadableError, unless_damaged, unless_lost
from tracking.files import last_line, read_object
from tracking.lag import lag
from tracking.ledger import clear
from tracking.replay import Replay
from tracking.salvage import salvage
from tracking.study import Study, read_study
from tracking.table import table
from tracking.tracker import MemoryTracker
from tracking.trial_folder import TrialFolder

Fault = Callable[[Path], None]
MESSAGES: dict[Fault, str] = {looped: "Too many levels of symbolic links", broken_disk: "Input/output error"}
FILES = (
    *("result.json", "config.yaml", "provenance.json", "attempts.jsonl", "journal.jsonl", "statistics/dev.jsonl"),
    "error.txt",
)


@pytest.fixture
def pair(tmp_path: Path) -> Study:
    """Two finished trials."""
    study = make_study(tmp_path / "pair", {"base": [1], "a_heads_1": [1]})
    for trial in study.trials:
        where = study.trial_folder(trial)
        attempt = begin(where)
        report(where, attempt, range(1, 4), checkpoints=(3,))
        where.write_hypotheses("dev", ["a"])
        head = {"key": trial.key, "step": 3, "scores": result(trial, attempt, 3)["scores"]["dev"]}
        where.write_statistics("dev", head, [{"nats": 1.0}])
        finish(study, trial, attempt, 3)
    return study


@pytest.fixture
def where(pair: Study) -> TrialFolder:
    return pair.trial_folder(pair.trials[0])


def entries(study: Study) -> list[str]:
    return sorted(str(path) for path in study.folder.rglob("*"))


@pytest.mark.parametrize("fault", UNREADABLE)
@pytest.mark.parametrize("name", FILES)
def test_each_is_named_and_left_unchanged(pair: Study, where: TrialFolder, name: str, fault: Fault) -> None:
    path = where.path / name
    fault(path)
    before = entries(pair)
    (error,) = where.damage()
    assert isinstance(error, UnreadableError)
    assert (str(error), error.note) == (f"{path}: cannot be read: {MESSAGES[fault]}", f"{path.name} {error.cause}")
    with pytest.raises(UnreadableError):
        salvage(where, error)
    assert entries(pair) == before
    rows = table(pair)
    assert rows[1].scores["ppl"] == 4.5
    assert rows[0].note == (f"damaged: {error.note}" if name == "result.json" else "")
    assert lag(pair, "memory").behind > 0


@pytest.mark.parametrize("fault", UNREADABLE)
@pytest.mark.parametrize("name", FILES)
def test_it_holds_back_only_its_own_trial_from_mlflow(pair: Study, where: TrialFolder, name: str, fault: Fault) -> None:
    fault(where.path / name)
    tracker = MemoryTracker()
    done = Replay(pair.folder, tracker, "memory").once()
    if name not in ("statistics/dev.jsonl", "error.txt"):
        (problem,) = done.problems
        assert problem.startswith(f"base-s1: {where.path / name}: cannot be read: {MESSAGES[fault]}; it may be intact")
        assert done.lasting
    sent = [run for run in tracker.runs.values() if run.tags.get("trial.key") == pair.trials[1].key]
    assert [run.status for run in sent] == ["FINISHED"]


@pytest.mark.parametrize("fault", UNREADABLE)
@pytest.mark.parametrize("name", ["error.txt", "attempts.jsonl", "journal.jsonl", "config.yaml"])
def test_a_trial_without_a_result_does_not_count_as_new(where: TrialFolder, name: str, fault: Fault) -> None:
    where.result_path.unlink()
    fault(where.path / name)
    assert where.state("k") == "damaged"


@pytest.mark.parametrize("fault", UNREADABLE)
def test_attempt_numbers_are_not_guessed_without_the_journal(where: TrialFolder, fault: Fault) -> None:
    garbage(where.attempts_path)
    fault(where.journal_path)
    damaged = next(error for error in where.damage() if error.path == where.attempts_path)
    content = where.attempts_path.read_bytes()
    with pytest.raises(UnreadableError, match=r"journal\.jsonl"):
        salvage(where, damaged)
    assert where.attempts_path.read_bytes() == content


@pytest.mark.parametrize("fault", UNREADABLE)
def test_statistics_are_not_overwritten(pair: Study, where: TrialFolder, fault: Fault) -> None:
    fault(where.statistics_path("dev"))
    before = entries(pair)
    with pytest.raises(UnreadableError):
        where.write_statistics("dev", {}, [])
    assert entries(pair) == before


@pytest.mark.parametrize("fault", UNREADABLE)
@pytest.mark.parametrize("name", ["mlflow-runs.json", "mlflow-synced.json"])
def test_a_ledger_is_not_started_over(pair: Study, name: str, fault: Fault) -> None:
    path = pair.folder / name
    path.write_text("{}")
    fault(path)
    with pytest.raises(UnreadableError, match=name):
        clear(path)
    assert kept(path).read_text() == "{}"
    assert path.is_symlink()


@pytest.mark.parametrize("fault", UNREADABLE)
def test_the_remedy_for_a_study_is_not_to_move_it_away(pair: Study, fault: Fault) -> None:
    fault(pair.folder / "study.json")
    with pytest.raises(UnreadableError) as caught:
        read_study(pair.folder)
    assert "move it away" not in caught.value.remedy
    assert cause_of(caught.value).startswith(f"{pair.folder}/study.json: cannot be read: {MESSAGES[fault]}; ")


@pytest.mark.parametrize("fault", UNREADABLE)
def test_readers_that_only_show_continue_and_those_that_rewrite_raise(tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "a.json"
    fault(path)
    assert unless_damaged(lambda: read_object(path), 3) == 3
    for read in (read_object, last_line):
        with pytest.raises(UnreadableError):
            unless_lost(partial(read, path), 3)
    path.unlink()
    path.write_text("{")
    assert unless_lost(lambda: read_object(path), 3) == 3
    with pytest.raises(DamagedFileError, match="not JSON"):
        read_object(path)
