"""The example scripts, which know nothing of allelse: a worker with its script and then the sweep
are killed in the middle, and every trial has the metrics of a run that nothing disturbed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest
from joined_ray import ACTIVATED, JoinedRay
from studies import Running, allelse, lines, wait_until
from typed import printed

from examples import EXAMPLES, copied
from tracking.written.watch import WrittenMetrics

PATIENCE_S = 1800.0
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # as in a trial of one CPU
RUNS = """
import json, runpy, sys

for words in json.loads(sys.argv[1]):
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
"""
"""Runs a script with several arguments: to import torch takes longer than to train."""


@dataclass(frozen=True)
class Script:
    """An example, the word that makes it short, and what it writes.

    ``checkpoints`` is a glob of a file that ends each, below ``{out}``. The script writes the point
    ``written`` at these ``steps``; in the journal it is ``metric``.
    """

    folder: str
    task: str
    word: str
    rows: tuple[str, ...]
    checkpoints: str
    metric: str
    written: str
    steps: list[int]
    seeds: tuple[int, ...] = (1, 2, 3)

    @property
    def trials(self) -> int:
        return len(self.rows) * len(self.seeds)

    def sweep(self, *words: str) -> list[str]:
        rows = f"sweep.rows=[{','.join(self.rows)}]"
        seeds = f"sweep.seeds=[{','.join(map(str, self.seeds))}]"
        task = f"task={self.task}"
        return ["sweep", task, "sweep.name=s", self.word, rows, seeds, "tracking=off", *words]

    def short(self) -> "Script":
        """With the trials that `make test` has time for: to import Lightning or Trainer takes each
        some seconds."""
        return replace(self, rows=self.rows[:2], seeds=self.seeds[:1])


GPT = Script(
    "gpt",
    "small_gpt",
    "steps=40",
    ("base", "narrow", "no_dropout", "one_layer"),
    "checkpoint-*.pt",
    "dev/loss",
    "dev_loss",
    [20, 40],
)
LIGHTNING = Script(
    "lightning",
    "moons",
    "epochs=2",
    ("base", "slow", "narrow", "one_layer"),
    "*.ckpt",
    "dev/accuracy",
    "accuracy",
    [19, 39],
)
TRAINER = Script(
    "trainer",
    "reviews",
    "steps=20",
    ("base", "narrow", "no_dropout", "two_layers"),
    "checkpoint-*/trainer_state.json",
    "dev/accuracy",
    "eval_accuracy",
    [10, 20],
)
SCRIPTS = (GPT, LIGHTNING, TRAINER)


def cases() -> Iterator[object]:
    """All rows and seeds of each script, and the short ones."""
    for script in SCRIPTS:
        yield pytest.param(script, marks=pytest.mark.faults, id=script.folder)
        yield pytest.param(script.short(), id=f"{script.folder}-short")


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("script", list(cases()))
def test_an_unchanged_script_survives_the_death_of_a_worker_and_of_the_sweep(
    script: Script, joined_ray: JoinedRay, tmp_path: Path
) -> None:
    folder = copied(script.folder, tmp_path)
    study = folder / "runs" / "s"
    words = script.sweep(joined_ray.word)
    environment = {**os.environ, **ACTIVATED, **joined_ray.environment}
    running = Running.start(*words, cwd=folder, trial=study, env=environment)
    scripts = RunningScripts(running, study, script)
    first = scripts.stopped()
    kill_worker(scripts.processes[first])
    second = scripts.stopped(other_than=first)
    running.kill()
    assert len(results(study)) < script.trials
    done = allelse(*words, cwd=folder, env=environment, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr

    table = json.loads(printed(folder, "table", "--format", "json", "sweep.name=s"))
    assert [row["seeds"] for row in table] == [len(script.seeds)] * len(script.rows)
    assert len(results(study)) == script.trials
    resumed = [path.parent for path in results(study) if "--- goes on from " in log(path.parent)]
    assert {first, second} <= set(resumed)
    undisturbed = undisturbed_values(script, resumed, folder)
    for trial in resumed:
        assert journal_values(script, trial) == undisturbed[trial], trial.name
    for path in results(study):
        assert [step for step, _ in journal_values(script, path.parent)] == script.steps


@dataclass
class RunningScripts:
    """The scripts of a sweep's trials, as they run: ``processes`` by the trial's folder."""

    running: Running
    study: Path
    script: Script
    processes: dict[Path, psutil.Process] = field(default_factory=dict)

    def stopped(self, other_than: Path | None = None) -> Path:
        """The trial of a script that has saved a checkpoint, and was then stopped so that it can't
        end. Only the journals tell what else it has done."""
        stopped: list[Path] = []

        def is_stopped() -> bool:
            self._look_for_new_ones()
            for trial, process in self.processes.items():
                if trial != other_than and self._has_saved(trial) and suspended(process):
                    stopped.append(trial)
                    return True
            return self.running.ended()

        wait_until(is_stopped, "a script with a checkpoint", PATIENCE_S)
        assert stopped, self.running.process.communicate()[0]
        return stopped[0]

    def _has_saved(self, trial: Path) -> bool:
        paths = trial.glob(f"checkpoints/*/files/out/{self.script.checkpoints}")
        return any(path.stat().st_size for path in paths)

    def _look_for_new_ones(self) -> None:
        """Each trial has one process: scripts that were resumed are those of a later attempt."""
        begun = {self.study / path.relative_to(self.study).parts[0] for path in self._outputs()}
        if begun <= self.processes.keys():
            return
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if words[1:2] != [f"{self.script.task}.py"]:  # not its guard
                continue
            for trial in begun - self.processes.keys():
                if any(word.startswith(f"{trial}/") for word in words):
                    self.processes[trial] = process

    def _outputs(self) -> Iterator[Path]:
        return self.study.glob("*/checkpoints/*/files/output.txt")


def suspended(process: psutil.Process) -> bool:
    """Whether the process was stopped before it could end."""
    with suppress(psutil.NoSuchProcess):
        process.suspend()
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def kill_worker(script: psutil.Process) -> None:
    """Kill the worker of this script, and all that the worker has started."""
    (worker,) = [parent for parent in script.parents() if "ray::" in parent.cmdline()[0]]
    for relative in (worker, *worker.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            relative.kill()


def results(study: Path) -> list[Path]:
    return list(study.glob("*/result.json"))


def log(trial: Path) -> str:
    return (trial / "log.txt").read_text("utf-8")


def journal_values(script: Script, trial: Path) -> list[tuple[int, float]]:
    """The step and value of each time that the journal has the table's metric."""
    journal = lines(trial / "journal.jsonl")
    metric = script.metric
    return [
        (line["step"], line["metrics"][metric]) for line in journal if metric in line["metrics"]
    ]


def undisturbed_values(
    script: Script, trials: Sequence[Path], folder: Path
) -> dict[Path, list[tuple[int, float]]]:
    """What the commands of these trials write when they run alone, from start to end."""
    commands: list[list[str]] = []
    for trial in trials:
        provenance = json.loads((trial / "provenance.json").read_text("utf-8"))
        _, *words = provenance["command"]
        resume = words.index("--resume")
        del words[resume : resume + 2]
        words[words.index("--out") + 1] = str(folder / "alone" / trial.name)
        commands.append(words)
    run_alone(commands, folder)
    return {trial: values_in(folder / "alone" / trial.name, script) for trial in trials}


def run_alone(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Run the script with each of these arguments, one after another."""
    subprocess.run(
        [sys.executable, "-c", RUNS, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, **ONE_THREAD},
        check=True,
    )


def values_in(out: Path, script: Script) -> list[tuple[int, float]]:
    """The step and value of each point that is the table's metric."""
    points = WrittenMetrics(out, out / "no-output").earlier
    values: list[tuple[int, float]] = []
    for point in points:
        if point.name == script.written and point.step is not None:
            values.append((point.step, point.value))
    return values


@pytest.mark.slow
def test_trainer_resumed_at_its_last_step_trains_no_further(tmp_path: Path) -> None:
    command = ["reviews.py", "--steps", "10", "--out", "out"]
    run_alone([command, [*command, "--resume", "out/checkpoint-10"]], copied("trainer", tmp_path))
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text("utf-8"))
    evaluated = [entry for entry in state["log_history"] if "eval_accuracy" in entry]
    first, second = [(entry["step"], entry["eval_accuracy"]) for entry in evaluated]
    assert first == second
    assert state["global_step"] == 10


@pytest.mark.parametrize("folder", ["gpt", "lightning", "trainer"])
def test_the_scripts_know_nothing_of_allelse(folder: str) -> None:
    (path,) = (EXAMPLES / folder).glob("*.py")
    assert "allelse" not in path.read_text("utf-8")
