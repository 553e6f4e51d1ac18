"""`allelse import`: a csv file, and the table or the refusal that must come out of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typed import printed, refused_for


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


NAMED = """name,seed,lr,accuracy
baseline,1,0.1,0.711
baseline,2,0.1,0.722
ours,1,0.1,0.811
ours,2,0.1,0.822
"""


def test_a_name_that_runs_share_makes_rows_if_no_setting_varies(tmp_path: Path) -> None:
    for words in ((), ("--base", "name=baseline"), ("--row", "name")):
        answer = imported(tmp_path, NAMED, *words)
        assert seeds_by_change(answer) == {"base": [1, 2], "ours": [1, 2]}, words
        assert answer["rows_by"] == "name"
        assert ("rows" in answer["guessed"]) == ("--row" not in words)
        assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([0.7165, 0.8165])


def test_a_base_whose_group_holds_runs_with_another_name_is_refused(tmp_path: Path) -> None:
    slow = "baseline,1,0.2,0.611\nbaseline,2,0.2,0.622\nours,1,0.2,0.633\nours,2,0.2,0.644\n"
    (tmp_path / "runs.csv").write_text(NAMED + slow)
    reason = (
        "--base is name=baseline, but its group also holds runs with name=ours … use --row name"
    )
    refused_for(tmp_path, [reason], "import", "runs.csv", "--base", "name=baseline")
    unlike = NAMED.replace("ours,2,0.1", "ours,2,0.2")
    (tmp_path / "runs.csv").write_text(unlike)
    refused_for(tmp_path, [reason], "import", "runs.csv", "--base", "name=baseline")


def test_the_name_of_one_seed_of_base_is_no_reason_to_refuse(tmp_path: Path) -> None:
    text = "name,seed,lr,accuracy\na,1,0.1,0.711\nb,2,0.1,0.722\nc,1,0.2,0.811\nd,2,0.2,0.822\n"
    answer = imported(tmp_path, text, "--base", "name=a")
    assert seeds_by_change(answer) == {"base": [1, 2], "lr 0.2": [1, 2]}


@pytest.mark.parametrize("name", ["Baseline", "default", "control", "vanilla", "reference", "none"])
def test_the_guess_of_base_is_a_row_that_is_called_so(name: str, tmp_path: Path) -> None:
    cases = [("attention", ()), ("attention", ("--row", "attention")), ("name", ())]
    for column, words in cases[:2] if name == "none" else cases:
        lines = [
            f"{value},{seed},0.{digit}{seed}1"
            for digit, value in enumerate(("wide", "wide", name, "deep"), 4)
            for seed in (1, 2)
        ]
        text = "\n".join([f"{column},seed,accuracy", *lines[:2], *lines[4:]])
        answer = imported(tmp_path, text, *words)
        assert answer["rows"][0]["seeds"] == [1, 2]
        assert table(tmp_path)[0]["accuracy"] == pytest.approx(0.616), (column, words)
