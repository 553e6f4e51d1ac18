"""A study that is swept while its machines fail: the command that is typed again, and what is seen
from outside."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from machines import Inside, Machine, Machines
from own_filesystem import OwnFilesystem
from studies import command, lines, wait_until

TRAINS = WORKER = "ray::WorkerActor"
TRIAL_PROCESS = "ray::TrialProcess"
SYNCER = "tracking.mlflow.sync"
ALIVE = """
import sys
from ray._raylet import GcsClient
nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=30).values()
print(sum(node.state == 0 for node in nodes))
"""
"""How many nodes the cluster has."""


@dataclass(frozen=True)
class Standing:
    """How far a trial is: its newest attempt, and the newest line of its journal."""

    attempt: int
    began: float
    ended: bool
    finished: bool
    reporter: int
    step: int
    ts: float

    @property
    def runs(self) -> bool:
        return self.attempt > 0 and not self.ended and not self.finished

    def has_reported(self, since: float) -> bool:
        """Whether its newest attempt has, since then. What it found in a checkpoint is of earlier
        attempts."""
        return self.reporter == self.attempt and self.ts > max(since, self.began)


class Target:
    """One study after another, each with the same trials, so that faults always hit training."""

    def __init__(
        self, cluster: Machines, disk: OwnFilesystem, folder: Path, words: Sequence[str]
    ) -> None:
        self.disk = disk  # of all studies
        self.cluster = cluster
        self.folder = folder
        self.words = [*words, f"cluster.address={cluster.address}"]
        self.down = set[str]()  # machines that a fault keeps away for now
        self.study = folder
        self.rounds = self.typed = 0
        self.typed_at = 0.0
        self.sweep: Inside | None = None

    def next_round(self) -> None:
        self.rounds += 1
        self.begin(f"round-{self.rounds}")

    def begin(self, study: str) -> None:
        self.study = self.folder / "runs" / study
        self.type()

    def type(self) -> None:
        """Type the command of this study, for the first time or again."""
        self.typed += 1
        self.typed_at = time.time()
        words = f"sweep.name={self.study.name}", "sweep.share=false", *self.words
        self.sweep = self._into_file(command("sweep", *words))

    def allelse(self, *words: str) -> None:
        """Another command on the head, to its end."""
        outcome = self.cluster.head.allelse(*words, cwd=self.folder)
        assert outcome.code in (0, 2), outcome.output  # 2: it is refused if nothing runs any more
        assert "Traceback" not in outcome.output, outcome.output

    @property
    def driver(self) -> psutil.Process:
        """The process of the sweep, once nsenter has started it."""
        assert self.sweep is not None
        inside = self.sweep
        wait_until(
            lambda: inside.ended() or bool(psutil.Process(inside.process.pid).children()),
            "the sweep's process",
        )
        return inside.program

    @property
    def code(self) -> int | None:
        """The exit code of the command; None while it runs."""
        assert self.sweep is not None
        return self.sweep.process.poll()

    @property
    def output(self) -> Path:
        """What the newest command printed."""
        return self.folder / f"typed-{self.typed}.txt"

    def resume_driver(self) -> None:
        """After SIGSTOP. nsenter stops with the program that it started, and goes on with it."""
        assert self.sweep is not None
        psutil.Process(self.sweep.process.pid).resume()

    def processes(self, title: str) -> list[tuple[Machine, psutil.Process]]:
        return [
            (machine, process)
            for machine in self.cluster.all
            for process in machine.processes(title)
        ]

    def restart_ray(self) -> None:
        """As people do once the head is gone: on every machine, the head first."""
        for machine in self.cluster.all:
            machine.kill_processes()
        for machine in self.cluster.all:
            self.cluster.start_ray(machine)

    def tend(self) -> None:
        """As a supervisor of each machine: start Ray where its node process has ended, unless the
        head is away."""
        head = self.cluster.head
        if head.name in self.down or not head.processes("gcs/gcs_server"):
            return
        for machine in self.cluster.all[1:]:
            if machine.name not in self.down and not machine.processes("raylet/raylet"):
                self.cluster.start_ray(machine)

    def standings(self) -> dict[str, Standing]:
        """Of every trial of this round that has begun."""
        return {
            path.parent.name: standing(path.parent) for path in self.study.glob("*/attempts.jsonl")
        }

    def trains(self) -> bool:
        """Whether a trial has reported since the command was typed."""
        return any(
            trial_standing.runs and trial_standing.has_reported(self.typed_at)
            for trial_standing in self.standings().values()
        )

    def all_train(self) -> bool:
        """Whether every trial that began has reported since then, and no machine is missing in the
        cluster."""
        running = [
            trial_standing for trial_standing in self.standings().values() if trial_standing.runs
        ]
        return (
            self.trains()
            and all(trial_standing.has_reported(self.typed_at) for trial_standing in running)
            and self._is_whole()
        )

    def _is_whole(self) -> bool:
        """A machine whose link was cut joins late, since its former node process first has to
        end."""
        alive = self.cluster.head.run(sys.executable, "-c", ALIVE, self.cluster.address)
        return int(alive.splitlines()[-1]) == len(self.cluster.all)

    def _into_file(self, words: Sequence[str]) -> Inside:
        """Start a command whose output fills no pipe."""
        shell = [
            "sh",
            "-c",
            'out=$1; shift; exec "$@" > "$out" 2>&1',
            "sh",
            str(self.output),
            *words,
        ]
        return self.cluster.head.popen(shell, cwd=self.folder)


def standing(trial: Path) -> Standing:
    attempts = lines(trial / "attempts.jsonl")
    journal = lines(trial / "journal.jsonl")
    newest = max((int(line["attempt"]) for line in attempts), default=0)
    attempt_lines = [line for line in attempts if line["attempt"] == newest]
    began = attempt_lines[0]["ts"] if attempt_lines else 0.0
    ended = any(line.get("end") for line in attempt_lines)
    last = journal[-1] if journal else {"attempt": 0, "step": 0, "ts": 0.0}
    finished = (trial / "result.json").exists()
    return Standing(
        newest, began, ended, finished, int(last["attempt"]), int(last["step"]), float(last["ts"])
    )


def first_report(trial: Path, since: float) -> float | None:
    """When the newest attempt first reported a step since then, in Unix seconds."""
    trial_standing = standing(trial)
    journal = lines(trial / "journal.jsonl")
    earliest = max(since, trial_standing.began)
    return min(
        (
            line["ts"]
            for line in journal
            if line["attempt"] == trial_standing.attempt and line["ts"] > earliest
        ),
        default=None,
    )


def finished_at(trial: Path) -> float:
    return (trial / "result.json").stat().st_mtime
