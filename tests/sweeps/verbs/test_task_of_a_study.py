"""Verbs that read a study of another task, from its files alone."""

import json
import re
from pathlib import Path

import pytest
from other_tasks import digits
from typed import refusal, typed

TRANSLATION = re.compile(r"ppl|bleu|table ?3|paper|decode\.", re.IGNORECASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of digits whose last trial was not begun."""
    folder = tmp_path_factory.mktemp("task").resolve()
    digits(folder / "runs" / "digits", 0.9, 0.92, 0.95)
    return folder


@pytest.mark.parametrize("words", [["status"], ["table"], *(["table", "--format", each] for each in ("md", "csv"))])
def test_reading_verbs_speak_of_the_studys_task(folder: Path, words: list[str]) -> None:
    done = typed(folder, *words, "sweep.name=digits")
    assert done.exit_code == 0, done.output
    assert "accuracy" in done.stdout
    assert not TRANSLATION.search(done.output)


def test_the_status_has_the_headline_of_the_task(folder: Path) -> None:
    done = typed(folder, "status", "sweep.name=digits", "--json")
    lines = json.loads(done.stdout)
    assert [(line["state"], line["test_accuracy"]) for line in lines] == [
        *(("finished", 0.9), ("finished", 0.92), ("finished", 0.95), ("missing", None))
    ]
    assert "test accuracy" in typed(folder, "status", "sweep.name=digits").stdout


def test_the_table_as_json(folder: Path) -> None:
    base, wide = json.loads(typed(folder, "table", "sweep.name=digits", "--format", "json").stdout)
    assert (base["accuracy"], wide["seeds"], wide["delta_accuracy"]) == (0.91, 1, 0.04)
    assert not [name for name in base if name.startswith("paper_")]


@pytest.mark.parametrize("words", [["translate"], ["evaluate"], ["export", "--to", "safetensors"]])
def test_verbs_for_translations_refuse_another_task_by_name(folder: Path, words: list[str]) -> None:
    verb, *options = words
    for name in ("base-s1", "digits/base-s1", str(folder / "runs/digits/base-s1")):
        text = refusal(folder, verb, name, "sweep.name=digits", *options)
        assert "base-s1 is a trial of the task digits" in text
        assert "must be one of the task translation" in text
