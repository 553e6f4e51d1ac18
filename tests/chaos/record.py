"""The record of a run: how often each fault struck, and how long it took until training went on.

``python tests/chaos/record.py FILE…`` shows the records of several runs as one table.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from striking import Recovery

TWO = "two faults at once"
HEAD = """\
| fault | {names} |
| --- | {lines} |
"""


def table(recoveries: Mapping[str, Sequence[Recovery]]) -> str:
    """As Markdown: per fault and study, how often it struck, and the median and worst seconds to training again."""
    names = " | ".join(f"{name}: struck | median | worst" for name in recoveries)
    head = HEAD.format(names=names, lines=" | ".join("---: | ---: | ---:" for _ in recoveries))
    return head + "".join(_line(kind, recoveries.values()) for kind in _kinds(recoveries.values()))


def write(path: Path, seed: int, recoveries: Mapping[str, Sequence[Recovery]]) -> None:
    """As JSON, with the load of this machine."""
    found = {name: [asdict(each) for each in each_of] for name, each_of in recoveries.items()}
    content = {"seed": seed, "cpus": os.cpu_count(), "load": os.getloadavg(), "recoveries": found}
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _kinds(recoveries: Iterable[Sequence[Recovery]]) -> list[str]:
    """What struck; two faults at once come last."""
    kinds = {_kind(each) for found in recoveries for each in found}
    return sorted(kinds, key=lambda kind: (kind == TWO, kind))


def _line(kind: str, recoveries: Iterable[Sequence[Recovery]]) -> str:
    return f"| {kind} | {' | '.join(_cells(found, kind) for found in recoveries)} |\n"


def _kind(recovery: Recovery) -> str:
    return TWO if len(recovery.faults) > 1 else recovery.faults[0]


def _cells(recoveries: Sequence[Recovery], kind: str) -> str:
    struck = [each for each in recoveries if _kind(each) == kind]
    seconds = [each.seconds for each in struck if each.seconds is not None]
    if not seconds:
        return f"{len(struck) or ''} | |"
    return f"{len(struck)} | {median(seconds):.1f} s | {max(seconds):.1f} s"


def read(paths: Iterable[Path]) -> dict[str, list[Recovery]]:
    """What several runs have found, by study."""
    found: dict[str, list[Recovery]] = {}
    for path in paths:
        for name, recoveries in json.loads(path.read_text("utf-8"))["recoveries"].items():
            found.setdefault(name, []).extend(Recovery(**each) for each in recoveries)
    return found


if __name__ == "__main__":
    print(table(read(map(Path, sys.argv[1:]))), end="")
