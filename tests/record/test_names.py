"""What is restored or renamed keeps its scores, its record and its runs, and replaces nothing."""

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from place import HEAD, STUDY, Place, scores_of

pytestmark = pytest.mark.usefixtures("tracked")

ROWS = "conf/task/toy/row"


def rows_in_table(project: Place) -> dict[str, float | None]:
    lines: list[dict[str, Any]] = json.loads(project.must("table", STUDY, "--format", "json"))
    return {line["row"]: line["score"] for line in lines}


def tags(database: Path, name: str) -> set[str]:
    """The values of this tag in all runs of trials."""
    query = """
        SELECT tags.value FROM tags JOIN tags AS kinds USING (run_uuid)
        WHERE tags.key = ? AND kinds.key = 'kind' AND kinds.value = 'trial'
    """
    with closing(sqlite3.connect(database)) as opened:
        return {value for (value,) in opened.execute(query, (name,))}


def test_restoring_a_row_keeps_what_was_added_meanwhile(trained: Place) -> None:
    trained.train("size_2", "--add")
    output = trained.must("drop", "size_2", STUDY, "--yes")
    trained.train("size_3", "--add")
    (line,) = [line for line in output.splitlines() if line.startswith("To restore: ")]
    _, *words = shlex.split(line.removeprefix("To restore: "))
    trained.must(*words)
    assert rows_in_table(trained) == {"base": 4.0, "size_2": 8.0, "size_3": 12.0}
    assert "The trash is empty" in trained.must("restore")
    assert "finished" in trained.train("size_2")


def test_a_renamed_row_keeps_its_scores_and_its_runs(trained: Place) -> None:
    trained.train("size_2", "--add")
    database = trained.folder / "runs" / "mlflow.db"
    old_scores = scores_of(database)
    (trained.folder / ROWS / "size_2.yaml").rename(trained.folder / ROWS / "double.yaml")
    for words in (
        ("plan", STUDY),
        ("plan", STUDY, "sweep.rows=[base,double]"),
        ("train", STUDY, "row=double"),
    ):
        output = " ".join(trained.must(*words).split())
        assert "double is the row size_2 of toy" in output
        assert "rename toy size_2 double" in output
    assert not (trained.study / "double-s1").exists()
    trained.must("rename", "toy", "size_2", "double")
    assert rows_in_table(trained) == {"base": 4.0, "double": 8.0}
    assert "double is the row" not in trained.must("plan", STUDY)
    assert scores_of(database) == old_scores
    assert tags(database, "row") == {"base", "double"}
    trained.must("rename", "toy", "mine")
    assert "mine" in trained.must("studies")
    assert sorted(map(len, scores_of(database).values())) == [2], "the same runs, and no others"


def test_names_that_are_taken_are_refused_and_nothing_moves(trained: Place) -> None:
    trained.train("size_2", "--add")
    old_names = sorted(path.name for path in trained.study.iterdir())
    assert "NEW is base, which is a row of toy" in trained.refused(
        "rename", "toy", "size_2", "base"
    )
    assert 'OLD is "size_9", which is not a row of toy' in trained.refused(
        "rename", "toy", "size_9", "new"
    )
    assert "OLD is base, and other rows are compared with it" in trained.refused(
        "rename", "toy", "base", "new"
    )
    assert 'NEW is "a/b"' in trained.refused("rename", "toy", "size_2", "a/b")
    assert "must have at most 240" in trained.refused("rename", "toy", "x" * 241)
    assert "NEW is toy" in trained.refused("rename", "toy", "toy")
    assert sorted(path.name for path in trained.study.iterdir()) == old_names


def test_a_killed_rename_holds_the_study_until_it_is_repeated(trained: Place) -> None:
    trained.train("size_2", "--add")
    (trained.study / ".locks" / "renaming.json").write_text('{"old": "size_2", "new": "double"}')
    (trained.study / "size_2-s1").rename(trained.study / "double-s1")
    assert "rename toy size_2 double" in trained.refused("train", STUDY, "row=size_2")
    assert "complete it first" in trained.refused("rename", "toy", "size_2", "other")
    trained.must("rename", "toy", "size_2", "double")
    assert rows_in_table(trained) == {"base": 4.0, "double": 8.0}
    assert "finished" in trained.train("double")


def test_edited_words_of_a_row_are_shown_at_once_and_sent_by_sync(trained: Place) -> None:
    trained.train("size_2", "--add")
    file = trained.folder / ROWS / "size_2.yaml"
    file.write_text(HEAD % ("twice as large", 2))
    for words in (("table", STUDY), ("table", STUDY, "--format", "md")):
        assert "twice as large" in trained.must(*words)
    trained.must("sync", STUDY)
    database = trained.folder / "runs" / "mlflow.db"
    assert "twice as large" in tags(database, "study.change")
    file.write_text(HEAD % ("another model", 3))
    assert "another model" not in trained.must("table", STUDY), (
        "the words of a file that decides something else"
    )
