"""Faults drawn at random, on sweeps of small trials: ``make chaos SEED=n``.

Two studies on three machines made of namespaces: trials of one worker, then of two. Each fault
waits until training goes on. Then everything must be as in a sweep that nothing disturbed: weights,
journals, MLflow; and nothing may be left. ``--recovery N`` measures instead N times how long
training takes to go on after the three usual losses.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from experiments import EXPERIMENTS, drawn, repeated
from run import run
from striking import Recovery

TWO = "two faults at once"


def main() -> None:
    options = _options()
    # a background job ignores it, and so would the sweeps
    signal.signal(signal.SIGINT, signal.default_int_handler)
    strikes = (
        repeated(options.seed, options.recovery)
        if options.recovery
        else drawn(options.seed, options.faults)
    )
    for name, each_of in strikes.items():
        print(f"{name}:", *(strike.words for strike in each_of), sep="\n  ", flush=True)
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{options.seed}-")).resolve()
    print(f"in {folder}", flush=True)
    recoveries: dict[str, list[Recovery]] = {}
    try:
        for number, experiment in enumerate(EXPERIMENTS):
            collected = recoveries[experiment.name] = []
            if strikes[experiment.name]:
                run(
                    experiment,
                    folder / f"study-{number}",
                    strikes[experiment.name],
                    options.seed,
                    collected,
                )
    except AssertionError as error:
        sys.exit(f"{error}\nseed {options.seed}; all files are in {folder}")
    finally:
        print(table(recoveries), flush=True)
    shutil.rmtree(folder)
    print("All results are those of an undisturbed sweep, and nothing is left")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--recovery", type=int, default=0, metavar="N")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("machines are made of Linux namespaces; run it as root")
    return options


def table(recoveries: Mapping[str, Sequence[Recovery]]) -> str:
    """As Markdown: per fault and study, how often it struck, and the median and worst seconds to
    training again."""
    lines = [
        ["fault", *(f"{name}: struck | median | worst" for name in recoveries)],
        ["---", *("---: | ---: | ---:" for _ in recoveries)],
    ]
    for fault_kind in _kinds(recoveries.values()):
        lines.append([fault_kind, *(_cells(group, fault_kind) for group in recoveries.values())])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _kinds(recoveries: Iterable[Sequence[Recovery]]) -> list[str]:
    """What struck; two faults at once come last."""
    kinds = {_kind(recovery) for group in recoveries for recovery in group}
    return sorted(kinds, key=lambda fault_kind: (fault_kind == TWO, fault_kind))


def _kind(recovery: Recovery) -> str:
    return TWO if len(recovery.faults) > 1 else recovery.faults[0]


def _cells(recoveries: Sequence[Recovery], fault_kind: str) -> str:
    struck = [recovery for recovery in recoveries if _kind(recovery) == fault_kind]
    seconds = [recovery.seconds for recovery in struck if recovery.seconds is not None]
    if not seconds:
        return f"{len(struck) or ''} | |"
    return f"{len(struck)} | {median(seconds):.1f} s | {max(seconds):.1f} s"


if __name__ == "__main__":
    main()
