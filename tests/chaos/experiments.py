"""What faults strike: two studies, with one worker per trial and with two, and the faults drawn for
each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from faults import (
    DURING_RECOVERY,
    EVERYWHERE,
    LEAVE,
    LINK_CUT,
    NODE_AWAY,
    OF_THE_SMALL_TASK,
    UNTIL_TRAINING,
    WORKER_KILLED,
    Fault,
)
from small_task import write_task
from small_text import TEXT, write_text
from striking import Strike
from studies import SMALL, last

NAMES = ("head", "node-a", "node-b")
ENDURED = ["sweep.max_failures=99", "sweep.stall_minutes=0.5"]
SECOND = 0.2
"""How often another fault strikes during the recovery."""
SLOW_AND_LEAVING = f"""        import os, pathlib, time
        time.sleep(0.1)
        try:
            pathlib.Path({{folder!r}}, {LEAVE!r}).unlink()
            os._exit(0)
        except FileNotFoundError:
            pass
"""


@dataclass(frozen=True)
class Experiment:
    """One of the two studies: its command, the CPUs of each machine, and the faults that may strike
    it."""

    name: str
    words: list[str]
    cpus: int
    faults: list[Fault]
    furnish: Callable[[Path], Path]


def write_leaving_task(folder: Path) -> Path:
    """The small task at ten steps a second. A worker that finds the file removes it and exits with
    code 0."""
    begins = "        total +="
    leaving = SLOW_AND_LEAVING.format(folder=str(folder))
    return write_task(folder, {begins: leaving + begins})


ONE_WORKER = Experiment(
    "one worker",
    [
        *(
            "task=small",
            "sweep.rows=[base,square]",
            "sweep.seeds=[1,2]",
            "train.steps=300",
            "train.every=5",
        ),
        *ENDURED,
    ],
    cpus=2,
    faults=[*EVERYWHERE, OF_THE_SMALL_TASK],
    furnish=write_leaving_task,
)
TWO_WORKERS = Experiment(
    "two workers",
    last(
        [
            *(*SMALL, *TEXT, "sweep.rows=[base]", "cluster.workers=2"),
            *("train.steps=1000", "train.checkpoint_every=50", "train.log_every=1"),
            *ENDURED,
        ]
    ),
    cpus=1,
    faults=EVERYWHERE,
    furnish=write_text,
)
EXPERIMENTS = (ONE_WORKER, TWO_WORKERS)
MEASURED = (WORKER_KILLED, NODE_AWAY, LINK_CUT)


def drawn(seed: int, faults: int) -> dict[str, list[Strike]]:
    """The strikes on each of the two studies, which share ``faults``."""
    random = Random(seed)
    share = {ONE_WORKER.name: faults - faults // 2, TWO_WORKERS.name: faults // 2}
    strikes = {}
    for experiment in EXPERIMENTS:
        numbers = range(1, share[experiment.name] + 1)
        strikes[experiment.name] = [_draw(random, experiment, n) for n in numbers]
    return strikes


def repeated(seed: int, times: int) -> dict[str, list[Strike]]:
    """Each measured fault so often, in turn, on each of the two studies."""
    random = Random(seed)
    faults = [fault for _ in range(times) for fault in MEASURED]
    strikes = {}
    for experiment in EXPERIMENTS:
        strikes[experiment.name] = [
            Strike(n, fault, _drawn_time(random, fault), measured=True)
            for n, fault in enumerate(faults, 1)
        ]
    return strikes


def _draw(random: Random, experiment: Experiment, number: int) -> Strike:
    fault = random.choice(experiment.faults)
    lasts = _drawn_time(random, fault)
    pause = random.uniform(0, 4)
    second = random.choice(DURING_RECOVERY) if random.random() < SECOND else None
    return Strike(number, fault, lasts, second, pause if second else 0.0)


def _drawn_time(random: Random, fault: Fault) -> float:
    return fault.lasts[0] if fault.lasts[0] == UNTIL_TRAINING else random.uniform(*fault.lasts)
