"""The tables of a run, from its result as plain data: also ours against each peer, round by round,
and the goals."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from benchmarks.arithmetic import Arithmetic
from benchmarks.contest import MARIAN, OURS
from benchmarks.epoch_report import EPOCH_SHEETS
from benchmarks.record import Result, heading
from benchmarks.sheet import MET, MISSED, Sheet, to_markdown
from tracking.words import listed, signed

Line = dict[str, Any]
BF16_AGAINST_MARIAN = {"base": 1.45, "base-37k": 1.45, "small": 1.65}
BF16_AGAINST_DEFAULT = 3.2
FP32_AGAINST_DEFAULT = 1.7
FP32_AGAINST_SAME_SWITCH = 1.2
TWO_THREADS_AGAINST_ONE = 1.7
PADDING = {2000: 0.04, 4000: 0.04, 25000: 0.09}
TEXT_OF_PADDING = "Multi30k"
START_UP_SECONDS = 6.0
CHECKPOINT_STALL = 0.05

SPEED = ("size", "program", "arithmetic", "target tokens/s", "range", "mfu")


def sheets(result: Result) -> Iterator[Sheet]:
    """The tables of the measurements, in the order of the report."""
    makers: dict[str, Callable[[Any], list[Sheet]]] = {
        "calibration": _calibration,
        "models": _models,
        "training": _training,
        **EPOCH_SHEETS,
        "padding": lambda lines: _padding(lines, result["text"]),
        "threads": _threads,
        "start_up": _start_up,
        "checkpoint": _checkpoint,
    }
    for section, make in makers.items():
        if result.get(section):
            yield from make(result[section])


def document(result: Result) -> str:
    """The full run as Markdown, with everything needed to repeat it."""
    text = result["text"]
    if result.get("synthetic"):
        text += f"; in the epochs of {listed(result['synthetic'])}, the demo's synthetic corpus"
    head = [
        *heading("Training on a CPU, side by side", result),
        (
            f"Text: {text}. Everything is measured in this run unless marked as computed "
            "or extrapolated."
        ),
        "",
    ]
    return "\n".join([*head, *map(to_markdown, sheets(result))])


def _calibration(lines: list[Line]) -> list[Sheet]:
    note = (
        "CPU seconds, median. Error: L2 norm of the difference to float64 over the norm of "
        "the product."
    )
    rows = [
        (
            line["matmul"],
            _shape(line),
            line["arithmetic"],
            f"{line['gflops']:.0f}",
            f"{line['error']:.1e}",
        )
        for line in lines
    ]
    return [
        Sheet("Matmuls", note, ("matmul", "shape", "arithmetic", "GFLOP/s", "error"), rows, words=3)
    ]


def _models(lines: list[Line]) -> list[Sheet]:
    note = (
        "Parameters: trained numbers, counted. Random draws: "
        "random operations of one forward pass, for dropout."
    )
    ours = {line["size"]: line["parameters"] for line in lines if line["program"] == OURS}
    rows = [
        (line["size"], line["program"], *_counts(line, ours[line["size"]]))
        for line in sorted(lines, key=lambda line: list(ours).index(line["size"]))
    ]
    columns = ("size", "program", "parameters", "difference to ours", "random draws")
    return [Sheet("Models", note, columns, rows, words=2)]


def _counts(line: Line, ours: int) -> tuple[str, str, str]:
    return f"{line['parameters']:,}", signed(line["parameters"] - ours, 0), str(line["draws"])


def _training(lines: list[Line]) -> list[Sheet]:
    ours = [line for line in lines if line["program"] == OURS]
    peers = [line for line in lines if line["program"] != OURS]
    default = [line for line in peers if line["arithmetic"] == Arithmetic.FP32]
    switched = [line for line in peers if line["arithmetic"] != Arithmetic.FP32]
    note = "Real target pieces per CPU second on one thread: median and range of the rounds."
    mfu = (
        "Utilization: model FLOPs (computed, no padding) per second divided by the fastest "
        "matmul above."
    )
    tuned = "Tuned: with fused Adam, and attention by explicit matmuls."
    return [
        Sheet("Peers at their defaults", note, SPEED, list(map(_speed, default)), words=3),
        Sheet(
            "Peers with our switches",
            f"{note} {tuned}",
            SPEED,
            list(map(_speed, switched)),
            words=3,
        ),
        Sheet("Ours", f"{note} {mfu}", SPEED, list(map(_speed, ours)), words=3),
        _ratios(lines),
    ]


def _speed(line: Line) -> tuple[str, ...]:
    speeds = line["tokens_per_s"]
    arithmetic = line["arithmetic"] + (", tuned" if line["tuned"] else "")
    figures = f"{median(speeds):,.0f}", _range(speeds, ",.0f"), f"{line['mfu']:.0%}"
    return line["size"], line["program"], arithmetic, *figures


def _ratios(lines: list[Line]) -> Sheet:
    note = "Our speed divided by the peer's in the same round: median and range."
    rows = [
        (
            *(line["size"], line["ours"], line["program"]),
            line["arithmetic"] + (", tuned" if line["tuned"] else ""),
            *(
                f"{line['median']:.2f}",
                _range(line["ratios"], ".2f"),
                _goal(line["median"], line["goal"]),
            ),
        )
        for line in ratios(lines)
    ]
    columns = ("size", "ours", "peer", "its arithmetic", "ratio", "range", "goal")
    return Sheet("Ours against the peers", note, columns, rows, words=4)


def _padding(lines: list[Line], text: str) -> list[Sheet]:
    note = f"Share of all source and target cells without a piece, over an epoch of {text}."
    limits = PADDING if text == TEXT_OF_PADDING else {}
    rows = [
        (
            f"{line['tokens']:,}",
            f"{line['ours']:.1%}",
            f"{line['random']:.1%}",
            _limit(line, limits),
        )
        for line in lines
    ]
    return [
        Sheet("Padding", note, ("tokens per batch", "ours", "random order", "goal"), rows, words=0)
    ]


def _limit(line: Line, limits: dict[int, float]) -> str:
    limit = limits.get(line["tokens"])
    return "" if limit is None else f"≤ {limit:.0%} {MET if line['ours'] <= limit else MISSED}"


def _threads(lines: list[Line]) -> list[Sheet]:
    note = "Base, ours, wall seconds of the same steps in turn: median and range of the ratio."
    goal = TWO_THREADS_AGAINST_ONE
    rows = [
        (
            *(line["arithmetic"], f"{median(line['one']):.2f} s", f"{median(line['two']):.2f} s"),
            *(
                f"{median(line['ratios']):.2f}",
                _range(line["ratios"], ".2f"),
                _goal(median(line["ratios"]), goal),
            ),
        )
        for line in lines
    ]
    columns = ("arithmetic", "one thread", "two threads", "ratio", "range", "goal")
    return [Sheet("Two threads against one", note, columns, rows, words=1)]


def _start_up(seconds: list[float]) -> list[Sheet]:
    note = (
        "From `allelse train` (tiny, data prepared) to the first step in the journal, wall seconds."
    )
    goal = START_UP_SECONDS
    middle = median(seconds)
    row = (
        f"{middle:.1f} s",
        _range(seconds, ".1f"),
        f"≤ {goal:.0f} s {MET if middle <= goal else MISSED}",
    )
    return [Sheet("Start-up", note, ("seconds", "range", "goal"), [row], words=0)]


def _checkpoint(line: Line) -> list[Sheet]:
    note = (
        "Base: wall seconds of waiting per checkpoint; their share at one per "
        f"{line['tokens_apart']:,} tokens: "
        "here (extrapolated from one step), and at a million tokens/s, "
        "the goal for one GPU (computed)."
    )
    share = line["share_here"]
    gpu = line["share_on_gpu"]
    goal = CHECKPOINT_STALL
    seconds = f"{median(line['seconds']):.2f} s", _range(line["seconds"], ".2f")
    row = (
        *seconds,
        f"{share:.2%}",
        f"{gpu:.1%}",
        f"≤ {goal:.0%} {MET if max(share, gpu) <= goal else MISSED}",
    )
    return [
        Sheet(
            "Checkpoints",
            note,
            ("seconds", "range", "share here", "share on a GPU", "goal"),
            [row],
            words=0,
        )
    ]


def _goal(ratio: float, goal: float | None) -> str:
    return "" if goal is None else f"≥ {goal:.2f} {MET if ratio >= goal else MISSED}"


def _range(values: list[float], form: str) -> str:
    return f"{min(values):{form}}–{max(values):{form}}"


def _shape(line: Line) -> str:
    return "×".join(map(str, line["shape"]))


def ratios(training: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our speed divided by a peer's in the same round, for every pair worth comparing; ``goal`` may
    be None."""
    ours = {
        (line["size"], line["arithmetic"]): line for line in training if line["program"] == OURS
    }
    peers = [line for line in training if line["program"] != OURS]
    return [
        _ratio(ours[line["size"], arithmetic], line)
        for line in peers
        for arithmetic in Arithmetic
        if arithmetic == line["arithmetic"] or line["arithmetic"] == Arithmetic.FP32
    ]


def _ratio(ours: dict[str, Any], peer: dict[str, Any]) -> dict[str, Any]:
    ratios = [a / b for a, b in zip(ours["tokens_per_s"], peer["tokens_per_s"], strict=True)]
    against = {name: peer[name] for name in ("size", "program", "arithmetic", "tuned")}
    return {
        **against,
        "ours": ours["arithmetic"],
        "ratios": ratios,
        "median": median(ratios),
        "goal": _goal_of(ours, peer),
    }


def _goal_of(ours: dict[str, Any], peer: dict[str, Any]) -> float | None:
    match ours["arithmetic"], peer["arithmetic"]:
        case Arithmetic.BF16, Arithmetic.BF16:
            as_it_comes = peer["program"] == MARIAN.name and not peer["tuned"]
            return BF16_AGAINST_MARIAN.get(peer["size"]) if as_it_comes else None
        case Arithmetic.BF16, Arithmetic.FP32:
            return BF16_AGAINST_DEFAULT
        case Arithmetic.ONEDNN, Arithmetic.FP32:
            return FP32_AGAINST_DEFAULT
        case Arithmetic.ONEDNN, Arithmetic.ONEDNN:
            return FP32_AGAINST_SAME_SWITCH
    return None
