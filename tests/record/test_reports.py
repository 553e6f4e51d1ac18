"""Reports of one step are one: in the journal, in MLflow and after a loss."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from place import STUDY, TOY, Place

from tracking.json_lines.lines import Lines, replace_last_line

ONCE = '        trial.report(step, {"train/loss": done})\n'
TWICE = """\
        trial.report(step, {"train/loss": done, "rate": 0.5})
        trial.stopping()
        trial.report(step, {"eval/loss": 2 * done, "rate": 0.25})
"""


def metrics_of(project: Place) -> dict[int, dict[str, float]]:
    """By step, without the load of the machine."""
    lines = (project.study / "base-s1" / "journal.jsonl").read_text().splitlines()
    journal = [json.loads(line) for line in lines]
    steps = [line["step"] for line in journal]
    assert steps == sorted(set(steps)), "one line for each step"
    metrics = {}
    for line in journal:
        metrics[line["step"]] = {
            name: value for name, value in line["metrics"].items() if not name.startswith("system/")
        }
    return metrics


@pytest.mark.usefixtures("tracked")
def test_training_and_evaluation_of_one_step_may_be_reported_apart(place: Place) -> None:
    """The trial fails after step 2, once, and goes on."""
    assert ONCE in TOY
    place.write({"toy.py": TOY.replace(ONCE, TWICE)})
    (place.folder / "stops").touch()
    assert place.type("train", "task=toy", STUDY, "row=base").returncode == 1
    place.train("base")
    expected = {
        step: {"train/loss": step, "rate": 0.25, "eval/loss": 2 * step} for step in range(1, 5)
    }
    assert metrics_of(place) == expected
    log = (place.study / "base-s1" / "log.txt").read_text()
    assert log.count("step 1 was reported more than once") == 1
    assert log.count("was reported more than once") == 2, "once by each attempt"
    query = "SELECT step, value FROM metrics WHERE key = ? ORDER BY step"
    with closing(sqlite3.connect(place.folder / "runs" / "mlflow.db")) as store:
        histories = {
            name: store.execute(query, (name,)).fetchall()
            for name in ("train/loss", "eval/loss", "rate")
        }
    for name, history in histories.items():
        assert history == [(step, metrics[name]) for step, metrics in expected.items()]


APART = """\
        trial.report(step, {"train/loss": done})
        trial.checkpoint(step, done)
        trial.stopping()
        if step == 4 and (HERE / "halts").exists():
            (HERE / "halts").unlink()
            raise RuntimeError("stopped by a person")
        trial.report(step, {"eval/loss": 2 * done})
"""
AT_LAST = '    trial.evaluated("test", {"score": done})\n'
EVALUATES = f"""\
    if trial.saved and trial.saved.step == 4:
        trial.report(4, {{"eval/loss": 20 * trial.config.train.cut}})
{AT_LAST}"""


def points_of(project: Place, name: str) -> list[tuple[int, float]]:
    """Of all runs, also those that were left out."""
    with closing(sqlite3.connect(project.folder / "runs" / "mlflow.db")) as store:
        return store.execute(
            "SELECT step, value FROM metrics WHERE key = ? ORDER BY step", (name,)
        ).fetchall()


@pytest.mark.usefixtures("tracked")
def test_a_report_that_joins_one_behind_its_checkpoint_reaches_mlflow(place: Place) -> None:
    """The last step is evaluated by a second attempt, and once more, with another setting, by a
    third."""
    place.write(
        {
            "toy.py": TOY.replace(f"{ONCE}        trial.checkpoint(step, done)\n", APART).replace(
                AT_LAST, EVALUATES
            )
        }
    )
    (place.folder / "halts").touch()
    assert place.type("train", "task=toy", STUDY, "row=base").returncode == 1
    place.train("base")
    evaluated = [(1, 2.0), (2, 4.0), (3, 6.0), (4, 10.0)]
    journal = metrics_of(place)
    assert [(step, metrics["eval/loss"]) for step, metrics in journal.items()] == evaluated
    assert points_of(place, "eval/loss") == evaluated
    place.train("base", "train.cut=0.6")
    assert metrics_of(place) == journal, "the finished training stays as it was"
    (place.study / "mlflow-ledger.json").unlink()
    place.must("sync", STUDY)
    assert "MLflow: up to date" in place.must("status", STUDY)
    assert points_of(place, "eval/loss") == evaluated
    assert [step for step, _ in points_of(place, "train/loss")] == [1, 2, 3, 4], "one run"


def test_the_last_line_is_replaced_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader at any moment finds whole lines, and perhaps a torn last one."""
    path = tmp_path / "journal.jsonl"
    sizes = list[int]()
    snapshots = list[list[dict[str, int]]]()
    path.write_text("".join(f'{{"step": {step}}}\n' for step in range(100_000)))
    read = os.pread
    write = os.write

    def sized(descriptor: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return read(descriptor, size, offset)

    def watched(descriptor: int, data: bytes) -> int:
        half = write(descriptor, data[:5])
        snapshots.append(list(Lines(path)))
        return half + write(descriptor, data[5:])

    monkeypatch.setattr(os, "pread", sized)
    monkeypatch.setattr(os, "write", watched)
    replace_last_line(path, json.dumps({"step": 99_999, "more": 1}))
    assert sum(sizes) < 20_000
    assert [lines[-1] for lines in snapshots] == [{"step": 99_998}]
    monkeypatch.undo()
    lines = list(Lines(path))
    assert (len(lines), lines[-1]) == (100_000, {"step": 99_999, "more": 1})


def test_the_old_last_line_stays_where_the_new_one_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    write = os.write
    path.write_text('{"step": 1}\n{"step": 2}\n')
    # a full disk
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:12]))
    with pytest.raises(OSError, match="No space left"):
        replace_last_line(path, json.dumps({"step": 2, "more": 1}))
    assert [line["step"] for line in Lines(path)] == [1, 2]
