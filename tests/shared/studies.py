"""Real sweeps of a small model, as a user starts them."""

import json
import os
import signal
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Any

import psutil
from served_commands import AS_MODULE, run_command

SMALL = [
    "model.d_model=32",
    "model.d_ff=64",
    "model.n_layers=1",
    "train.tokens_per_batch=512",
    "train.warmup_steps=50",
    "train.log_every=10",
    "train.evaluate_every=1000",
    "decode.beam=2",
    "decode.max_extra=5",
]
"""One layer: a hundred steps a second or so. What it learns does not matter here."""
STARTED: list[subprocess.Popen[str]] = []
"""What a test has started, and may leave if it fails."""


def allelse(
    *words: str, cwd: Path, timeout: float = 600, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, its output captured; ``env`` instead of this process's
    environment."""
    return run_command(command(*words), cwd, env, timeout=timeout)


def command(*words: str) -> list[str]:
    """As the installed program, which imports nothing from the current folder."""
    return [*AS_MODULE, *last(words)]


def last(words: Iterable[str]) -> list[str]:
    """The words, in which a setting replaces an earlier one of the same key, such as one of
    SMALL."""
    return list({word.split("=")[0]: word for word in words}.values())


@dataclass
class Running:
    """A sweep that was started and is watched from outside."""

    process: subprocess.Popen[str]
    trial: Path

    @classmethod
    def start(
        cls,
        *words: str,
        cwd: Path,
        trial: Path,
        env: dict[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
    ) -> "Running":
        """In a session of its own, so that a signal to it reaches nothing else. It ends with its
        test at the latest.

        ``preexec`` is called in the new process.
        """
        process = subprocess.Popen(
            command(*words),
            cwd=cwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=preexec,
        )
        STARTED.append(process)
        return cls(process, trial)

    def wait_for_step(self, step: int) -> None:
        """Until the journal and a whole checkpoint have come as far as this step."""
        wait_until(lambda: self._at(step) or self.ended(), f"checkpoint {step}")
        assert not self.ended(), self.process.communicate()[0]

    def _at(self, step: int) -> bool:
        reports = lines(self.trial / "journal.jsonl")
        return bool(reports) and reports[-1]["step"] >= step <= newest_checkpoint(self.trial)

    def wait_for_line(self, text: str) -> str:
        """The next line that it prints with this text."""
        with printed(self.process) as output:
            matching_line = next((line for line in output if text in line), None)
        assert matching_line is not None, f"the command ended without: {text}"
        return matching_line

    def ended(self) -> bool:
        return self.process.poll() is not None

    def workers(self, count: int = 1) -> list[psutil.Process]:
        """The processes that train, as Ray names them: for a moment by the trial, between two
        calls."""
        workers: list[psutil.Process] = []

        def seen() -> bool:
            workers[:] = self.processes("ray::WorkerActor")
            return len(workers) >= count

        wait_until(seen, "the workers")
        return workers

    def processes(self, title: str) -> list[psutil.Process]:
        """Its processes of which the title holds this."""
        family = [] if self.ended() else psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in family if title in _title(process)]

    def finish(self, timeout: float = 600) -> tuple[int, str]:
        """Exit code and everything printed, other than lines that were read before."""
        with printed(self.process, timeout) as stream:
            output = stream.read()
        return self.process.wait(), output

    def suspend(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def printed(process: subprocess.Popen[str], timeout: float = 600) -> Iterator[IO[str]]:
    """Its lines as they come. Who is silent for good would block the tests: within it, all of it
    has this long."""
    assert process.stdout
    timer = Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        yield process.stdout
    finally:
        timer.cancel()


def wait_until(holds: Callable[[], bool], condition: str, timeout: float = 600) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"waited {timeout} s for {condition}"
        time.sleep(0.05)


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSONL file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def newest_checkpoint(trial: Path) -> int:
    """The step of the newest whole one, as its folder or the journal tells; 0 without one.

    A line of the journal tells of the checkpoints that were whole when its step was reported.
    """
    reported_steps = [
        line["checkpoint"] for line in lines(trial / "journal.jsonl") if line.get("checkpoint")
    ]
    complete_steps = [
        int(path.parent.name.removeprefix("step-"))
        for path in trial.glob("checkpoints/*/a*/step-*/manifest.json")
    ]
    return max([*reported_steps, *complete_steps], default=0)


def mlflow_runs(runs: Path) -> list[tuple[str, str]]:
    """(name, status) of every trial's run in the tracking database."""
    with sqlite3.connect(f"file:{runs / 'mlflow.db'}?mode=ro", uri=True) as database:
        return database.execute(
            "SELECT name, status FROM runs WHERE name != 'study' ORDER BY name"
        ).fetchall()


def mlflow_steps(runs: Path, metric: str) -> list[int]:
    """The steps at which the only run has a metric."""
    with sqlite3.connect(f"file:{runs / 'mlflow.db'}?mode=ro", uri=True) as database:
        rows = database.execute(
            "SELECT step FROM metrics WHERE key = ? ORDER BY step", (metric,)
        ).fetchall()
    return [step for (step,) in rows]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def answers(address: str) -> bool:
    """Whether MLflow's pages are served there."""
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return response.status == 200 and b"MLflow" in response.read()
    except OSError:
        return False
