"""A study from its first command to its last check, while faults strike it."""

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from experiments import NAMES, Experiment
from faults import NothingToHitError
from leftovers import check_nothing_left
from machines import machines
from own_filesystem import on_image
from same_results import check_same_results
from striking import PATIENCE_S, Recovery, Strike, Striking
from target import Target

UNDISTURBED = "undisturbed"
DISK_BYTES = 8 << 30  # its file grows only as needed


def run(
    experiment: Experiment,
    folder: Path,
    strikes: list[Strike],
    seed: int,
    recoveries: list[Recovery],
) -> None:
    """Strike a study again and again, and add what was ``found``. Raises AssertionError."""
    folder.mkdir()
    experiment.furnish(folder)
    with (
        on_image(folder / "runs", folder / "runs.ext4", DISK_BYTES) as disk,
        machines(*NAMES, cpus=experiment.cpus) as cluster,
    ):
        try:
            target = Target(cluster, disk, folder, experiment.words)
            target.begin(UNDISTURBED)
            finish(target)
            target.next_round()
            for strike in strikes:
                _say(f"{experiment.name} {strike.words}")
                try:
                    recoveries.append(
                        struck(target, strike, Random(f"{seed} {experiment.name} {strike.number}"))
                    )
                except AssertionError as error:
                    # its disk goes with this process
                    subprocess.run(
                        ["cp", "-a", target.study, folder], check=False, capture_output=True
                    )
                    raise AssertionError(f"{experiment.name}, {strike.words}: {error}") from None
                _say(f"  {recoveries[-1].words}")
            finish(target)
        finally:
            with suppress(subprocess.CalledProcessError):
                disk.thaw()  # who waits for it could not be killed


def struck(target: Target, strike: Strike, random: Random) -> Recovery:
    """Strike until something is hit. Raises AssertionError if the sweep does not recover as it
    should."""
    # the only trial may be on the head, and the fault for another machine
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        await_training(target, strike.measured)
        try:
            recovery = Striking(target, strike, random).until_training()
        except NothingToHitError:
            time.sleep(0.2)
            continue
        if recovery.seconds is not None:
            return recovery
        _say("  it hit nothing, so it strikes again")
    raise AssertionError(f"it hit nothing within {PATIENCE_S:g} s")


def await_training(target: Target, everywhere: bool) -> None:
    """Until a trial trains, or all do, in a new round if this one has ended. Raises
    AssertionError."""
    deadline = time.monotonic() + PATIENCE_S
    while not (target.all_train() if everywhere else target.trains()):
        if target.code is not None:
            finish(target)
            target.next_round()
        _wait(target, deadline, "nothing trains")


def finish(target: Target) -> None:
    """Wait for the end of this round, and check everything. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE_S
    while target.code is None:
        _wait(target, deadline, "the sweep still runs")
    assert target.code == 0, f"the sweep ended with exit code {target.code}: see {target.output}"
    check_same_results(target.study, target.folder / "runs" / UNDISTURBED)
    check_nothing_left(target.cluster, target.study)
    _say(f"  {target.study.name} is as undisturbed")


def _wait(target: Target, deadline: float, otherwise: str) -> None:
    assert time.monotonic() < deadline, f"after {PATIENCE_S:g} s, {otherwise}: see {target.output}"
    target.tend()
    time.sleep(0.2)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
