"""Replays of journals into a real MLflow, in this process."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from studies_on_disk import DECODE, Store, begin, finish, history, only_run, report, result, runs_of

from tracking.describe import run_spec
from tracking.ledger import trial_of_run
from tracking.local_store import HERE
from tracking.replay import Replay
from tracking.runners import Runner, announce, withdraw
from tracking.study import Study
from tracking.tracker import MemoryTracker
from tracking.trial_folder import TrialFolder


def sync_once(study: Study, store: Store) -> int:
    """One pass of a new syncer, as after a restart. Returns the points sent."""
    done = Replay(study.folder, *store).once()
    assert done.problems == ()
    return done.points


def test_a_replay_changes_nothing(study: Study, folder: TrialFolder, store: Store) -> None:
    attempt = begin(folder)
    report(folder, attempt, range(1, 2001), checkpoints=(2000,))
    assert sync_once(study, store) == 2000
    assert sync_once(study, store) == 0
    (study.folder / "mlflow-synced.json").unlink()
    assert sync_once(study, store) == 2000, "again from the start"
    assert history(study, store) == [(step, 10.0 + step) for step in range(1, 2001)]


def test_points_are_sent_in_batches_that_a_server_accepts(
    study: Study, folder: TrialFolder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    send = store[0].client.log_batch

    def watched(run_id: str, metrics: Sequence[Any] = (), **more: Any) -> None:
        sizes.append(len(metrics))
        send(run_id, metrics=metrics, **more)

    monkeypatch.setattr(store[0].client, "log_batch", watched)
    report(folder, begin(folder), range(1, 1200), checkpoints=(1199,))
    assert sync_once(study, store) == 1199
    assert [size for size in sizes if size] == [1000, 199]


def test_one_run_per_trial_even_without_the_ledger(study: Study, folder: TrialFolder, store: Store) -> None:
    begin(folder)
    sync_once(study, store)
    first = only_run(study, store).info.run_id
    path = study.folder / "mlflow-runs.json"
    assert json.loads(path.read_text()) == {HERE: {study.trials[0].key: first}}
    path.unlink()
    sync_once(study, store)
    assert only_run(study, store).info.run_id == first
    assert json.loads(path.read_text()) == {HERE: {study.trials[0].key: first}}


@pytest.mark.parametrize("damage", [None, "", '{"trials": '])
def test_unreadable_studies_do_not_hide_the_trial_of_a_run(
    study: Study, folder: TrialFolder, store: Store, tmp_path: Path, damage: str | None
) -> None:
    begin(folder)
    sync_once(study, store)
    run_id = only_run(study, store).info.run_id
    for name in ("a-broken", "b-whole"):
        shutil.copytree(study.folder, tmp_path / name)
    if damage is None:
        (tmp_path / "a-broken" / "study.json").unlink()
    else:
        (tmp_path / "a-broken" / "study.json").write_text(damage)
    assert trial_of_run(tmp_path, run_id) == tmp_path / "b-whole" / study.trials[0].name
    (tmp_path / "b-whole" / "mlflow-runs.json").write_text(damage or "")
    assert trial_of_run(tmp_path, run_id) is None


def test_one_run_after_a_crash_between_create_and_store(study: Study, folder: TrialFolder, store: Store) -> None:
    begin(folder)
    spec = run_spec(study, study.trials[0], folder.attempts())
    made = store[0].create_run(spec)
    sync_once(study, store)
    assert only_run(study, store).info.run_id == made


def test_a_run_that_the_store_lost_is_created_again_with_all_its_points(
    study: Study, folder: TrialFolder, store: Store
) -> None:
    report(folder, begin(folder), range(1, 4), checkpoints=(3,))
    sync_once(study, store)
    store[0].client.delete_run(only_run(study, store).info.run_id)
    sync_once(study, store)
    assert [step for step, _ in history(study, store)] == [1, 2, 3]


def test_only_trials_that_have_begun_get_a_run(study: Study, store: Store) -> None:
    assert sync_once(study, store) == 0
    assert runs_of(study, store) == []


def test_nothing_beyond_the_last_checkpoint_until_finished(study: Study, folder: TrialFolder, store: Store) -> None:
    attempt = begin(folder)
    report(folder, attempt, range(1, 4))
    assert sync_once(study, store) == 0
    report(folder, attempt, range(4, 9), checkpoints=(4, 6))
    sync_once(study, store)
    assert [step for step, _ in history(study, store)] == [1, 2, 3, 4, 5, 6]
    finish(study, study.trials[0], attempt, 8)
    assert sync_once(study, store) > 2, "the two last steps, scores and costs"
    assert sync_once(study, store) == 0
    assert [step for step, _ in history(study, store)] == list(range(1, 9))


def test_after_a_rollback_each_step_appears_once(study: Study, folder: TrialFolder, store: Store) -> None:
    report(folder, begin(folder), range(1, 8), checkpoints=(4,))
    sync_once(study, store)
    folder.restore(2, 4, [])
    attempt = begin(folder)
    report(folder, attempt, range(5, 10), checkpoints=(8,))
    sync_once(study, store)
    finish(study, study.trials[0], attempt, 9)
    sync_once(study, store)
    first, second = [(s, 10.0 + s) for s in range(1, 5)], [(s, 20.0 + s) for s in range(5, 10)]
    assert history(study, store) == first + second


def test_after_a_rollback_behind_the_sent_points_each_step_appears_once(
    study: Study, folder: TrialFolder, store: Store
) -> None:
    """The newest checkpoint turned out damaged."""
    report(folder, begin(folder), range(1, 8), checkpoints=(2, 6))
    sync_once(study, store)
    folder.restore(2, 2, [])
    report(folder, begin(folder), range(3, 10), checkpoints=(9,))
    sync_once(study, store)
    assert [step for step, _ in history(study, store)] == list(range(1, 10))


def test_a_failed_trial_resumes_and_finishes(study: Study, folder: TrialFolder, store: Store) -> None:
    def status() -> str:
        sync_once(study, store)
        return str(only_run(study, store).info.status)

    attempt = begin(folder)
    assert status() == "RUNNING"
    folder.write_error("boom")
    folder.end_attempt(attempt, "failed")
    assert status() == "FAILED"
    attempt = begin(folder)
    assert status() == "RUNNING"
    folder.end_attempt(attempt, "interrupted")
    assert status() == "KILLED"
    attempt = begin(folder)
    folder.write_result(result(study.trials[0], attempt, 9))
    assert status() == "RUNNING", "the end, which gives the result's time, is not written yet"
    folder.end_attempt(attempt, "finished")
    assert status() == "FINISHED"
    info, attempts = only_run(study, store).info, folder.attempts()
    assert info.start_time == round(attempts[0].began * 1000)
    assert info.end_time == round((attempts[-1].ended or 0) * 1000)


def test_a_trial_that_another_machine_runs_is_running(study: Study, folder: TrialFolder, store: Store) -> None:
    now = time.time()
    folder.begin_attempt(1, "node-b", 7, "elsewhere-7-1")
    elsewhere = Runner("node-b", 7, now, now, ("base-s1",), birth="elsewhere-7-1")
    announce(study.folder, elsewhere)
    sync_once(study, store)
    assert only_run(study, store).info.status == "RUNNING"
    withdraw(study.folder, elsewhere)
    sync_once(study, store)
    assert only_run(study, store).info.status == "KILLED"


def test_the_last_pass_of_a_sweep_that_could_record_no_end_shows_that_its_trials_run_no_more(
    study: Study, folder: TrialFolder, store: Store
) -> None:
    report(folder, begin(folder), range(1, 4), checkpoints=(3,))
    replay = Replay(study.folder, *store)
    replay.once()
    assert only_run(study, store).info.status == "RUNNING"
    replay.once(ended=os.getpid())
    assert only_run(study, store).info.status == "KILLED"


def test_the_same_syncer_sees_each_change_once(study: Study, folder: TrialFolder, store: Store) -> None:
    replay = Replay(study.folder, *store)
    attempt = begin(folder)
    report(folder, attempt, range(1, 4), checkpoints=(3,))
    assert [replay.once().points, replay.once().points] == [3, 0]
    report(folder, attempt, range(4, 6), checkpoints=(5,))
    assert [replay.once().points, replay.once().points] == [2, 0]


def test_an_unchanged_trial_costs_no_request(study: Study, folder: TrialFolder) -> None:
    begin(folder)
    tracker = MemoryTracker()
    replay = Replay(study.folder, tracker, "memory")
    replay.once()
    tracker.runs.clear()  # a second replay of the trial would create its run again
    replay.once()
    assert tracker.runs == {}


def test_scores_and_costs_are_logged_at_the_step_of_the_result(study: Study, folder: TrialFolder, store: Store) -> None:
    attempt = begin(folder)
    finish(study, study.trials[0], attempt, 30, ppl=float("inf"))
    sync_once(study, store)
    run = only_run(study, store)
    ended = round((folder.attempts()[0].ended or 0) * 1000)
    (bleu,) = store[0].client.get_metric_history(run.info.run_id, "final/bleu")
    assert (bleu.value, bleu.step, bleu.timestamp) == (30.0, 30, ended)
    assert "final/ppl" not in run.data.metrics
    assert run.data.metrics["final/test/ppl"] == 4.5
    assert run.data.metrics["params"] == 63_045_632
    assert {"final/nll", "final/chrf", "flops", "seconds", "tokens_per_s"} <= set(run.data.metrics)


def test_a_lower_score_after_new_decode_settings_is_the_latest(study: Study, folder: TrialFolder, store: Store) -> None:
    attempt = begin(folder)
    finish(study, study.trials[0], attempt, 30)
    sync_once(study, store)
    folder.write_result(result(study.trials[0], attempt, 30, bleu=25.0))
    sync_once(study, store)
    assert only_run(study, store).data.metrics["final/bleu"] == 25.0


def test_decode_tags_are_those_of_the_current_scores(study: Study, folder: TrialFolder, store: Store) -> None:
    def decode_tags() -> dict[str, str]:
        sync_once(study, store)
        run = only_run(study, store)
        assert not [name for name in run.data.params if name.startswith("decode.")]
        return {name: value for name, value in run.data.tags.items() if name.startswith("decode.")}

    attempt = begin(folder)
    folder.config_path.write_text(yaml.safe_dump({"train": {"steps": 30}, "decode": DECODE}))
    usual = {"decode.beam": "4", "decode.alpha": "0.6", "decode.max_extra": "50", "decode.average_checkpoints": "1"}
    assert decode_tags() == usual
    finish(study, study.trials[0], attempt, 30)
    assert decode_tags() == usual
    folder.config_path.write_text(yaml.safe_dump({"train": {"steps": 30}, "decode": DECODE | {"beam": 8}}))
    attempt = begin(folder)
    assert decode_tags() == usual, "the trial is being scored again, and the old scores are still valid"
    finish(study, study.trials[0], attempt, 30, bleu=31.0, decode=DECODE | {"beam": 8})
    assert decode_tags() == usual | {"decode.beam": "8"}
    assert only_run(study, store).data.metrics["final/bleu"] == 31.0
    assert sync_once(study, store) == 0
    assert decode_tags() == usual | {"decode.beam": "8"}


def test_params_tags_and_name(study: Study, store: Store) -> None:
    trial = study.trials[2]
    folder = study.trial_folder(trial)
    config = {
        "model": {"n_layers": 2, "p_drop": 0.1},
        "train": {"seed": 1},
        "key": trial.key,
        "data_fingerprint": "def",
        "scale": {"name": "tiny", "steps": None},
        "data": {"name": "synthetic", "mirror": "https://me:secret@host/x"},
        "decode": {"beam": 4},
        "paths": {"runs": "/somewhere", "data": "/data", "checkpoints": None},
        "cluster": {"workers": 2},
        "tracking": {"uri": None},
    }
    begin(folder)
    folder.config_path.write_text(yaml.safe_dump(config))
    folder.provenance_path.write_text(
        json.dumps({"commit": "abc", "dirty": False, "device": "cpu", "data_fingerprint": "def"})
    )
    sync_once(study, store)
    run = only_run(study, store)
    assert run.data.params == {
        **{"model.n_layers": "2", "model.p_drop": "0.1", "train.seed": "1"},
        **{"scale.name": "tiny", "data.name": "synthetic", "data.mirror": "https://host/x"},
    }
    expected = {
        **{"sweep.id": study.name, "table3.group": "C", "table3.row": "03 c_layers_2"},
        **{"trial.key": trial.key, "table3.change": trial.change, "seed": "1", "attempt": "1"},
        **{"host": folder.attempts()[0].host, "commit": "abc", "dirty": "False", "device": "cpu"},
        **{"table3.order": "0003", "data.fingerprint": "def"},
    }
    assert {name: run.data.tags[name] for name in expected} == expected
    assert run.info.run_name == "C layers 2 s1"


def test_a_changed_config_and_a_new_attempt_are_sent(study: Study, folder: TrialFolder, store: Store) -> None:
    begin(folder)
    folder.config_path.write_text("train: {log_every: 10}\n")
    sync_once(study, store)
    folder.config_path.write_text("train: {log_every: 50, extra: 1}\n")
    begin(folder)
    sync_once(study, store)
    run = only_run(study, store)
    assert run.data.params == {"train.log_every": "10", "train.extra": "1"}
    assert run.data.tags["attempt"] == "2"


def test_a_broken_journal_holds_back_only_its_own_trial(study: Study, store: Store) -> None:
    for trial in study.trials[:2]:
        report(study.trial_folder(trial), begin(study.trial_folder(trial)), range(1, 3), checkpoints=(2,))
    study.trial_folder(study.trials[0]).journal_path.write_text("nonsense\n{}\n")
    done = Replay(study.folder, *store).once()
    assert done.points == 2
    assert len(done.problems) == 1
    assert done.problems[0].startswith(f"base-s1: {study.folder}/base-s1/journal.jsonl:1: not a JSON line")


def test_two_stores_are_kept_apart(study: Study, folder: TrialFolder) -> None:
    report(folder, begin(folder), range(1, 4), checkpoints=(3,))
    one, two = MemoryTracker(), MemoryTracker()
    for tracker, uri in ((one, "http://user:secret@one"), (two, "http://two")):
        assert Replay(study.folder, tracker, uri).once().points == 3
    ledger = json.loads((study.folder / "mlflow-runs.json").read_text())
    assert set(ledger) == {"http://one", "http://two"}


def test_the_twin_holds_the_same_as_mlflow(study: Study, folder: TrialFolder, store: Store) -> None:
    attempt = begin(folder)
    folder.config_path.write_text("train: {steps: 3}\n")
    report(folder, attempt, range(1, 4), checkpoints=(3,))
    finish(study, study.trials[0], attempt, 3)
    sync_once(study, store)
    twin = MemoryTracker()
    for name in ("mlflow-runs.json", "mlflow-synced.json", "mlflow-sent.json"):
        shutil.move(study.folder / name, study.folder / f"old-{name}")
    Replay(study.folder, twin, "memory").once()
    Replay(study.folder, twin, "memory").once()
    (memory,), real = [run for run in twin.runs.values() if "sweep.id" in run.tags], only_run(study, store)
    assert memory.params == real.data.params
    assert memory.tags.items() <= real.data.tags.items()
    assert {point.name: point.value for point in sorted(memory.points, key=lambda p: p.step)} == real.data.metrics
    assert (memory.status, memory.end_ms) == (real.info.status, real.info.end_time)
