"""Ours against each peer, round by round, and the goals."""

from statistics import median
from typing import Any

from benchmarks.arithmetic import Arithmetic
from benchmarks.contest import MARIAN, OURS

BF16_AGAINST_MARIAN = {"base": 1.45, "base-37k": 1.45, "small": 1.65}
BF16_AGAINST_DEFAULT = 3.2
FP32_AGAINST_DEFAULT = 1.7
FP32_AGAINST_SAME_SWITCH = 1.2
TWO_THREADS_AGAINST_ONE = 1.7
PADDING = {2000: 0.04, 4000: 0.04, 25000: 0.09}
TEXT_OF_PADDING = "Multi30k"
START_UP_SECONDS = 6.0
CHECKPOINT_STALL = 0.05


def ratios(training: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our speed divided by a peer's in the same round, for every pair worth comparing; ``goal`` may be None."""
    ours = {(line["size"], line["arithmetic"]): line for line in training if line["program"] == OURS}
    peers = [line for line in training if line["program"] != OURS]
    return [
        _ratio(ours[line["size"], arithmetic], line)
        for line in peers
        for arithmetic in Arithmetic
        if arithmetic == line["arithmetic"] or line["arithmetic"] == Arithmetic.FP32
    ]


def _ratio(ours: dict[str, Any], peer: dict[str, Any]) -> dict[str, Any]:
    each = [a / b for a, b in zip(ours["tokens_per_s"], peer["tokens_per_s"], strict=True)]
    against = {name: peer[name] for name in ("size", "program", "arithmetic", "tuned")}
    return {**against, "ours": ours["arithmetic"], "ratios": each, "median": median(each), "goal": _goal(ours, peer)}


def _goal(ours: dict[str, Any], peer: dict[str, Any]) -> float | None:
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
