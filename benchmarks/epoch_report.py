"""The tables of whole epochs: ours against tuned Marian and against an older checkout, memory and
padding."""

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any

from benchmarks.contest import OURS
from benchmarks.epoch import NEW, OLD, faster, resident_after
from benchmarks.sheet import MET, MISSED, Sheet

Line = dict[str, Any]
AGAINST_MARIAN = {"half": 1.4, "quarter": 1.4, "base": 1.15}
AGAINST_OLD = {"half": 0.65}
"""In the faster precision of this machine."""
AGAINST_OLD_IN_FP32 = {"quarter": 0.7, "tiny": 0.8}
RESIDENT = {"half": 1.2e9}
GROWTH = 0.05
PADDING = 0.06
LOSS_STEPS = 40
FEW = 100
MANY = 200
"""Numbers of block shapes after which memory is read."""


def epoch_sheets(lines: Sequence[Line]) -> list[Sheet]:
    """Speeds, and ours against tuned Marian: each precision, then the faster one of either
    program."""
    note = (
        "Real target pieces per CPU second. Share: model FLOPs per second over the fastest matmul."
    )
    speeds = [_speed(line) for line in lines]
    columns = ("size", "program", "precision", "target tokens/s", "share")
    return [Sheet("A whole epoch", note, columns, speeds, words=3), _against_marian(lines)]


def _speed(line: Line) -> tuple[str, ...]:
    speed = sum(line["targets"]) / sum(line["cpu_seconds"])
    return (
        line["size"],
        line["program"],
        line["precision"],
        f"{speed:,.0f}",
        f"{line['share_of_rate']:.0%}",
    )


def _against_marian(lines: Sequence[Line]) -> Sheet:
    rows = []
    for size in dict.fromkeys(line["size"] for line in lines):
        ours = [line for line in lines if line["size"] == size and line["program"] == OURS]
        peers = [line for line in lines if line["size"] == size and line["program"] != OURS]
        for line, peer in zip(ours, peers, strict=True):
            rows.append(_ratio(line, peer, ""))
        fastest = faster(ours)
        fastest_peer = faster(peers)
        rows.append(
            _ratio(fastest, fastest_peer, _at_least(AGAINST_MARIAN[size], fastest, fastest_peer))
        )
    note = (
        "Our speed over tuned Marian's in the same step: median and quartiles; last, "
        "the faster of each."
    )
    columns = ("size", "ours", "Marian", "ratio", "quartiles", "goal")
    return Sheet("A whole epoch: ours over tuned Marian", note, columns, rows, words=3)


def _ratio(ours: Line, peer: Line, goal: str) -> tuple[str, ...]:
    ratios = _quotients(peer["cpu_seconds"], ours["cpu_seconds"])
    return (
        ours["size"],
        ours["precision"],
        peer["precision"],
        f"{median(ratios):.2f}",
        _quartiles(ratios),
        goal,
    )


def _at_least(goal: float, ours: Line, peer: Line) -> str:
    is_met = median(_quotients(peer["cpu_seconds"], ours["cpu_seconds"])) >= goal
    return f"≥ {goal:.2f} {MET if is_met else MISSED}"


def memory_sheets(lines: Sequence[Line]) -> list[Sheet]:
    """Resident memory of a process that trains one of our models, and its growth with the number of
    shapes."""
    note = (
        "Resident memory of a process that trains alone, "
        "after the step that reached so many block shapes."
    )
    columns = ("size", "precision", f"{FEW} shapes", f"{MANY} shapes", "growth", "goal")
    rows = [_memory(line) for line in lines if line["shapes"][-1] >= MANY]
    sheets = [Sheet("Memory", note, columns, rows, words=2)] if rows else []
    compared = [line for line in lines if OLD in line["steps"]]
    return [*sheets, _against_old(compared)] if compared else sheets


def _memory(line: Line) -> tuple[str, ...]:
    few = resident_after(line, FEW)
    many = resident_after(line, MANY)
    growth = many / few - 1
    limit = RESIDENT.get(line["size"])
    goal = ""
    if limit is not None:
        met = many <= limit and growth <= GROWTH
        goal = f"≤ {limit / 1e9:.1f} GB and {GROWTH:.0%} {MET if met else MISSED}"
    return (
        line["size"],
        line["precision"],
        f"{few / 1e9:.2f} GB",
        f"{many / 1e9:.2f} GB",
        f"{growth:+.0%}",
        goal,
    )


def _against_old(lines: Sequence[Line]) -> Sheet:
    note = (
        "Our CPU seconds per step over the older checkout's, in processes that take turns: "
        "median, quartiles. "
        f"Loss: the largest difference over the first {LOSS_STEPS} steps."
    )
    rows = [_old_row(line, _limit(line, lines)) for line in lines]
    columns = ("size", "precision", "ratio", "quartiles", "loss", "goal")
    return Sheet("A whole epoch: ours over the older checkout", note, columns, rows, words=2)


def _limit(line: Line, lines: Sequence[Line]) -> float | None:
    size = line["size"]
    if line["precision"] == "fp32" and size in AGAINST_OLD_IN_FP32:
        return AGAINST_OLD_IN_FP32[size]
    quickest = min((rival for rival in lines if rival["size"] == size), key=_middle)
    return AGAINST_OLD.get(size) if line is quickest else None


def _middle(line: Line) -> float:
    """Median CPU seconds of our steps."""
    return median(_seconds(line, NEW))


def _old_row(line: Line, limit: float | None) -> tuple[str, ...]:
    ratios = _quotients(_seconds(line, NEW), _seconds(line, OLD))
    pairs = zip(line["steps"][NEW], line["steps"][OLD], strict=True)
    differences = [abs(new["loss"] - old["loss"]) for new, old in pairs]
    goal = "" if limit is None else f"≤ {limit:.2f} {MET if median(ratios) <= limit else MISSED}"
    loss = f"{max(differences[:LOSS_STEPS]):.0e}"
    return line["size"], line["precision"], f"{median(ratios):.2f}", _quartiles(ratios), loss, goal


def padding_sheets(shares: dict[str, float]) -> list[Sheet]:
    """Padding of the epochs."""
    rows = [(name, f"{share:.1%}", _at_most_padding(share)) for name, share in shares.items()]
    note = "Share of all source and target cells of the epoch without a piece."
    return [Sheet("Padding of the epochs", note, ("size", "padding", "goal"), rows, words=1)]


def _at_most_padding(share: float) -> str:
    return f"≤ {PADDING:.0%} {MET if share <= PADDING else MISSED}"


def _seconds(line: Line, name: str) -> list[float]:
    return [step["cpu_seconds"] for step in line["steps"][name]]


def _quotients(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def _quartiles(values: Sequence[float]) -> str:
    low, _, high = quantiles(values, n=4)
    return f"{low:.2f}–{high:.2f}"


EPOCH_SHEETS: dict[str, Callable[[Any], list[Sheet]]] = {
    "epochs": epoch_sheets,
    "processes": memory_sheets,
    "padding_of_epochs": padding_sheets,
}
