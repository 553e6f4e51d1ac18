"""What of the benchmark of GPUs can be seen without one: its refusal, what it would train, and its table."""

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from benchmarks.gpu import SIZES, Ceiling, Measured, Size, Way, table, workload


def test_without_a_gpu_it_says_so_in_a_line_and_refuses() -> None:
    blind = os.environ | {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "120"}
    command = [sys.executable, "-m", "benchmarks.gpu"]
    ended = subprocess.run(command, env=blind, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == "Refused: torch finds no CUDA device here. Nothing was measured.\n"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_the_steps_of_a_size_fill_their_buckets(size: Size) -> None:
    work = workload(size)
    budget = work.trial.train.tokens_per_batch
    passes = [batch for step in work.steps for batch in step]
    assert {batch.shape for batch in passes} <= set(work.shapes)
    assert budget == {"base": 25_000, "big": 25_000, "half": 4_000}[size.name]
    assert work.trial.model.d_model == {"base": 512, "big": 1024, "half": 256}[size.name]
    assert work.trial.train.precision == "bf16"
    assert all(0.7 * budget < step[0].total_targets <= budget for step in work.steps)
    assert sum(batch.shape.cells for batch in passes) < 2.3 * budget * len(work.steps)
    assert max(int(batch.target.max()) for batch in passes) < size.vocab_size


def test_the_table_sets_what_was_measured_beside_the_goals() -> None:
    base, half = (workload(SIZES[i]) for i in (0, 2))
    targets = sum(step[0].total_targets for step in base.steps) / len(base.steps)
    line = Measured(base, Way.EAGER, [30.0, 20.0, 25.0])
    assert line.tokens_per_s == pytest.approx(targets / 0.025)
    console = Console(width=140, record=True, file=io.StringIO())
    slow, fast = (Measured(base, way, [ms]) for way, ms in ((Way.EAGER, 100.0), (Way.GRAPHED, 10.0)))
    console.print(table([slow, fast, line, Measured(half, Way.GRAPHED, [0.9])], Ceiling(790e12, 4e12)))
    rows = [row.split() for row in console.export_text().splitlines() if row.strip().startswith(("base", "half"))]
    assert [row[-1] for row in rows] == ["missed", "met", "missed" if line.tokens_per_s < 1e6 else "met", "met"]
    assert rows[2][1:5] == ["eager", "25.00", "20.00–30.00", f"{line.tokens_per_s:,.0f}"]
