"""A function as a task: a folder with one Python file, and no YAML."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typed import printed, refusal, typed

SPIRAL = """\
from allelse import Metric, task


@task(Metric("accuracy", better="up", set="test"))
def spiral(trial, *, width: int = 32, layers=2, lr: float = 0.5, name: str = "x", steps: int = 4):
    for step in range(1, steps + 1):
        trial.report(step, {"train/loss": lr / step})
    return 1 / width + trial.seed
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spiral.py").write_text(SPIRAL)
    return tmp_path


def plan_of(folder: Path, *words: str) -> list[dict[str, object]]:
    return list(json.loads(printed(folder, "plan", *words, "--json")))


def result_of(folder: Path, trial: str) -> dict[str, Any]:
    return dict(json.loads((folder / "runs" / trial / "result.json").read_text("utf-8")))


def test_its_parameters_are_keys_and_their_defaults_are_base(folder: Path) -> None:
    values = {"width": 32, "layers": 2, "lr": 0.5, "name": "x", "steps": 4}
    assert yaml.safe_load(printed(folder, "config", "row=base"))["args"] == values


def test_keys_of_parameters_are_keys_for_hydra_alone(folder: Path) -> None:
    job = yaml.safe_load(printed(folder, "config", "--cfg", "job", "task=spiral", "width=8"))
    assert job["args"]["width"] == 8


def test_rows_are_varied_by_the_names_of_parameters(folder: Path) -> None:
    plan_by_name = plan_of(folder, "task=spiral", "sweep.vary={width: [8], layers: [1]}", "lr=0.25")
    plan_by_key = plan_of(folder, "sweep.vary={args.width: [8], args.layers: [1]}", "args.lr=0.25")
    assert [line["row"] for line in plan_by_name] == ["base", "width_8", "layers_1"]
    assert [line["key"] for line in plan_by_name] == [line["key"] for line in plan_by_key]


def test_what_it_returns_are_its_scores(folder: Path) -> None:
    assert typed(folder, "train", "sweep.seeds=[3]", "width=4", "tracking=off").exit_code == 0
    result = result_of(folder, "spiral-full/base-s3")
    assert result["scores"]["test"]["accuracy"] == 3.25
    assert result["step"] == 4


def test_a_row_of_a_file_sets_its_group(folder: Path) -> None:
    rows = folder / "conf/task/spiral/row"
    rows.mkdir(parents=True)
    text = "# @package _global_\nrow: {group: A, change: thin}\nargs: {width: 2}\n"
    (rows / "thin.yaml").write_text(text)
    (line,) = plan_of(folder, "task=spiral", "sweep.rows=[thin]")
    (varied,) = plan_of(folder, "task=spiral", "sweep.vary={width: [2]}", "sweep.rows=[width_2]")
    assert (line["row"], line["key"]) == ("thin", varied["key"])


def test_a_row_file_that_a_begun_study_lacks_is_noted_with_how_to_add_it(folder: Path) -> None:
    assert typed(folder, "train", "task=spiral", "tracking=off").exit_code == 0
    rows = folder / "conf/task/spiral/row"
    rows.mkdir(parents=True)
    text = "# @package _global_\nrow: {group: A, change: thin}\nargs: {width: 2}\n"
    (rows / "thin.yaml").write_text(text)
    add = "sweep task=spiral 'sweep.rows=[thin]' --add"
    said = " ".join(printed(folder, "plan", "task=spiral").split())
    assert "conf/ also has row thin, not yet in spiral-full; to add: " in said
    assert add in said
    assert "also has" not in printed(folder, "plan", "task=spiral", "sweep.rows=[base]")


def test_the_default_task_is_named_where_all_studies_are_of_others(folder: Path) -> None:
    assert typed(folder, "train", "task=spiral", "tracking=off").exit_code == 0
    (folder / "spiral.py").unlink()
    note = "The task is translation, the default; task=NAME chooses another"
    assert note in " ".join(printed(folder, "plan").split())
    assert note not in " ".join(printed(folder, "plan", "task=translation").split())
    message = refusal(folder, "table", "sweep.name=spiral-full", "paths.runs=run")
    assert "run, which does not exist must be a folder of studies, such as runs" in message


def test_the_full_form_of_the_same_keys_has_the_same_trials(folder: Path) -> None:
    """A function grows into a task with a schema, and its study goes on."""
    lines_before = plan_of(folder, "task=spiral", "sweep.vary={width: [8]}")
    (folder / "spiral.py").write_text("""\
from dataclasses import dataclass

from allelse import Metric, Task


@dataclass(frozen=True)
class Arguments:
    width: int
    layers: int
    lr: float
    name: str
    steps: int


@dataclass(frozen=True)
class Config:
    args: Arguments


task = Task("spiral", version=1, schema=Config, metrics=(Metric("accuracy", better="up", set="test"),),
    steps=lambda config: config.args.steps, work=lambda trial: None,
    base=Config(Arguments(32, 2, 0.5, "x", 4)))
""")
    sys.modules.pop("spiral")
    lines_after = plan_of(folder, "sweep.vary={width: [8]}")
    assert [line["key"] for line in lines_after] == [line["key"] for line in lines_before]


def test_a_parameter_named_seed_gets_the_trials_seed(folder: Path) -> None:
    source = SPIRAL.replace("lr: float", "seed: int = 1, lr: float")
    (folder / "spiral.py").write_text(source.replace("trial.seed", "seed"))
    assert typed(folder, "train", "seed=5", "width=4", "tracking=off").exit_code == 0
    assert result_of(folder, "spiral-full/base-s5")["scores"]["test"]["accuracy"] == 5.25


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ("width", "parameter width has no default, which would be its value in base"),
        ("width=None", "parameter width has no type; write one, such as width: int = 1"),
        ("**rest", "parameter rest takes any number of keys"),
    ],
)
def test_a_parameter_that_is_no_key_is_refused(folder: Path, parameters: str, reason: str) -> None:
    separator = "" if parameters.startswith("*") else "*, "
    text = (
        SPIRAL[: SPIRAL.index("def ")] + f"def spiral(trial, {separator}{parameters}):\n    pass\n"
    )
    (folder / "spiral.py").write_text(text)
    message = refusal(folder, "plan", "task=spiral")
    assert "task (spiral.py:4)" in message
    assert reason in message


@pytest.mark.parametrize("first", ["width: int = 1", "*, width: int = 1", ""])
def test_a_function_that_does_not_take_the_trial_is_refused(folder: Path, first: str) -> None:
    text = SPIRAL[: SPIRAL.index("def ")] + f"def spiral({first}):\n    pass\n"
    (folder / "spiral.py").write_text(text)
    message = refusal(folder, "plan", "task=spiral")
    assert "spiral() must take the trial first: def spiral(trial, *, …)" in message


def test_a_file_with_two_functions_asks_for_one_of_them(folder: Path) -> None:
    second = SPIRAL[SPIRAL.index("@task") :].replace("def spiral", "def deep")
    (folder / "spiral.py").write_text(f"{SPIRAL}\n\n{second}")
    message = refusal(folder, "plan", "task=spiral")
    assert "declares several tasks must be one of task=spiral:spiral, task=spiral:deep" in message
    assert plan_of(folder, "task=spiral:deep")[0]["row"] == "base"


def test_a_folder_has_the_task_of_a_renamed_import(folder: Path) -> None:
    source = SPIRAL.replace("from allelse import Metric, task", "import allelse as al")
    source = source.replace("@task(Metric", "@al.task(al.Metric")
    (folder / "spiral.py").write_text(source)
    assert [line["steps"] for line in plan_of(folder)] == [4]


def test_a_list_may_be_a_default(folder: Path) -> None:
    source = SPIRAL.replace("layers=2", "betas: list[float] = [0.9, 0.99]")
    (folder / "spiral.py").write_text(source)
    values = yaml.safe_load(printed(folder, "config", "row=base"))["args"]
    assert values["betas"] == [0.9, 0.99]


def test_a_wrong_key_is_refused_with_the_nearest_one(folder: Path) -> None:
    assert "did you mean args.width?" in refusal(folder, "plan", "task=spiral", "widht=3")


@pytest.mark.parametrize("word", ["args.momentum=1", "momentum=1"])
def test_a_key_that_resembles_none_is_refused_with_all_of_them(folder: Path, word: str) -> None:
    message = refusal(folder, "plan", "task=spiral", word)
    assert "is not a key keys under args are width, layers, lr, name, steps" in message
    assert "did you mean" not in message, "the group alone is no likeness"


def test_a_task_without_arguments_has_no_hint_at_them(folder: Path) -> None:
    message = refusal(folder, "plan", "task=translation", "args.foo=1")
    assert "args.foo (command line) is not a key" in message
    assert "under args" not in message


def test_no_steps_are_refused_by_their_key(folder: Path) -> None:
    message = refusal(folder, "plan", "task=spiral", "steps=0")
    assert "args.steps (command line) is 0 must be a whole number of at least 1" in message


def test_a_task_names_what_others_call_its_keys(folder: Path) -> None:
    names = 'OtherNames("learning_rate eta", "lr is divided by the step")'
    source = SPIRAL.replace("lr: float", f"lr: Annotated[float, {names}]")
    source = source.replace("Metric, task", "Metric, OtherNames, task")
    (folder / "spiral.py").write_text(f"from typing import Annotated\n{source}")
    message = refusal(folder, "plan", "task=spiral", "learning-rate=3")
    assert "did you mean args.lr?" in message
    assert "lr is divided by the step" in message


def test_names_of_another_task_are_no_hint(folder: Path) -> None:
    message = refusal(folder, "plan", "task=spiral", "n_embd=3")
    assert "d_model" not in message
    assert "did you mean" not in message


def test_a_score_without_a_metric_fails_the_trial_by_its_name(folder: Path) -> None:
    text = SPIRAL.replace("return 1 / width + trial.seed", 'return {"acuracy": 1}')
    (folder / "spiral.py").write_text(text)
    output = typed(folder, "train", "tracking=off").output
    assert "acuracy is not a metric of the task, which has accuracy" in " ".join(output.split())
