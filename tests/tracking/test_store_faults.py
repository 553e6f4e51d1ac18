"""The syncer as a process, while its store is killed, hangs or is locked.

Minutes long: `make faults`. Nothing here measures a time: every step waits for what the syncer
wrote.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from faulty_stores import (
    Served,
    Statuses,
    assert_exact,
    mlflow_server,
    postgres,
    serving,
    start,
    wait_for,
)
from mlflow.tracking import MlflowClient
from studies_on_disk import begin, finish, make_study, report

from tracking.study import Study, StudyTrial
from tracking.uri import default_uri

pytestmark = pytest.mark.faults
LONG_S = 400.0
of_postgres = pytest.mark.postgres


class Syncer:
    """`--follow` of a study."""

    def __init__(self, study: Study, uri: str) -> None:
        self.study = study
        self.process = start(study, "--follow", uri=uri)

    def __enter__(self) -> "Syncer":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def problems(self) -> list[str]:
        path = self.study.folder / "mlflow-sync.json"
        return list(json.loads(path.read_text())["problems"]) if path.exists() else []

    def step(self, trial: StudyTrial) -> int:
        """The last step that arrived; -1 before the first."""
        path = self.study.folder / "mlflow-ledger.json"
        stores = json.loads(path.read_text()).values() if path.exists() else []
        return max(
            (entries[trial.key]["step"] for entries in stores if trial.key in entries), default=-1
        )

    def close(self) -> None:
        """The end of the sweep."""
        _, output = self.process.communicate(timeout=LONG_S)
        assert self.process.returncode == 0, output


class Training:
    """A study of six trials that train in this process, each with a checkpoint per call of
    `go_on`."""

    def __init__(self, folder: Path) -> None:
        self.study = make_study(folder, {"base": [1, 2], "a_heads_1": [1, 2], "c_layers_2": [1, 2]})
        self.first = self.study.trials[0]
        self._last = 0
        self._attempts = {
            trial.key: begin(self.study.trial_folder(trial)) for trial in self.study.trials
        }

    def go_on(self, steps: int = 20) -> int:
        """Returns the last step that is sent: a further report may still join the newest one."""
        first = self._last + 1
        self._last = self._last + steps
        for trial in self.study.trials:
            folder = self.study.trial_folder(trial)
            report(
                folder,
                self._attempts[trial.key],
                range(first, self._last + 1),
                checkpoints=(self._last,),
            )
        return self._last - 1

    def end(self) -> Statuses:
        for trial in self.study.trials:
            finish(self.study, trial, self._attempts[trial.key], self._last)
        return {trial.key: "FINISHED" for trial in self.study.trials}


@pytest.mark.parametrize(
    ("kind", "fault", "cure"),
    [(mlflow_server, "kill", "start"), pytest.param(postgres, "hang", "resume", marks=of_postgres)],
)
def test_a_store_that_is_away_in_the_middle(
    kind: Callable[[Path], Served], fault: str, cure: str, tmp_path: Path
) -> None:
    training = Training(tmp_path / "middle")
    with serving(kind) as store, Syncer(training.study, store.uri) as syncer:
        step = training.go_on()
        wait_for(lambda: syncer.step(training.first) == step)
        getattr(store, fault)()
        training.go_on()
        if fault != "hang":  # a database that hangs is waited for
            wait_for(lambda: len(syncer.problems()) == 1)
        training.go_on()
        getattr(store, cure)()
        wait_for(lambda: syncer.problems() == [])
        statuses = training.end()
        syncer.close()
        assert_exact(training.study, statuses, store.uri)


def test_a_locked_database(tmp_path: Path) -> None:
    training = Training(tmp_path / "locked")
    MlflowClient(default_uri(tmp_path)).search_experiments()  # made before it is locked
    with Syncer(training.study, "") as syncer:
        step = training.go_on()
        wait_for(lambda: syncer.step(training.first) == step)
        with closing(sqlite3.connect(tmp_path / "mlflow.db", timeout=60)) as database:
            database.execute("BEGIN EXCLUSIVE")
            training.go_on()
            wait_for(lambda: any("locked" in problem for problem in syncer.problems()))
        wait_for(lambda: syncer.problems() == [])
        statuses = training.end()
        syncer.close()
    assert_exact(training.study, statuses, default_uri(tmp_path))
