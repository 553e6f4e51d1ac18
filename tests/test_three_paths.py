"""The three paths of docs/design.md: each function that a path names is there, and a path
takes few files."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECTION = (
    (ROOT / "docs" / "design.md")
    .read_text("utf-8")
    .partition("## Three paths through the code\n")[2]
    .partition("\n## ")[0]
)
ANSWERS = {
    question: re.findall(r"^- `([^`:]+):([^`]+)`", steps, re.MULTILINE)
    for question, steps in re.findall(r"^\*\*(.+):\*\*\n((?:- .*\n?)+)", SECTION, re.MULTILINE)
}


def functions(file: str) -> set[str]:
    """Such as "fit", and "Queue.take"."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    names = set[str]()
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        names |= {
            f"{prefix}{node.name}"
            for node in inner
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return names


@pytest.mark.parametrize("question", ANSWERS)
def test_each_function_of_an_answer_is_there(question: str) -> None:
    assert [
        f"{file}:{name}" for file, name in ANSWERS[question] if name not in functions(file)
    ] == []


@pytest.mark.parametrize(
    ("question", "most"),
    [
        ("From a killed worker to training again", 8),
        ("A metric from `trial.report` to MLflow", 8),
        ("`model.n_heads` from a row's file to attention", 10),
    ],
)
def test_an_answer_takes_few_files(question: str, most: int) -> None:
    assert len({file for file, _ in ANSWERS[question]}) <= most
