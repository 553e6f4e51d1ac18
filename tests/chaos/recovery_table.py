"""The table of a run: how often each fault struck, and how long it took until training went on."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from striking import Recovery

TWO = "two faults at once"


def table(recoveries: Mapping[str, Sequence[Recovery]]) -> str:
    """As Markdown: per fault and study, how often it struck, and the median and worst seconds to training again."""
    lines = [
        ["fault", *(f"{name}: struck | median | worst" for name in recoveries)],
        ["---", *("---: | ---: | ---:" for _ in recoveries)],
        *([kind, *(_cells(found, kind) for found in recoveries.values())] for kind in _kinds(recoveries.values())),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _kinds(recoveries: Iterable[Sequence[Recovery]]) -> list[str]:
    """What struck; two faults at once come last."""
    kinds = {_kind(each) for found in recoveries for each in found}
    return sorted(kinds, key=lambda kind: (kind == TWO, kind))


def _kind(recovery: Recovery) -> str:
    return TWO if len(recovery.faults) > 1 else recovery.faults[0]


def _cells(recoveries: Sequence[Recovery], kind: str) -> str:
    struck = [each for each in recoveries if _kind(each) == kind]
    seconds = [each.seconds for each in struck if each.seconds is not None]
    if not seconds:
        return f"{len(struck) or ''} | |"
    return f"{len(struck)} | {median(seconds):.1f} s | {max(seconds):.1f} s"
