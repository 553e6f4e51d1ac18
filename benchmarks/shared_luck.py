"""How far the rows of a study share luck by seed: ``python -m benchmarks.shared_luck runs/STUDY``.

Where two rows' scores correlate over seeds, `sweep.paired` gains; docs/statistics.md says from
which correlation on. Trained rows alone count, at the seeds that all of them have. Shapes: K rows,
N seeds.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy import special

from benchmarks.record import RESULTS, heading, provenance, write
from benchmarks.sheet import Sheet, to_markdown, to_terminal
from tracking.card import Metric
from tracking.statistics.seeds.family import finite
from tracking.statistics.table_row import TableRow
from tracking.statistics.table_rows import table
from tracking.study import Study, read_study
from tracking.words import listed


@dataclass(frozen=True)
class SharedLuck:
    """Of one metric. ``p``: how often rows without shared luck would correlate as much, by an F
    test."""

    label: str
    rows: int
    seeds: int
    correlation: float
    p: float


def correlation(values: Any) -> tuple[float, float]:
    """The mean correlation of two rows over seeds, as intraclass correlation, and its p. Args: [K,
    N] scores."""
    rows, seeds = values.shape
    centered = values - values.mean(axis=1, keepdims=True)
    seed_means = centered.mean(axis=0)
    residuals = centered - seed_means
    df = (rows - 1) * (seeds - 1)
    shared_square = rows * (seed_means**2).sum() / (seeds - 1)
    alone_square = (residuals**2).sum() / df
    row_correlation = (shared_square - alone_square) / (shared_square + (rows - 1) * alone_square)
    return float(row_correlation), float(special.fdtrc(seeds - 1, df, shared_square / alone_square))


def shared_luck(study: Study) -> list[SharedLuck]:
    """Of each metric of the table that two rows have at two seeds or more, and that varies over
    seeds."""
    trained = [row for row in table(study) if not row.weights and row.seeds]
    measured = []
    for metric in study.task.tabled:
        values = common_values(trained, metric)
        if min(values.shape) > 1 and np.ptp(values, axis=1).any():
            rows, seeds = values.shape
            luck, p = correlation(values)
            measured.append(SharedLuck(study.task.tested(metric).label, rows, seeds, luck, p))
    return measured


def common_values(rows: Sequence[TableRow], metric: Metric) -> Any:
    """[K, N] of these rows, as they are tested, at the seeds that all of them have."""
    row_scores = [finite(metric.tested_values(row.seed_values[metric.name])) for row in rows]
    seeds = {seed for scores in row_scores for seed in scores}
    for scores in row_scores:
        seeds &= scores.keys()
    values = np.empty((len(rows), len(seeds)))
    for index, scores in enumerate(row_scores):
        values[index] = [scores[seed] for seed in sorted(seeds)]
    return values


def training_words(study: Study) -> str:
    """With which commands and at which commits the study's trials were trained."""
    overrides = [request["command"].partition("allelse sweep ")[2] for request in study.asked]
    commands = [f"`allelse sweep {words}`" for words in overrides if words]
    commits = {
        study.trial_folder(standing.trial).provenance()["commit"]
        for standing in study.standings()
        if standing.result
    }
    return f"Trained by {listed(commands)}, commit {listed(sorted(map(str, commits)))}."


def main(
    study: Annotated[Path, typer.Argument(help="The folder of a study.")],
    out: Annotated[Path, typer.Option(help="Folder for results.")] = RESULTS,
) -> None:
    began = time.monotonic()
    result = provenance("benchmarks.shared_luck", ())
    recorded = read_study(study)
    measured = shared_luck(recorded)
    names = [row.row for row in table(recorded) if not row.weights and row.seeds]
    training = training_words(recorded)
    result |= {
        "study": recorded.name,
        "training": training,
        "rows": names,
        "luck": [asdict(luck) for luck in measured],
    }
    result["seconds"] = time.monotonic() - began
    lines = [
        (luck.label, str(luck.rows), str(luck.seeds), f"{luck.correlation:.2f}", f"{luck.p:.2f}")
        for luck in measured
    ]
    note = (
        f"{training} Mean correlation of two rows over seeds, and p of an F test. Rows: "
        f"{', '.join(names)}."
    )
    sheet = Sheet(
        f"Shared luck in {recorded.name}",
        note,
        ("metric", "rows", "seeds", "correlation", "p"),
        lines,
        1,
    )
    Console(width=120).print(to_terminal(sheet))
    document = "\n\n".join(
        ["\n".join(heading("Luck that rows share by seed", result)), to_markdown(sheet)]
    )
    print(write("shared-luck", document, result, [recorded.name], out))


if __name__ == "__main__":
    typer.run(main)
