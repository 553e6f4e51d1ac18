"""Faults drawn at random, on sweeps of small trials: ``make chaos SEED=n``.

Two studies on three machines made of namespaces: trials of one worker, then of two. Each fault waits until training
goes on. Then everything must be as in a sweep that nothing disturbed: weights, journals, MLflow; and nothing may be
left. ``--recovery N`` measures instead N times how long training takes to go on after the three usual losses.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import record
from faults import NothingToHitError
from leftovers import check_nothing_left
from machines import machines
from storms import NAMES, STORMS, Storm, drawn, repeated
from striking import Recovery, Strike, Striking
from under_attack import UnderAttack
from unharmed import check_unharmed

UNDISTURBED = "undisturbed"


def main() -> None:
    options = _options()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and so would the sweeps
    strikes = repeated(options.seed, options.recovery) if options.recovery else drawn(options.seed, options.faults)
    for name, each_of in strikes.items():
        print(f"{name}:", *(strike.words for strike in each_of), sep="\n  ", flush=True)
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{options.seed}-")).resolve()
    print(f"in {folder}", flush=True)
    recoveries: dict[str, list[Recovery]] = {}
    try:
        for number, storm in enumerate(STORMS):
            found = recoveries[storm.name] = []
            if strikes[storm.name]:
                weather(storm, folder / f"study-{number}", strikes[storm.name], options.seed, found)
    except AssertionError as error:
        sys.exit(f"{error}\nseed {options.seed}; all files are in {folder}")
    finally:
        print(record.table(recoveries), flush=True)
        if options.record:
            record.write(options.record, options.seed, recoveries)
    shutil.rmtree(folder)
    print("All results are those of an undisturbed sweep, and nothing is left")


def weather(storm: Storm, folder: Path, strikes: list[Strike], seed: int, found: list[Recovery]) -> None:
    """Strike a study again and again, and add what was ``found``. Raises AssertionError."""
    storm.furnish(folder)
    with machines(*NAMES, cpus=storm.cpus) as cluster:
        attacked = UnderAttack(cluster, folder, storm.words)
        attacked.study = folder / "runs" / UNDISTURBED
        attacked.type()
        finish(attacked)
        attacked.next_round()
        for strike in strikes:
            await_training(attacked)
            _say(f"{storm.name} {strike.words}")
            try:
                recovery = struck(attacked, strike, Random(f"{seed} {storm.name} {strike.number}"))
            except AssertionError as error:
                raise AssertionError(f"{storm.name}, {strike.words}: {error}") from None
            found.append(recovery)
            _say(f"  {recovery.seconds or 0:.1f} s, typed again {recovery.typed_again} times")
        finish(attacked)


def struck(attacked: UnderAttack, strike: Strike, drawn: Random) -> Recovery:
    """Strike once there is something to hit."""
    while True:
        try:
            return Striking(attacked, strike, drawn).until_training()
        except NothingToHitError:
            time.sleep(0.2)
            await_training(attacked)


def await_training(attacked: UnderAttack) -> None:
    """Until a trial trains, in a new round if this one has ended. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE_S
    while not attacked.trains():
        attacked.tend()
        if attacked.code is not None:
            finish(attacked)
            attacked.next_round()
        assert time.monotonic() < deadline, (
            f"{PATIENCE_S:g} s after it was typed, nothing trains: see {attacked.output}"
        )
        time.sleep(0.2)


def finish(attacked: UnderAttack) -> None:
    """Wait for the end of this round, and check everything. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE_S
    while attacked.code is None:
        attacked.tend()
        assert time.monotonic() < deadline, (
            f"{PATIENCE_S:g} s after the last fault, the sweep still runs: see {attacked.output}"
        )
        time.sleep(0.2)
    assert attacked.code == 0, f"the sweep ended with exit code {attacked.code}: see {attacked.output}"
    check_unharmed(attacked.study, attacked.folder / "runs" / UNDISTURBED)
    check_nothing_left(attacked.cluster, attacked.study)
    _say(f"  {attacked.study.name} is as undisturbed")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--recovery", type=int, default=0, metavar="N")
    parser.add_argument("--record", type=Path, help="a JSON file for what was measured")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("machines are made of Linux namespaces; run it as root")
    return options


if __name__ == "__main__":
    main()
