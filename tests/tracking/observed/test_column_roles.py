"""`allelse import`: a csv file, and the table or the refusal that must come out of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typed import printed


def imported(folder: Path, text: str, *words: str) -> dict[str, Any]:
    """What the command says of a file with this text, as JSON."""
    (folder / "runs.csv").write_text(text)
    answer: dict[str, Any] = json.loads(printed(folder, "import", "runs.csv", *words, "--json"))
    return answer


def seeds_by_change(answer: dict[str, Any]) -> dict[str, list[int]]:
    return {row["change"]: row["seeds"] for row in answer["rows"]}


def table(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(printed(folder, "table", "--format", "json"))
    return rows


def test_a_line_per_epoch_is_a_curve_whose_last_line_counts(tmp_path: Path) -> None:
    accuracies = {"base": (0.50, 0.60, 0.70), "ours": (0.40, 0.65, 0.80)}
    lines = [
        f"{model},{seed},{epoch},{accuracy + seed / 1000}"
        for epoch in (2, 0, 1)
        for model, curve in accuracies.items()
        for seed in (1, 2)
        for accuracy in curve[epoch : epoch + 1]
    ]
    text = "\n".join(["model,seed,epoch,accuracy", *lines])
    answer = imported(tmp_path, text, "--base", "model=base")
    assert answer["notes"] == ["12 lines are curves of 4 runs: the last line counts"]
    assert answer["doubts"] == []
    assert seeds_by_change(answer) == {"base": [1, 2], "model ours": [1, 2]}
    assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([0.7015, 0.8015])
    result = json.loads((tmp_path / "runs" / "runs" / "base-s1" / "result.json").read_text())
    assert result["step"] == 2
    shown = printed(tmp_path, "import", "runs.csv", "--base", "model=base")
    assert "12 lines are curves of 4 runs: the last line counts" in shown
    assert "Read 4 runs" in shown


def test_runs_without_seeds_that_ended_at_different_steps_are_no_curve(tmp_path: Path) -> None:
    text = "model,step,accuracy\nbase,1000,0.71\nbase,1040,0.72\nours,980,0.73\nours,1010,0.74\n"
    answer = imported(tmp_path, text, "--base", "model=base")
    assert answer["notes"] == []
    assert seeds_by_change(answer) == {"base": [1, 2], "model ours": [1, 2]}
