"""Files of rows as other programs and editors write them: understood, or refused with their
line."""

import json
from pathlib import Path

import pytest
from small_task import BASE, HEAD, write_task
from typed import refused_for, typed

ROWS = "conf/task/small/row"
SIZE_2 = f"{HEAD}row: {{group: A, change: two}}\nmodel: {{size: 2}}\n"
LICENSE = "# Copyright of somebody.\n#\n# Nothing is granted.\n"


def rows(folder: Path) -> dict[str, str]:
    """The change of each planned row."""
    outcome = typed(folder, "plan", "task=small", "--json")
    assert outcome.exit_code == 0, outcome.output
    return {trial["row"]: trial["change"] for trial in json.loads(outcome.stdout)}


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("\ufeff" + SIZE_2, "two"),
        (LICENSE + SIZE_2, "two"),
        ("\ufeff" + LICENSE * 20 + SIZE_2, "two"),
        (SIZE_2.replace("two", '"\\ud83d\\ude00 \\ud83d\\ude01"'), "😀 😁"),
        (SIZE_2.replace("two", '"really ???, yes"'), "really ???, yes"),
    ],
    ids=["mark", "license", "both", "surrogates", "question marks"],
)
def test_a_file_is_read_as_its_author_sees_it(tmp_path: Path, text: str, change: str) -> None:
    write_task(tmp_path, files={f"{ROWS}/two.yaml": text})
    assert rows(tmp_path) == {"base": "s 8", "square": "square", "two": change}


@pytest.mark.parametrize("name", [".#two.yaml", ".two.yaml", "two.yaml~", "#two.yaml#", ".two.yml"])
def test_what_an_editor_leaves_is_no_row(tmp_path: Path, name: str) -> None:
    write_task(tmp_path, files={f"{ROWS}/{name}": SIZE_2})
    assert rows(tmp_path).keys() == {"base", "square"}


# the file, its text, and the reason
REFUSED = [
    ("two.yml", SIZE_2, f"two.yml ({ROWS}/two.yml) ends in .yml … rename it to two.yaml"),
    ("two.YAML", SIZE_2, f"two.YAML ({ROWS}/two.YAML) ends in .YAML … rename it to two.yaml"),
    (
        "two.yaml",
        SIZE_2.replace("two", '"\\ud83d two"'),
        f'row.change ({ROWS}/two.yaml:2) is "\\ud83d two" … Unicode',
    ),
    (
        "two.yaml",
        SIZE_2.replace("size: 2", "size: ???"),
        f"model.size ({ROWS}/two.yaml:3) is ??? … give it a value",
    ),
    (
        "two.yaml",
        f"{SIZE_2}train:\n  rate: ???\n",
        f"train.rate ({ROWS}/two.yaml:5) is ??? … give it a value",
    ),
    (
        "two.yaml",
        f"{SIZE_2}train: {{rate: '???'}}\n",
        f"train.rate ({ROWS}/two.yaml:4) is ??? … give it a value",
    ),
]


@pytest.mark.parametrize(
    ("name", "text", "reason"), REFUSED, ids=[reason[:40] for _, _, reason in REFUSED]
)
def test_what_would_be_lost_or_misread_is_refused(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    write_task(tmp_path, files={f"{ROWS}/{name}": text})
    refused_for(tmp_path, [reason], "plan", "task=small")


def test_a_file_that_is_asked_for_by_name_is_refused_by_its_ending(tmp_path: Path) -> None:
    write_task(
        tmp_path,
        files={"conf/task/small/scale/half.yml": f"{HEAD}scale: {{name: half, size: 2}}\n"},
    )
    reason = (
        'scale (command line) is "half", but conf/task/small/scale/half.yml ends in .yml … '
        "rename it to half.yaml"
    )
    refused_for(tmp_path, [reason], "plan", "task=small", "scale=half")


def test_a_base_of_another_ending_is_refused_by_its_ending(tmp_path: Path) -> None:
    write_task(tmp_path)
    (tmp_path / "conf/task/small/base.yaml").rename(tmp_path / "conf/task/small/base.yml")
    reason = "base.yml (conf/task/small/base.yml) ends in .yml … rename it to base.yaml"
    refused_for(tmp_path, [reason], "plan", "task=small")


def test_base_may_miss_no_value(tmp_path: Path) -> None:
    base = "conf/task/small/base.yaml"
    write_task(tmp_path, files={base: BASE.replace("rate: 0.5", "rate: ???")})
    refused_for(tmp_path, [f"train.rate ({base}:4) is ???"], "plan", "task=small")


def test_a_typed_text_may_be_neither_missing_nor_half_a_letter(tmp_path: Path) -> None:
    note = {"    cut: ": "    note: str\n    cut: "}
    write_task(tmp_path, note, {"conf/task/small/base.yaml": f"{BASE}  note: x\n"})
    refused_for(
        tmp_path, ["train.note (command line) is ???"], "plan", "task=small", "train.note=???"
    )
    half = 'train.note (command line) is "\\udcff", which holds half a letter'
    refused_for(tmp_path, [half], "plan", "task=small", "train.note=\udcff")
