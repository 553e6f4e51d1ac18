"""`allelse init NAME`: the task that it writes runs as it is, and it overwrites nothing."""

import json
from pathlib import Path

import pytest
from allelse_in_folder import contents
from typed import printed, refusal

from sweeps.verbs.setup import VARIED

FILES = ("row/no_momentum", "row/straight", "row/wide")

REFUSED = [
    ("", "must be a module name"),
    ("a/b", "must be a module name"),
    ("[red]x", 'is "[red]x"'),
    ("class", "a keyword of Python"),
    ("train.py", "type `allelse init NAME -- python train.py`"),
    ("python train.py --lr 3", "type `allelse init NAME -- python train.py --lr 3`"),
    ("my task", "must be a module name"),
    ("translation", "an installed task"),
    ("random", "an installed module, which random.py would shadow"),
]


@pytest.mark.parametrize(("name", "reason"), REFUSED, ids=[repr(name)[:20] for name, _ in REFUSED])
def test_a_name_that_no_new_module_can_have(tmp_path: Path, name: str, reason: str) -> None:
    text = refusal(tmp_path, "init", name)
    assert "Refused, for 1 reason: NAME" in text
    assert reason in text
    assert text.endswith("Nothing was written.")
    assert contents(tmp_path) == []


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ("curve.py", "curve.py exists"),
        ("curve/__init__.py", "curve/__init__.py exists"),
        ("conf/task/curve/row/mine.yaml", "conf/task/curve exists"),
        ("conf", "conf is not a folder"),
        ("conf/task", "conf/task is not a folder"),
    ],
)
def test_what_is_there_stays(tmp_path: Path, there: str, reason: str) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("mine", "utf-8")
    files_before = contents(tmp_path)
    text = refusal(tmp_path, "init", "curve")
    assert "for 1 reason" in text
    assert reason in text
    assert contents(tmp_path) == files_before
    assert (tmp_path / there).read_text("utf-8") == "mine"


def test_the_new_task_is_planned_and_trained_as_it_is(workplace: Path) -> None:
    output = printed(workplace, "init", "fresh_curve")
    paths = ["fresh_curve.py", *(f"conf/task/fresh_curve/{file}.yaml" for file in FILES)]
    assert output.splitlines() == [
        *(f"Wrote {path}" for path in paths),
        "fresh_curve.py runs as it is. Replace its data, model and loop with your own.",
        f"Rows without files: allelse plan task=fresh_curve '{VARIED}'",
        "Next: allelse plan task=fresh_curve",
    ]
    assert not [path for path in paths if "starter" in (workplace / path).read_text("utf-8")]

    planned = json.loads(printed(workplace, "plan", "task=fresh_curve", "--json"))
    weights = {trial["row"]: trial["weights"] for trial in planned}
    assert weights == {"base": "", "no_momentum": "", "straight": "", "wide": "base-s1"}
    varied = json.loads(printed(workplace, "plan", "task=fresh_curve", VARIED, "--json"))
    assert [trial["row"] for trial in varied] == ["base", "degree_3", "degree_9", "lr_0.01"]

    printed(workplace, "train", "task=fresh_curve", "row=straight")
    (row,) = json.loads(printed(workplace, "table", "--format", "json"))
    assert (row["change"], row["params"]) == ("a straight line", 2)
    assert 0.1 < row["mse"] < 0.3


@pytest.mark.parametrize("name", ["points", "np", "task", "trial"])
def test_the_new_task_may_have_the_name_of_something_in_its_file(tmp_path: Path, name: str) -> None:
    printed(tmp_path, "init", name)
    printed(tmp_path, "train", f"task={name}", "steps=1", "tracking=off")
