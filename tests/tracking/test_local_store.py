"""The default store follows its folder, and leaves what other folders hold alone."""

import errno
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tracking import ledger
from tracking.ledger import RUNS_FILE, Ledger
from tracking.local_store import HERE, current_name, follow_move, known_runs
from tracking.mlflow_tracker import open_tracker
from tracking.uri import artifact_folder, default_uri


def database(runs: Path, experiments: Sequence[str], artifacts: Sequence[str] = ()) -> None:
    """The tables of MLflow that hold addresses, as far as they matter here."""
    runs.mkdir(exist_ok=True, parents=True)
    with closing(sqlite3.connect(runs / "mlflow.db")) as store, store:
        store.execute("CREATE TABLE experiments (artifact_location TEXT)")
        store.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        store.executemany("INSERT INTO experiments VALUES (?)", [(place,) for place in experiments])
        store.executemany("INSERT INTO runs VALUES (?, ?)", [(f"r{i}", place) for i, place in enumerate(artifacts)])


def addresses(runs: Path) -> list[str]:
    with closing(sqlite3.connect(runs / "mlflow.db")) as store:
        found = store.execute("SELECT artifact_location FROM experiments UNION ALL SELECT artifact_uri FROM runs")
        return [place for (place,) in found]


@pytest.mark.parametrize("name", ["runs", "with space", "100%_done", "Größe"])
def test_addresses_follow_however_often_the_folder_moves(tmp_path: Path, name: str) -> None:
    older, old, runs = (artifact_folder(tmp_path / place).as_uri() for place in ("oldest", "old place", name))
    elsewhere = ["s3://bucket/mlflow-artifacts", "file:///nfs/shared", "/relative/mlruns/0"]
    database(tmp_path / name, [old, older, *elsewhere], [f"{old}/r0/artifacts", f"{older}/r1", f"{old}-more/r2"])
    follow_move(tmp_path / name)
    assert addresses(tmp_path / name) == [
        *(runs, runs, *elsewhere),
        *(f"{runs}/r0/artifacts", f"{runs}/r1", f"{old}-more/r2"),
    ]


@pytest.mark.parametrize(("old", "new", "follows"), [(True, True, True), (True, False, False), (False, False, True)])
def test_a_copy_uses_its_own_artifacts_unless_they_were_left_behind(
    tmp_path: Path, old: bool, new: bool, follows: bool
) -> None:
    former, now = artifact_folder(tmp_path / "old"), artifact_folder(tmp_path / "new")
    for folder, exists in ((former, old), (now, new)):
        if exists:
            folder.mkdir(parents=True)
    database(tmp_path / "new", [former.as_uri()])
    follow_move(tmp_path / "new")
    assert addresses(tmp_path / "new") == [(now if follows else former).as_uri()]


def test_without_a_database_or_its_tables_there_is_nothing_to_do(tmp_path: Path) -> None:
    follow_move(tmp_path)
    assert (list(tmp_path.iterdir()), known_runs(tmp_path)) == ([], set())
    (tmp_path / "mlflow.db").touch()
    follow_move(tmp_path)
    assert known_runs(tmp_path) is None
    (tmp_path / "mlflow.db").write_text("not a database, but long enough to be looked at as one\n" * 40)
    assert known_runs(tmp_path) is None
    with pytest.raises(sqlite3.Error):
        follow_move(tmp_path)


def test_a_ledger_names_the_default_store_by_its_place(tmp_path: Path) -> None:
    """A file of version 0.1.0 holds the address that the store had when a trial of the study began."""
    runs, study = tmp_path / "runs", tmp_path / "runs/mine"
    (study / "base-s1").mkdir(parents=True)
    (study / "base-s1/config.yaml").write_text("paths: {runs: /old/runs}\n")
    database(runs, [], ["somewhere"])
    shared = "sqlite:////srv/mlflow.db"
    former = {"sqlite:////old/runs/mlflow.db": '{"a": "r0"}', shared: '{"a": "other"}', "http://host": '{"a": "more"}'}
    (study / RUNS_FILE).write_text("{" + ", ".join(f'"{uri}": {runs}' for uri, runs in former.items()) + "}")
    ledger = Ledger(study / RUNS_FILE, default_uri(runs))
    assert ledger.get("a") == "r0"
    assert [Ledger(study / RUNS_FILE, uri).get("a") for uri in (shared, "http://host")] == ["other", "more"]
    ledger.put("b", "r1")
    assert HERE in (study / RUNS_FILE).read_text()
    assert current_name(default_uri(runs), study) == HERE


def test_runs_that_the_store_does_not_have_count_as_unknown(tmp_path: Path) -> None:
    study = tmp_path / "runs/mine"
    study.mkdir(parents=True)
    (study / RUNS_FILE).write_text(f'{{"{HERE}": {{"a": "r0", "b": "r7"}}}}')
    database(tmp_path / "runs", [], ["somewhere"])
    ledger = Ledger(study / RUNS_FILE, default_uri(tmp_path / "runs"))
    assert (ledger.get("a"), ledger.get("b")) == ("r0", None)


def test_an_entry_that_does_not_fit_on_the_disk_is_written_with_the_next_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    path = tmp_path / "runs" / "s" / RUNS_FILE
    path.parent.mkdir(parents=True)
    ours = Ledger(path, "http://host")
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "write_atomic", full)
        with pytest.raises(OSError, match="No space"):
            ours.put("a", "run")
    ours.put("a", "run")
    assert Ledger(path, "http://host").get("a") == "run"


def test_a_creation_that_failed_is_repeated_by_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(target))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="Input/output"):
            open_tracker(None, tmp_path, "study")
    assert not (tmp_path / "mlflow.db").exists()
    tracker, _ = open_tracker(None, tmp_path, "study")
    assert tracker.experiment_name() == "study"
    assert not [*tmp_path.glob(".mlflow-new-*")]
