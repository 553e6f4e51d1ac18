"""The example scripts, which know nothing of allelse: a worker with its script and then the sweep
are killed in the middle, and every trial has the metrics of a run that nothing disturbed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from joined_ray import ACTIVATED, JoinedRay
from studies import Running, lines, wait_until
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
    "steps=60",
    ("base", "narrow", "no_dropout", "one_layer"),
    "checkpoint-*.pt",
    "dev/loss",
    "dev_loss",
    [20, 40, 60],
)
LIGHTNING = Script(
    "lightning",
    "moons",
    "epochs=8",
    ("base", "slow", "narrow", "one_layer"),
    "*.ckpt",
    "dev/accuracy",
    "accuracy",
    list(range(19, 160, 20)),
)
TRAINER = Script(
    "trainer",
    "reviews",
    "steps=40",
    ("base", "narrow", "no_dropout", "two_layers"),
    "checkpoint-*/trainer_state.json",
    "dev/accuracy",
    "eval_accuracy",
    [10, 20, 30, 40],
)
SCRIPTS = (GPT, LIGHTNING, TRAINER)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(SCRIPTS, marks=pytest.mark.faults, id="all rows and seeds"),
        pytest.param([script.short() for script in SCRIPTS], id="two trials of each"),
    ],
)
def test_unchanged_scripts_survive_the_death_of_a_worker_and_of_the_sweep(
    scripts: Sequence[Script], joined_ray: JoinedRay, tmp_path: Path
) -> None:
    sweeps: list[Sweep] = []
    for script in scripts:
        folder = copied(script.folder, tmp_path / script.folder)
        sweeps.append(Sweep(script, folder, joined_ray))

    # side by side, since each waits for its processes more than it computes
    for number, sweep in enumerate(sweeps):
        sweep.start(meanwhile=sweeps[:number])
    wait_until(lambda: have_struck(sweeps), "the kills", PATIENCE_S)
    for sweep in sweeps:
        assert len(sweep.results) < sweep.script.trials
        sweep.start()
    for sweep in sweeps:
        code, output = sweep.running.finish(PATIENCE_S)
        assert code == 0, output
        check(sweep)


def have_struck(sweeps: Sequence["Sweep"]) -> bool:
    """Whether all have. Each is looked at."""
    answers = [sweep.has_struck() for sweep in sweeps]
    return all(answers)


class Sweep:
    """A sweep of a script, whose processes are looked for and killed."""

    running: Running

    def __init__(self, script: Script, folder: Path, ray: JoinedRay) -> None:
        self.script = script
        self.folder = folder
        self.study = folder / "runs" / "s"
        self.struck: list[Path] = []  # the trial that lost its worker, and one of a lost sweep
        self._words = script.sweep(ray.word)
        self._environment = {**os.environ, **ACTIVATED, **ray.environment}
        self._processes: dict[Path, psutil.Process] = {}  # the script of each trial that runs

    def start(self, meanwhile: Sequence["Sweep"] = ()) -> None:
        """Start it, and wait until it runs a script. The others are struck meanwhile."""
        self.running = Running.start(
            *self._words, cwd=self.folder, trial=self.study, env=self._environment
        )

        def has_begun() -> bool:
            have_struck(meanwhile)
            return any(True for _ in self._scripts()) or self.running.ended()

        wait_until(has_begun, "a script", PATIENCE_S)

    @property
    def results(self) -> list[Path]:
        return list(self.study.glob("*/result.json"))

    def has_struck(self) -> bool:
        """Whether the worker of a trial with a checkpoint has been killed, and later the sweep, in
        the middle of a trial with one."""
        if len(self.struck) == 2:
            return True
        assert not self.running.ended(), self.running.process.communicate()[0]
        trial = self._stopped_trial()
        if trial is not None:
            self.struck.append(trial)
            if len(self.struck) == 1:
                kill_worker(self._processes.pop(trial))
            else:
                self.running.kill()
        return False

    def _stopped_trial(self) -> Path | None:
        """A trial whose script has saved a checkpoint, and was stopped so that it can't end before
        it is killed."""
        self._look_for_processes()
        for trial, process in list(self._processes.items()):
            if self._is_next(trial) and self._has_checkpoint(trial):
                if suspended(process):
                    return trial
                del self._processes[trial]  # a later attempt has another one
        return None

    def _is_next(self, trial: Path) -> bool:
        """Each trial is struck once, unless the others have all ended."""
        return trial not in self.struck or len(self.results) == self.script.trials - 1

    def _has_checkpoint(self, trial: Path) -> bool:
        paths = trial.glob(f"checkpoints/*/files/out/{self.script.checkpoints}")
        return any(path.stat().st_size for path in paths)

    def _look_for_processes(self) -> None:
        outputs = self.study.glob("*/checkpoints/*/files/output.txt")
        begun = {self.study / path.relative_to(self.study).parts[0] for path in outputs}
        ended = {path.parent for path in self.results}
        new_trials = set(filter(self._is_next, begun - ended - self._processes.keys()))
        if new_trials:
            for trial, process in self._scripts():
                if trial in new_trials:
                    self._processes[trial] = process

    def _scripts(self) -> Iterator[tuple[Path, psutil.Process]]:
        """The scripts that run, each with the folder of its trial."""
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if words[1:2] != [f"{self.script.task}.py"]:  # not its guard
                continue
            for word in words:
                if word.startswith(f"{self.study}/"):
                    yield self.study / Path(word).relative_to(self.study).parts[0], process
                    break


def check(sweep: Sweep) -> None:
    """The table has every trial, and the metrics of resumed ones are those of undisturbed runs."""
    script = sweep.script
    trials = [path.parent for path in sweep.results]
    assert len(trials) == script.trials
    table = json.loads(printed(sweep.folder, "table", "--format", "json", "sweep.name=s"))
    assert [row["seeds"] for row in table] == [len(script.seeds)] * len(script.rows)
    for trial in trials:
        assert [step for step, _ in journal_values(script, trial)] == script.steps, trial.name
    resumed = [trial for trial in trials if "--- goes on from " in log(trial)]
    assert set(sweep.struck) <= set(resumed)
    undisturbed = undisturbed_values(script, resumed, sweep.folder)
    for trial in resumed:
        assert journal_values(script, trial) == undisturbed[trial], trial.name


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
