"""One trial's folder: its attempts, its journal, its result.

One process writes here, the sweep's (or `train`'s). Readers may look at any moment.
"""

import json
import math
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tracking.files import append_line, first_line, last_line, read_lines, to_json, write_atomic
from tracking.process import is_alive

State = Literal["missing", "interrupted", "running", "failed", "finished"]
CHECKPOINT = "checkpoint"  # the metric of a report behind which a whole checkpoint stands; its value is the step
NONFINITE = "nonfinite"  # how many metrics of a report were NaN or infinite, and therefore left out


@dataclass(frozen=True)
class Attempt:
    """One try at a trial. Times are Unix seconds; `ended` and `reason` are None until it ended."""

    number: int
    began: float
    host: str
    pid: int
    ended: float | None = None
    reason: str | None = None

    def lives(self) -> bool:
        """Whether it has not ended and its process runs on this machine."""
        return self.ended is None and self.host == socket.gethostname() and is_alive(self.pid, self.began)


@dataclass(frozen=True)
class Report:
    """One line of the journal; `ts` in Unix seconds."""

    ts: float
    attempt: int
    step: int
    metrics: dict[str, float]


class TrialFolder:
    """`<study>/<row>-s<seed>`; made by the first write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.yaml"
        self.provenance_path = path / "provenance.json"
        self.attempts_path = path / "attempts.jsonl"
        self.journal_path = path / "journal.jsonl"
        self.result_path = path / "result.json"
        self.error_path = path / "error.txt"

    def checkpoints_url(self, elsewhere: str | None) -> str:
        """Where its attempts keep checkpoints; ``elsewhere`` is ``paths.checkpoints``, which may be any fsspec URL."""
        return f"{elsewhere}/{self.path.parent.name}/{self.path.name}" if elsewhere else str(self.path / "checkpoints")

    def hypotheses_path(self, set_name: str) -> Path:
        return self.path / "hypotheses" / f"{set_name}.txt"

    def statistics_path(self, set_name: str) -> Path:
        return self.path / "statistics" / f"{set_name}.jsonl"

    def begin_attempt(self, number: int, host: str, pid: int) -> None:
        """Write down, fsynced, that attempt `number` begins, the first being 1. An earlier open one was lost."""
        last = self._newest()
        if last and last.ended is None:
            self.end_attempt(last.number, "lost")
        line = {"attempt": number, "ts": time.time(), "host": host, "pid": pid}
        append_line(self.attempts_path, to_json(line), fsync=True)
        self.error_path.unlink(missing_ok=True)  # after the line: a crash between leaves the cause readable

    def end_attempt(self, attempt: int, reason: str) -> None:
        """Write down its end: finished, failed, interrupted, lost or worker lost, then free text."""
        line = {"attempt": attempt, "ts": time.time(), "end": True, "reason": reason}
        append_line(self.attempts_path, to_json(line), fsync=True)

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        found: dict[int, Attempt] = {}
        for line in read_lines(self.attempts_path):
            number = line["attempt"]
            if not line.get("end"):
                found[number] = Attempt(number, line["ts"], line["host"], line["pid"])
            elif number in found:
                begun = found[number]
                found[number] = Attempt(number, begun.began, begun.host, begun.pid, line["ts"], line["reason"])
        return list(found.values())

    def report(
        self,
        attempt: int,
        step: int,
        metrics: dict[str, float],
        ts: float | None = None,
        fsync: bool = False,
    ) -> bool:
        """Append to the journal. False, and nothing written, when fenced.

        Fenced is a report of an attempt that is not the newest, and of a step that the journal has reached:
        steps strictly increase. JSON has no NaN and no infinity, and MLflow would store one as 1.8e308: such
        metrics are left out and counted in the metric `nonfinite`, so that a divergence can be seen.
        """
        newest, last = self._newest(), last_line(self.journal_path)
        if newest is None or newest.number != attempt or (last and last["step"] >= step):
            return False
        line = _line(time.time() if ts is None else ts, attempt, step, metrics)
        append_line(self.journal_path, to_json(line), fsync)
        return True

    def restore(self, attempt: int, step: int, history: list[tuple[float, int, dict[str, float]]]) -> None:
        """Training resumes after `step`: keep the journal's lines up to it, and fill in those that are missing.

        `history` holds (ts, step, metrics) of every report up to `step`; the last ones before a crash may never have
        arrived here.
        """
        lines = {at: _line(ts, attempt, at, metrics) for ts, at, metrics in history}
        lines |= {line["step"]: line for line in read_lines(self.journal_path) if line["step"] <= step}
        if lines or self.journal_path.exists():
            write_atomic(self.journal_path, "".join(to_json(lines[at]) + "\n" for at in sorted(lines)))

    def journal(self) -> list[Report]:
        """Every report, steps strictly increasing."""
        return [Report(**line) for line in read_lines(self.journal_path)]

    def write_hypotheses(self, set_name: str, lines: list[str]) -> None:
        """One translation a line; a line break inside one becomes a space, since lines align with sources."""
        text = "".join(" ".join(line.splitlines()) + "\n" for line in lines)
        write_atomic(self.hypotheses_path(set_name), text)

    def write_statistics(self, set_name: str, head: dict[str, Any], sentences: list[dict[str, Any]]) -> None:
        """What was judged in the first line, then what each sentence adds to the scores, in the set's order."""
        write_atomic(self.statistics_path(set_name), "".join(to_json(line) + "\n" for line in (head, *sentences)))

    def statistics(self, set_name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """What ``write_statistics`` wrote; None without it."""
        lines = read_lines(self.statistics_path(set_name))
        return (lines[0], lines[1:]) if lines else None

    def judged(self) -> dict[str, dict[str, Any]]:
        """What was judged, by set: the first lines of all statistics whose hypotheses are there."""
        root = self.path / "statistics"
        names = [str(path.relative_to(root).with_suffix("")) for path in sorted(root.rglob("*.jsonl"))]
        kept = [name for name in names if self.hypotheses_path(name).is_file()]
        return {name: first_line(self.statistics_path(name)) for name in kept}

    def write_result(self, result: dict[str, Any]) -> None:
        """Write `result.json`; a number that is not finite becomes null."""
        write_atomic(self.result_path, to_json(result) + "\n")

    def result(self) -> dict[str, Any] | None:
        text = _read(self.result_path)
        content: dict[str, Any] | None = None if text is None else json.loads(text)
        return content

    def provenance(self) -> dict[str, Any]:
        """Where the trial comes from; {} before its workers have met."""
        text = _read(self.provenance_path)
        content: dict[str, Any] = {} if text is None else json.loads(text)
        return content

    def write_error(self, text: str) -> None:
        write_atomic(self.error_path, text)

    def error(self) -> str | None:
        return _read(self.error_path)

    def state(self, key: str | None = None) -> State:
        """Where the trial stands; with `key`, a result of another key does not count as finished."""
        result, newest = self.result(), self._newest()
        if result is not None and key in (None, result["key"]):
            return "finished"
        if self.error_path.exists():
            return "failed"
        if newest is None:
            return "missing"
        return "running" if newest.lives() else "interrupted"

    def _newest(self) -> Attempt | None:
        return max(self.attempts(), key=lambda attempt: attempt.number, default=None)


def _line(ts: float, attempt: int, step: int, metrics: dict[str, float]) -> dict[str, Any]:
    return {"ts": ts, "attempt": attempt, "step": step, "metrics": _finite(metrics)}


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    kept = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
    dropped = len(metrics) - len(kept)
    return {**kept, NONFINITE: float(dropped)} if dropped else kept


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
