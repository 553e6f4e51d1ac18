"""Stores that hang, vanish or lose an answer: afterwards each run has exactly the points of its journal."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_stores import (
    POSTGRES,
    WITHOUT_POSTGRES,
    LossyCable,
    MlflowServer,
    Postgres,
    Served,
    assert_exact,
    ended_study,
    forget,
    serving,
)
from studies_on_disk import EXPERIMENT, make_study, report

from tracking import patience, stores
from tracking.mlflow_tracker import open_tracker
from tracking.replay import Replay
from tracking.study import Study
from tracking.tracker import MemoryTracker, Point, RunSpec
from tracking.uri import artifact_folder

needs_postgres = [pytest.mark.postgres, pytest.mark.skipif(POSTGRES is None, reason=WITHOUT_POSTGRES)]


@pytest.fixture(scope="module", params=[MlflowServer, pytest.param(Postgres, marks=needs_postgres)])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serving(request.param) as store:
        yield store


def sync_once(study: Study, uri: str) -> tuple[str, ...]:
    """One pass of a new syncer. Returns its problems."""
    return Replay(study.folder, *open_tracker(uri, study.folder.parent, EXPERIMENT)).once().problems


def test_journals_carried_from_elsewhere_are_replayed_twice(served: Served, tmp_path: Path) -> None:
    study, statuses = ended_study(tmp_path / f"carried-{served.port}")
    for _ in range(2):
        assert sync_once(study, served.uri) == ()
        assert_exact(study, statuses, served.uri)
        forget(study)


def test_a_server_that_hangs_in_the_middle_ends_the_pass_and_gets_the_rest_later(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, statuses = ended_study(tmp_path / f"hanging-{served.port}")
    replay = Replay(study.folder, *open_tracker(served.uri, tmp_path, EXPERIMENT))
    tracker: Any = replay._tracker
    send, sent = tracker.log_points, list[str]()

    def stopping(run_id: str, points: list[Point]) -> None:
        sent.append(run_id)
        if len(sent) == 2:  # all before has the usual patience
            monkeypatch.setattr(patience, "CALL_S", 2.0)
            monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
            served.stop()
        send(run_id, points)

    monkeypatch.setattr(tracker, "log_points", stopping)
    try:
        done = replay.once()
    finally:
        served.resume()
    assert len(done.problems) == 1
    assert len(sent) == 2, "no other trial waited for an answer"
    monkeypatch.undo()
    assert replay.once().problems == ()
    assert_exact(study, statuses, served.uri)


@pytest.mark.parametrize("served", [MlflowServer], indirect=True)
def test_a_lost_answer_to_a_creation_makes_no_second_run(tmp_path: Path, served: Served) -> None:
    study, statuses = ended_study(tmp_path / "lost-answer")
    cable, asked = LossyCable(served.port), list[bytes]()
    replay = Replay(study.folder, *open_tracker(cable.uri, tmp_path, EXPERIMENT))

    def cut(request: bytes) -> bool:
        if b"/runs/create" in request:
            asked.append(request)
        return b"/runs/create" in request and len(asked) == 1

    cable.cut = cut
    problems = replay.once().problems
    cable.cut = lambda request: False
    assert len(problems) == 1
    assert len(asked) == 1, "a client that repeats a creation makes a second run"
    assert replay.once().problems == ()
    cable.close()
    assert_exact(study, statuses, served.uri)


def test_a_networked_store_keeps_artifacts_below_the_runs(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    study, _ = ended_study(runs / f"artifacts-{served.port}")
    tracker, _ = open_tracker(served.uri, runs, f"artifacts-{served.port}")
    assert Replay(study.folder, tracker, served.uri).once().problems == ()
    place = tracker.client.get_experiment(tracker.experiment_id).artifact_location
    if isinstance(served, Postgres):
        assert place == artifact_folder(runs).as_uri()
        assert list(artifact_folder(runs).rglob("curve.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["runs"], "nothing beside the runs"


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "http"])
def test_a_store_out_of_reach_is_one_problem_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Nobody listens, or somebody who never answers."""
    monkeypatch.setattr(stores, "CONNECT_S", 2)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            with pytest.raises(Exception, match=r"(?i)refused|timeout|timed out"):
                open_tracker(f"{scheme}://somebody@127.0.0.1:{port}/base", tmp_path, EXPERIMENT)


class Failing(MemoryTracker):
    """A tracker that is away while `away` is set, from the request with this number on. It counts points sent."""

    def __init__(self) -> None:
        super().__init__()
        self.away: int | None = None
        self.batches: list[list[int]] = []
        self.keys: list[str] = []

    def find_run(self, spec: RunSpec, known: str | None) -> str | None:
        self.keys.append(spec.tags.get("trial.key", "study"))
        return super().find_run(spec, known)

    def log_points(self, run_id: str, points: list[Point]) -> None:
        if self.away is not None and len(self.batches) >= self.away:
            raise TimeoutError("no answer within 20 s")
        self.batches.append([point.step for point in points])
        super().log_points(run_id, points)


@pytest.fixture
def long_study(tmp_path: Path) -> Study:
    """One trial of 2 500 points and one of 10."""
    study = make_study(tmp_path / "long", {"base": [1], "a_heads_1": [1]})
    for trial, steps in zip(study.trials, (2500, 10), strict=True):
        folder = study.trial_folder(trial)
        folder.begin_attempt(1, "offline-node", 1)
        report(folder, 1, range(1, steps + 1), checkpoints=(steps,))
    return study


def test_a_failed_pass_goes_on_after_the_last_batch_that_arrived(long_study: Study) -> None:
    tracker = Failing()
    tracker.away = 2
    assert len(Replay(long_study.folder, tracker, "memory").once().problems) == 1
    tracker.away = None
    assert Replay(long_study.folder, tracker, "memory").once().problems == ()
    assert [(batch[0], len(batch)) for batch in tracker.batches[:3]] == [(1, 1000), (1001, 1000), (2001, 500)]


def test_a_trial_without_an_answer_ends_the_pass_and_comes_last_in_the_next(long_study: Study) -> None:
    tracker = Failing()
    tracker.away = 0
    replay = Replay(long_study.folder, tracker, "memory")
    first, second = (trial.key for trial in long_study.trials)
    replay.once()
    assert tracker.keys == [first]
    replay.once()
    assert tracker.keys == [first, second]
    tracker.away = None
    assert replay.once().problems == ()


def test_a_run_that_a_server_made_after_all_is_removed(long_study: Study) -> None:
    """The server carries out a creation whose answer is lost, but only after the next try has searched."""
    late = list[RunSpec]()

    class Late(MemoryTracker):
        def create_run(self, spec: RunSpec) -> str:
            if not late:
                late.append(spec)
                raise TimeoutError("no answer within 20 s")
            return super().create_run(spec)

        def log_params(self, run_id: str, params: dict[str, str]) -> None:
            if len(self.runs) == 1:
                super().create_run(late[0])
            super().log_params(run_id, params)

    tracker = Late()
    replay = Replay(long_study.folder, tracker, "memory")
    assert replay.once().problems
    forgetful = Replay(long_study.folder, tracker, "memory")  # the syncer was killed in between
    assert forgetful.once().problems == ()
    keys = [run.tags.get("trial.key") for run in tracker.runs.values()]
    assert sorted(filter(None, keys)) == sorted(trial.key for trial in long_study.trials)
    assert all(run.points for run in tracker.runs.values() if "trial.key" in run.tags)
