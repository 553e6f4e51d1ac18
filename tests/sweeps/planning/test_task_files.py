"""A study is read where the files of its task are others, or gone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_task import BASE, write_task
from typed import refusal, typed

KIND = '    kind: Literal["round", "square"]\n'
HELPED = {
    "\n\n@dataclass(frozen=True)\nclass Model": (
        "\nimport helper\n\n\n@dataclass(frozen=True)\nclass Model"
    )
}


@pytest.fixture(scope="module")
def trained(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished trial of a task in two files."""
    folder = write_task(
        furnish(tmp_path_factory.mktemp("trained").resolve()), HELPED, {"helper.py": ""}
    )
    outcome = typed(folder, "train", "task=small", "row=square")
    assert outcome.exit_code == 0, outcome.output
    return folder


def test_a_study_is_read_where_its_task_is_not(
    trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere").resolve()
    shutil.copytree(trained / "runs", elsewhere / "runs")
    for words in ([], ["sweep.name=small-full"]):
        outcome = typed(elsewhere, "table", *words, "--format", "json")
        assert (outcome.exit_code, json.loads(outcome.stdout)[0]["score"]) == (0, 2.0), (
            outcome.output
        )
        assert "finished" in typed(elsewhere, "status", *words).stdout
    assert 'is "small", but there is no module small' in refusal(
        elsewhere, "sweep", "sweep.name=small-full"
    )


def test_keys_of_a_former_schema_name_the_study_that_recorded_them(
    trained: Path, tmp_path: Path
) -> None:
    base = {"conf/task/small/base.yaml": BASE.replace(", kind: round", "")}
    folder = write_task(tmp_path / "now", {KIND: ""}, base)
    (folder / "conf/task/small/row/square.yaml").unlink()
    shutil.copytree(trained / "runs", folder / "runs")
    message = refusal(folder, "plan", "task=small")
    assert (
        "model.kind (runs/small-full/study.json) is not a key keys under model are size; "
        "recorded by" in message
    )
    assert "type `allelse rm small-full`, or choose another sweep.name" in message
