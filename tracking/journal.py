"""One line of a trial's journal."""

import math
from dataclasses import dataclass
from typing import Any

PastReport = tuple[float, int, dict[str, float], int | None]  # time, step, metrics, checkpoint
NONFINITE = "nonfinite"  # the number of metrics in a report that were left out as NaN or infinite


@dataclass(frozen=True)
class JournalLine:
    """One line of the journal; `ts` in Unix seconds. `checkpoint`: the step of one written since the last line."""

    ts: float
    attempt: int
    step: int
    metrics: dict[str, float]
    checkpoint: int | None = None

    @staticmethod
    def of(line: dict[str, Any]) -> "JournalLine":
        """From JSON."""
        return JournalLine(line["ts"], line["attempt"], line["step"], line["metrics"], line.get("checkpoint"))


def journal_line(
    ts: float, attempt: int, step: int, metrics: dict[str, float], checkpoint: int | None
) -> dict[str, Any]:
    """A report as JSON. It has no NaN or infinity, and MLflow would store infinity as 1.8e308. Such metrics are left
    out and counted in the metric ``nonfinite``, which shows a divergence."""
    safe = {} if checkpoint is None else {"checkpoint": checkpoint}
    return {"ts": ts, "attempt": attempt, "step": step, **safe, "metrics": _finite(metrics)}


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    kept = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
    dropped = len(metrics) - len(kept)
    return {**kept, NONFINITE: float(dropped)} if dropped else kept
