"""The events of workers, recorded in the trial's folder by one process."""

import json
import os
import shutil
import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ablate_in_folder import plan

from sweeps.events import Evaluated, Evaluating, Event, Failed, Finished, Report, Resumed, Started
from sweeps.planning.plan import PlannedTrial
from sweeps.planning.same_data import check_data
from sweeps.running.recorder import Recorder
from tracking.artifacts import hypotheses_name, hypotheses_text, statistics_name, statistics_text
from tracking.damage import DamagedFileError
from transformer.data.prepare import prepare

COSTS = {"params": 411_904, "flops": 2.5e12, "seconds": 12.5, "tokens_per_s": 900.0}
SCORES = {"nll": 1.5, "ppl": 4.5, "bleu": 30.0, "chrf": 50.0, "signature": "nrefs:1"}
DECODE = {"beam": 4, "alpha": 0.6, "max_extra": 50, "average_checkpoints": 1}


@pytest.fixture
def planned(tmp_path: Path) -> PlannedTrial:
    return plan(tmp_path, "sweep.rows=[base]").trials[0]


def begun(planned: PlannedTrial) -> Recorder:
    recorder = Recorder(planned)
    recorder.begin()
    return recorder


def finished() -> Finished:
    return Finished(600, COSTS, {name: {**SCORES, "decode": DECODE} for name in ("dev", "test")})


def evaluated(planned: PlannedTrial, set_name: str, *hypotheses: str, step: int = 600, **decode: Any) -> Evaluated:
    scores = {**SCORES, "decode": DECODE | decode}
    head = {"key": planned.trial.key, "step": step, "scores": scores}
    sentences = [{"nats": 1.5, "pieces": 3} for _ in hypotheses]
    texts = {
        hypotheses_name(set_name): hypotheses_text(hypotheses),
        statistics_name(set_name): statistics_text(head, sentences),
    }
    return Evaluated(step, set_name, scores, texts)


def journal(planned: PlannedTrial) -> list[tuple[int, int, dict[str, float]]]:
    return [(line.attempt, line.step, line.metrics) for line in planned.folder.journal()]


def test_attempts_are_numbered_across_recorders(planned: PlannedTrial) -> None:
    recorder = Recorder(planned)
    assert (recorder.attempt, recorder.assignment().attempt) == (1, 1)
    recorder.begin()
    recorder.give_up("gone")
    assert (recorder.attempt, recorder.assignment().attempt) == (2, 2)
    recorder.begin()
    assert begun(planned).attempt == 3
    first, second, third = planned.folder.attempts()
    assert [a.number for a in (first, second, third)] == [1, 2, 3]
    assert (first.reason, second.reason, third.ended) == ("worker lost: gone", "lost", None)
    assert (third.host, third.pid) == (socket.gethostname(), os.getpid())


def test_an_attempt_that_is_lost_before_it_began_is_counted(planned: PlannedTrial) -> None:
    """Its process died while it started: the next one has the next number, and its events count."""
    recorder = Recorder(planned)
    recorder.give_up("gone while starting")
    again = recorder.assignment()
    recorder.begin()
    assert recorder.take(again.attempt, Report(1, {"train/loss": 5.0}))
    assert [(a.number, a.reason) for a in planned.folder.attempts()] == [
        (1, "worker lost: gone while starting"),
        (2, None),
    ]


def test_an_event_of_an_attempt_that_never_began_is_an_error(planned: PlannedTrial) -> None:
    recorder = Recorder(planned)
    with pytest.raises(RuntimeError, match="base-s1: attempt 1 reports"):
        recorder.take(1, Report(1, {"train/loss": 5.0}))
    recorder.begin()
    with pytest.raises(RuntimeError, match="base-s1: attempt 2 reports, but attempt 1 was expected"):
        recorder.take(2, Report(1, {"train/loss": 5.0}))


def test_an_assignment_is_what_was_planned(planned: PlannedTrial, tmp_path: Path) -> None:
    assignment = Recorder(planned).assignment()
    assert assignment.config == asdict(planned.config)
    assert (assignment.task, assignment.seed) == ("translation", 1)
    assert assignment.key == planned.trial.key
    assert assignment.data_folder == str(tmp_path / "data")
    assert assignment.data_fingerprint == planned.fingerprint
    assert assignment.checkpoints == str(tmp_path / "runs/synthetic-tiny/base-s1/checkpoints")
    assert assignment.threads == 1


def test_checkpoints_elsewhere_are_separated_by_study_and_trial(tmp_path: Path) -> None:
    elsewhere = plan(tmp_path, "sweep.rows=[base]", "paths.checkpoints=s3://bucket/deep", "sweep.name=first").trials[0]
    assert Recorder(elsewhere).assignment().checkpoints == "s3://bucket/deep/first/base-s1"


def test_nothing_is_written_before_an_attempt_begins(planned: PlannedTrial, tmp_path: Path) -> None:
    Recorder(planned).assignment()
    assert list(tmp_path.iterdir()) == []


def test_the_configuration_is_written_whole_and_can_be_read_back(planned: PlannedTrial) -> None:
    begun(planned)
    stored = yaml.safe_load(planned.folder.config_path.read_text("utf-8"))
    assert stored.pop("key") == planned.trial.key
    assert stored.pop("data_fingerprint") == planned.fingerprint
    assert stored == planned.settings.to_dict()


def test_no_attempt_stands_without_its_configuration(planned: PlannedTrial) -> None:
    recorder = Recorder(planned)
    (planned.folder.config_path / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match=r"config\.yaml"):
        recorder.begin()
    assert not planned.folder.attempts_path.exists()


def test_no_later_attempt_begins_where_the_record_of_earlier_ones_is_gone(planned: PlannedTrial) -> None:
    """Its filesystem was unmounted, and the folder below can be written."""
    recorder = begun(planned)
    recorder.give_up("worker lost: a cause")
    shutil.rmtree(planned.folder.path)
    with pytest.raises(OSError, match="the record of attempt 1 is gone"):
        recorder.begin()
    assert not planned.folder.path.exists()


def test_the_configuration_stands_when_the_attempt_cannot_be_written(planned: PlannedTrial) -> None:
    recorder = Recorder(planned)
    planned.folder.attempts_path.mkdir(parents=True)
    with pytest.raises(DamagedFileError, match=r"attempts\.jsonl"):
        recorder.begin()
    assert planned.folder.config_path.is_file()


def test_a_trial_that_began_with_another_vocabulary_is_found(planned: PlannedTrial, tmp_path: Path) -> None:
    """The same text was prepared again, by another version of SentencePiece."""
    data = planned.settings.trial.data
    first = prepare(replace(data, vocab_size=1000), tmp_path / "data", planned.fingerprint)
    recorder = begun(planned)
    recorder.take(1, Started("a device", 1))
    assert planned.folder.provenance()["vocabulary"] == first.vocabulary_sha256
    assert recorder.assignment().prepared_as == first.vocabulary_sha256
    assert check_data(planned.folder, first.vocabulary_sha256, first.folder) == []
    other = prepare(replace(data, vocab_size=900), tmp_path / "other")
    (problem,) = check_data(planned.folder, other.vocabulary_sha256, other.folder)
    assert problem.found == "has another vocabulary of this text than base-s1 was trained with"
    content = planned.folder.provenance()
    content.pop("vocabulary")
    planned.folder.provenance_path.write_text(json.dumps(content))  # as an earlier version wrote it
    assert check_data(planned.folder, other.vocabulary_sha256, other.folder) == []


def test_provenance_is_of_the_data_and_the_device(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    assert recorder.take(1, Started("a device", 1))
    provenance = json.loads(planned.folder.provenance_path.read_text("utf-8"))
    assert (provenance["device"], provenance["data_fingerprint"]) == ("a device", planned.fingerprint)
    assert {"commit", "dirty", "versions", "host"} <= set(provenance)


def test_provenance_names_the_hosts_of_the_workers_and_the_one_of_the_sweep(planned: PlannedTrial) -> None:
    begun(planned).take(1, Started("a device", 2, ("node-b", "node-a")))
    provenance = planned.folder.provenance()
    assert (provenance["host"], provenance["hosts"]) == ("node-b", ["node-a", "node-b"]), "rank zero is on the first"
    assert provenance["driver"] == socket.gethostname()


def test_events_of_an_older_attempt_are_dropped(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, Report(1, {"train/loss": 5.0}))
    recorder.give_up("gone")
    recorder.begin()
    late: list[Event] = [
        Started("old", 1),
        Report(2, {"train/loss": 4.0}),
        Resumed(0, ()),
        finished(),
        Failed("old", "old"),
    ]
    assert [recorder.take(1, event) for event in [*late, evaluated(planned, "dev", "old")]] == [False] * 6
    assert journal(planned) == [(1, 1, {"train/loss": 5.0})]
    assert not planned.folder.provenance_path.exists()
    assert planned.folder.result() is None
    assert planned.folder.error() is None
    assert planned.folder.attempts()[-1].ended is None


def test_resuming_cuts_back_to_the_checkpoint_and_no_step_stands_twice(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    for step in (20, 40, 60):
        recorder.take(1, Report(step, {"train/loss": 5.0}, checkpoint=40 if step == 40 else None))
    recorder.give_up("gone")
    recorder.begin()
    recorder.take(2, Started("cpu", 1))
    recorder.take(2, Resumed(40, ()))
    assert [(attempt, step) for attempt, step, _ in journal(planned)] == [(1, 20), (1, 40)]
    for step in (60, 80):
        assert recorder.take(2, Report(step, {"train/loss": 3.0}))
    assert [(attempt, step) for attempt, step, _ in journal(planned)] == [(1, 20), (1, 40), (2, 60), (2, 80)]


def test_resuming_fills_in_the_reports_that_were_never_written(planned: PlannedTrial) -> None:
    """The checkpoint was saved, and the process died before its reports were received."""
    recorder = begun(planned)
    reports = tuple(Report(step, {"train/loss": 5.0}) for step in (20, 30, 40))
    recorder.take(1, reports[0])
    recorder.give_up("gone")
    recorder.begin()
    recorder.take(2, Resumed(40, reports))
    assert journal(planned) == [(attempt, step, {"train/loss": 5.0}) for attempt, step in ((1, 20), (2, 30), (2, 40))]


def test_an_attempt_that_found_no_checkpoint_writes_its_own_steps(planned: PlannedTrial) -> None:
    """It starts at step 0 and sends no Resumed, so the reports of the lost attempt are not its history."""
    recorder = begun(planned)
    for step in (20, 40):
        recorder.take(1, Report(step, {"train/loss": 5.0}))
    recorder.give_up("gone")
    recorder.begin()
    recorder.take(2, Started("cpu", 1))
    for step in (20, 40, 60):
        recorder.take(2, Report(step, {"train/loss": 3.0}))
    assert journal(planned) == [(2, step, {"train/loss": 3.0}) for step in (20, 40, 60)]


def test_finishing_writes_the_result_the_hypotheses_and_the_end(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, Report(600, {"train/loss": 2.0}, checkpoint=600))
    recorder.take(1, Evaluating(600))
    assert planned.folder.state(planned.trial.key) == "running"
    recorder.take(1, evaluated(planned, "dev", "ein Hund", "zwei\nHunde"))
    recorder.take(1, evaluated(planned, "test", "drei Hunde"))
    recorder.take(1, finished())
    result = planned.folder.result()
    assert result == {
        **{"key": planned.trial.key, "row": "base", "seed": 1, "step": 600, "attempt": 1},
        **COSTS,
        "scores": {name: {**SCORES, "decode": DECODE} for name in ("dev", "test")},
    }
    names = {"key", "row", "seed", "step", "attempt", "params", "flops", "seconds", "tokens_per_s", "scores"}
    assert set(result or {}) == names
    assert planned.folder.hypotheses_path("dev").read_text("utf-8") == "ein Hund\nzwei Hunde\n"
    assert planned.folder.hypotheses_path("test").read_text("utf-8") == "drei Hunde\n"
    assert [attempt.reason for attempt in planned.folder.attempts()] == ["finished"]
    assert planned.finished


def test_the_next_attempt_reuses_evaluations(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    assert recorder.assignment().evaluated == {}
    recorder.take(1, evaluated(planned, "dev", "ein Hund", "zwei Hunde"))
    again = Recorder(planned)
    assert again.assignment().evaluated == {"dev": {**SCORES, "decode": DECODE}}
    assert planned.folder.statistics("dev") == (
        {"key": planned.trial.key, "step": 600, "scores": {**SCORES, "decode": DECODE}},
        [{"nats": 1.5, "pieces": 3}] * 2,
    )
    planned.folder.hypotheses_path("dev").unlink()
    assert again.assignment().evaluated == {}


def test_evaluations_with_other_settings_are_not_reused(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, evaluated(planned, "dev", "ein Hund", step=400))
    recorder.take(1, evaluated(planned, "test", "ein Hund", beam=8))
    recorder.take(1, evaluated(planned, "wmt14/full", "ein Hund"))
    assert list(recorder.assignment().evaluated) == ["wmt14/full"]
    other = replace(planned, trial=replace(planned.trial, key="0" * 64))
    assert Recorder(other).assignment().evaluated == {}


def test_another_evaluated_set_stays_in_the_result_until_decoding_changes(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, finished())
    first = planned.folder.result()
    assert first
    further = {"wmt14/full": {**SCORES, "decode": DECODE}}
    planned.folder.write_result(first | {"scores": first["scores"] | further})
    recorder = begun(planned)
    recorder.take(2, finished())
    same = planned.folder.result()
    assert same
    assert same["scores"] == first["scores"] | further
    other = {name: {**SCORES, "decode": {**DECODE, "beam": 8}} for name in ("dev", "test")}
    recorder = begun(planned)
    recorder.take(3, replace(finished(), scores=other))
    changed = planned.folder.result()
    assert changed
    assert changed["scores"] == other


def test_failing_writes_the_cause_in_the_first_line(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, Failed("ValueError: no", "Traceback …\nValueError: no"))
    assert planned.folder.error() == "ValueError: no\n\nTraceback …\nValueError: no\n"
    assert [attempt.reason for attempt in planned.folder.attempts()] == ["failed: ValueError: no"]
    assert planned.folder.state(planned.trial.key) == "failed"


def test_a_failure_without_details_is_its_cause(planned: PlannedTrial) -> None:
    begun(planned).fail("RayError: a node was lost")
    assert planned.folder.error() == "RayError: a node was lost\n"


def test_a_new_attempt_clears_the_error(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, Failed("ValueError: no", ""))
    begun(planned)
    assert planned.folder.error() is None
    assert planned.folder.state(planned.trial.key) == "running"


def test_an_attempt_ends_once(planned: PlannedTrial) -> None:
    recorder = begun(planned)
    recorder.take(1, finished())
    recorder.end("interrupted")
    assert [attempt.reason for attempt in planned.folder.attempts()] == ["finished"]
    assert len(planned.folder.attempts_path.read_text("utf-8").splitlines()) == 2


def test_a_folder_whose_storage_is_gone_is_not_made_anew(planned: PlannedTrial, tmp_path: Path) -> None:
    """A folder that is unmounted looks empty: what was written there would be lost once it is back."""
    recorder = begun(planned)
    recorder.take(1, Report(1, {"train/loss": 5.0}))
    planned.folder.path.rename(tmp_path / "away")
    for event in (Report(2, {"train/loss": 4.0}), finished()):
        with pytest.raises(OSError, match=r"the record of attempt 1 is gone: .*attempts.jsonl"):
            recorder.take(1, event)
    assert not planned.folder.path.exists()
    (tmp_path / "away").rename(planned.folder.path)
    recorder.take(1, Report(2, {"train/loss": 4.0}))
    assert journal(planned) == [(1, 1, {"train/loss": 5.0}), (1, 2, {"train/loss": 4.0})]
