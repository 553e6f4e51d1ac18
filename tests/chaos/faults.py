"""What can break: each fault strikes a sweep that trains, and says what may come of it. Those at
the end are drawn."""

import math
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil
from machines import Machine
from target import SYNCER, TRAINS, TRIAL_PROCESS, WORKER, Target

Repair = Callable[[], None]
UNTIL_TRAINING = math.inf
"""How long a fault lasts that is repaired once training goes on."""
LEAVE = "leave-now"
"""The file at which a worker of the small task exits."""


class NothingToHitError(Exception):
    """No process that the fault is meant for runs at this moment."""


@dataclass(frozen=True)
class End:
    """How the sweep ends: its exit code, and what exactly one line of its output says."""

    code: int
    line: str = ""


@dataclass(frozen=True)
class Fault:
    """``inflict`` strikes and returns what repairs it, after a time of ``lasts`` or once the sweep
    has ended.

    ``loses``: whether an attempt must end by it; None if it may. ``ends``: how the sweep may end by
    it.
    """

    name: str
    inflict: Callable[[Target, Random], Repair]
    loses: bool | None = True
    lasts: tuple[float, float] = (0.0, 0.0)
    ends: tuple[End, ...] = ()


def nothing() -> None:
    """There is nothing to repair."""


def kill(title: str) -> Callable[[Target, Random], Repair]:
    """Kill one process with this title."""

    def inflict(target: Target, random: Random) -> Repair:
        _one(target, random, title).kill()
        return nothing

    return inflict


def stop(title: str, for_good: bool = False) -> Callable[[Target, Random], Repair]:
    """Stop one process with this title."""

    def inflict(target: Target, random: Random) -> Repair:
        process = _one(target, random, title)
        process.suspend()
        return nothing if for_good else process.resume

    return inflict


def stop_driver(target: Target, random: Random) -> Repair:
    target.driver.suspend()
    return target.resume_driver


def kill_starting(target: Target, random: Random) -> Repair:
    """Kill a worker, and its successor before that one trains, unless an idle worker takes its
    place."""
    old_pids = {process.pid for _, process in target.processes(WORKER)}
    _one(target, random, TRAINS).kill()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if new := [
            process for _, process in target.processes(WORKER) if process.pid not in old_pids
        ]:
            new[0].kill()
            break
        time.sleep(0.05)
    return nothing


def leave(target: Target, random: Random) -> Repair:
    """The next worker of the small task that sees the file removes it and exits with code 0."""
    (target.folder / LEAVE).touch()
    return nothing


def kill_node_process(target: Target, random: Random) -> Repair:
    _kill_all(_busy(target, random).processes("raylet/raylet"))
    return nothing


def lose_node(target: Target, random: Random) -> Repair:
    """As a power cut: nobody is told."""
    machine = _busy(target, random)
    target.down.add(machine.name)
    target.cluster.cut(machine)
    machine.kill()

    def repair() -> None:
        target.cluster.boot(machine)
        target.down.discard(machine.name)

    return repair


def cut(target: Target, random: Random) -> Repair:
    return _cut(target, _busy(target, random))


def cut_head(target: Target, random: Random) -> Repair:
    return _cut(target, target.cluster.head)


def kill_driver(target: Target, random: Random) -> Repair:
    target.driver.kill()
    return nothing


def kill_on_head(title: str) -> Callable[[Target, Random], Repair]:
    """Kill a process of Ray there, which ends the cluster for the sweep."""

    def inflict(target: Target, random: Random) -> Repair:
        _kill_all(target.cluster.head.processes(title))
        return target.restart_ray

    return inflict


def lose_head(target: Target, random: Random) -> Repair:
    """With the driver and the syncer, which run there."""
    target.cluster.head.kill_processes()
    return target.restart_ray


def send(*numbers: signal.Signals) -> Callable[[Target, Random], Repair]:
    """Signals to the sweep, a second apart."""

    def inflict(target: Target, random: Random) -> Repair:
        for pause, number in enumerate(numbers):
            time.sleep(min(pause, 1))
            if target.code is None:
                target.driver.send_signal(number)
        return nothing

    return inflict


def fill_disk(target: Target, random: Random) -> Repair:
    target.disk.fill()
    return target.disk.make_room


def freeze_disk(target: Target, random: Random) -> Repair:
    target.disk.freeze()
    return target.disk.thaw


def ask_to_stop(target: Target, random: Random) -> Repair:
    target.allelse("stop", f"sweep.name={target.study.name}")
    return nothing


def ask_one_then_all_to_stop(target: Target, random: Random) -> Repair:
    """`allelse stop TRIAL`, whose trial must end; then `allelse stop`."""
    running = sorted(name for name, standing in target.standings().items() if standing.runs)
    if not running:
        raise NothingToHitError
    name = random.choice(running)
    target.allelse("stop", name, f"sweep.name={target.study.name}")
    deadline = time.monotonic() + 60
    while target.standings()[name].runs:
        assert time.monotonic() < deadline, f"60 s after `allelse stop {name}`, it still runs"
        time.sleep(0.1)
    ask_to_stop(target, random)  # refused if it was the only trial that ran
    return nothing


def _cut(target: Target, machine: Machine) -> Repair:
    target.down.add(machine.name)
    target.cluster.cut(machine)

    def repair() -> None:
        target.cluster.restore(machine)
        target.down.discard(machine.name)

    return repair


def _one(target: Target, random: Random, title: str) -> psutil.Process:
    processes = target.processes(title)
    if not processes:
        raise NothingToHitError
    return random.choice(processes)[1]


def _busy(target: Target, random: Random) -> Machine:
    """A machine other than the head that trains."""
    names = {machine.name for machine, _ in target.processes(TRAINS)} - {target.cluster.head.name}
    if not names:
        raise NothingToHitError
    chosen_name = random.choice(sorted(names))
    return next(machine for machine in target.cluster.all if machine.name == chosen_name)


def _kill_all(processes: list[psutil.Process]) -> None:
    if not processes:
        raise NothingToHitError
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it ended with another one
            process.kill()


AGAIN = "run again: allelse sweep"
RAY_ENDED = (End(1, f"; the trials resume from their last checkpoints. To continue, {AGAIN}"),)
KILLED = (End(-signal.SIGKILL),)
TERMINATED = (End(143, AGAIN),)
INTERRUPTED = (End(130, AGAIN),)
ALL_STOPPED = End(130, "Next: allelse sweep")
"""Each trial was asked to stop, one by one."""

WORKER_KILLED = Fault("worker killed", kill(TRAINS))
NODE_LOST = Fault("node lost, back after 5 to 15 s", lose_node, lasts=(5, 15))
NODE_AWAY = Fault(
    "node lost, back once training goes on", lose_node, lasts=(UNTIL_TRAINING, UNTIL_TRAINING)
)
"""To start Ray takes CPUs that here are the other nodes', too: this measures the recovery alone."""
LINK_CUT = Fault("link cut for 10 to 40 s", cut, lasts=(10, 40))
TRIAL_KILLED = Fault("trial's process killed", kill(TRIAL_PROCESS))
SYNCER_KILLED = Fault("syncer killed", kill(SYNCER), loses=False)
DRIVER_KILLED = Fault("sweep's process killed", kill_driver, ends=KILLED)

EVERYWHERE = [
    WORKER_KILLED,
    NODE_LOST,
    LINK_CUT,
    TRIAL_KILLED,
    SYNCER_KILLED,
    DRIVER_KILLED,
    Fault("worker and its successor killed", kill_starting),
    Fault("worker stopped for 2 to 8 s", stop(TRAINS), loses=False, lasts=(2, 8)),
    Fault("worker stopped for good", stop(TRAINS, for_good=True)),
    Fault("sweep's process stopped for 2 to 8 s", stop_driver, loses=False, lasts=(2, 8)),
    Fault("syncer stopped for 2 to 8 s", stop(SYNCER), loses=False, lasts=(2, 8)),
    Fault("node's Ray process killed", kill_node_process),
    Fault("link cut for 1 to 3 s", cut, loses=None, lasts=(1, 3)),
    Fault("head's link cut for 2 to 30 s", cut_head, loses=None, lasts=(2, 30)),
    Fault("disk full for 2 to 20 s", fill_disk, loses=False, lasts=(2, 20)),
    Fault("disk silent for 2 to 15 s", freeze_disk, loses=None, lasts=(2, 15)),
    Fault("head's Ray process killed", kill_on_head("raylet/raylet"), ends=RAY_ENDED),
    Fault("Ray's head process killed", kill_on_head("gcs/gcs_server"), ends=RAY_ENDED),
    Fault("head lost", lose_head, ends=KILLED),
    Fault("SIGTERM", send(signal.SIGTERM), ends=TERMINATED),
    Fault("Ctrl-C", send(signal.SIGINT), ends=INTERRUPTED),
    Fault("Ctrl-C twice", send(signal.SIGINT, signal.SIGINT), ends=INTERRUPTED),
    Fault("allelse stop", ask_to_stop, ends=INTERRUPTED),
    Fault(
        "allelse stop TRIAL, then all", ask_one_then_all_to_stop, ends=(*INTERRUPTED, ALL_STOPPED)
    ),
]
OF_THE_SMALL_TASK = Fault("worker exits with code 0", leave)
DURING_RECOVERY = [WORKER_KILLED, TRIAL_KILLED, SYNCER_KILLED, DRIVER_KILLED]
"""What also strikes while a sweep recovers."""
