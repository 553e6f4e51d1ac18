"""A study from its first command to its last check, while faults strike it."""

import time
from pathlib import Path
from random import Random

from faults import NothingToHitError
from leftovers import check_nothing_left
from machines import machines
from storms import NAMES, Storm
from striking import PATIENCE_S, Recovery, Strike, Striking
from under_attack import UnderAttack
from unharmed import check_unharmed

UNDISTURBED = "undisturbed"


def weather(storm: Storm, folder: Path, strikes: list[Strike], seed: int, found: list[Recovery]) -> None:
    """Strike a study again and again, and add what was ``found``. Raises AssertionError."""
    folder.mkdir()
    storm.furnish(folder)
    with machines(*NAMES, cpus=storm.cpus) as cluster:
        attacked = UnderAttack(cluster, folder, storm.words)
        attacked.begin(UNDISTURBED)
        finish(attacked)
        attacked.next_round()
        for strike in strikes:
            await_training(attacked)
            _say(f"{storm.name} {strike.words}")
            try:
                found.append(struck(attacked, strike, Random(f"{seed} {storm.name} {strike.number}")))
            except AssertionError as error:
                raise AssertionError(f"{storm.name}, {strike.words}: {error}") from None
            _say(f"  {found[-1].words}")
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
        if attacked.code is not None:
            finish(attacked)
            attacked.next_round()
        _wait(attacked, deadline, "nothing trains")


def finish(attacked: UnderAttack) -> None:
    """Wait for the end of this round, and check everything. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE_S
    while attacked.code is None:
        _wait(attacked, deadline, "the sweep still runs")
    assert attacked.code == 0, f"the sweep ended with exit code {attacked.code}: see {attacked.output}"
    check_unharmed(attacked.study, attacked.folder / "runs" / UNDISTURBED)
    check_nothing_left(attacked.cluster, attacked.study)
    _say(f"  {attacked.study.name} is as undisturbed")


def _wait(attacked: UnderAttack, deadline: float, otherwise: str) -> None:
    assert time.monotonic() < deadline, f"after {PATIENCE_S:g} s, {otherwise}: see {attacked.output}"
    attacked.tend()
    time.sleep(0.2)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
