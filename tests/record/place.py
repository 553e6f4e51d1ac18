"""A folder with a small task, where commands are typed."""

import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from joined_ray import shared_ray
from served_commands import PROGRAM, run_command
from typed import typed

TOY = '''
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeps.task import Metric, Observes, Range, Scores, Task, Trained, Trial

HERE = Path()


def home(trial):  # where a person edits, and not the study's copy
    folders = (*trial.folder.parents, *Path.cwd().parents)  # the first ones may be those of a store
    return next(folder for folder in folders if (folder / "conf").is_dir())


@dataclass(frozen=True)
class Model:
    size: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]
    api_key: Annotated[str, Observes()]
    cut: Annotated[float, Scores()]


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train


def work(trial: Trial[Config]) -> None:
    """Sums what ``one`` returns; the module that has it is imported only here."""
    global HERE
    HERE = home(trial)
    from parts.one import one

    if (HERE / "fails").exists():
        raise RuntimeError((HERE / "fails").read_text().format(**os.environ))
    while (HERE / "waits").exists():
        (HERE / "waited").touch()
        time.sleep(0.1)
    done = trial.saved.state if trial.saved else 0.0
    for step in range(trial.saved.step + 1 if trial.saved else 1, trial.config.train.steps + 1):
        done += one() * trial.config.model.size
        trial.report(step, {"train/loss": done})
        trial.checkpoint(step, done)
        if step == 2 == trial.config.model.size and (HERE / "dies").exists():  # its worker; and a person edits
            (HERE / "parts" / "one.py").write_text((HERE / "dies").read_text())
            (HERE / "dies").unlink()
            os._exit(1)
        if (HERE / "stops").exists() and step == 2:
            (HERE / "stops").unlink()
            raise RuntimeError("stopped by a person")
    trial.evaluated("test", {"score": done})


def again(trial: Trained[Config]) -> None:
    """Scores with the code of now."""
    from parts.one import one

    trial.evaluated("test", {"score": one()})


metrics = (Metric("score", set="test"),)
task = Task("toy", 1, Config, metrics, steps=lambda config: config.train.steps, work=work, verbs=(again,))
'''
ONE, TEN = (f"def one():\n    return {value}\n" for value in ("1.0", "10.0"))
HEAD = "# @package _global_\nrow: {group: A, change: %s}\nmodel: {size: %d}\n"
FILES = {
    "toy.py": TOY,
    "parts/one.py": ONE,
    "conf/task/toy/base.yaml": "model: {size: 1}\ntrain: {steps: 4, api_key: none, cut: 0.5}\n",
    **{
        f"conf/task/toy/row/size_{size}.yaml": HEAD % (f"size {size}", size)
        for size in (2, 3, 4, 5)
    },
}
STUDY = "sweep.name=toy"
READING = ("plan", "table", "compare", "report", "config")
RUNNING = ("train", "sweep")


class Place:
    """The folder. ``environment`` is that of its commands, beside this process's.

    Unless ``tracked``, runs send nothing to MLflow: to start it takes longer than to train.
    """

    tracked = False
    joins = True
    """Whether its sweeps join the tests' Ray. Those with an environment of their own never do."""

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        self.environment = dict[str, str]()
        if database is not None:  # to make one takes seconds
            (folder / "runs").mkdir(parents=True)
            shutil.copy(database, folder / "runs" / "mlflow.db")
            self.write(FILES)

    @property
    def study(self) -> Path:
        return self.folder / "runs" / "toy"

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, "utf-8")

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        """In a process of its own where one is started, the task's work is imported, or the
        environment is another."""
        if words[0] in READING and not self.environment:
            outcome = typed(self.folder, *words)
            return subprocess.CompletedProcess(
                words, outcome.exit_code, outcome.stdout, outcome.stderr
            )
        if (
            words[0] in RUNNING
            and not self.tracked
            and not any(word.startswith("tracking") for word in words)
        ):
            words = (*words, "tracking=off")
        environment = os.environ | {"COLUMNS": "200"} | self.environment
        if words[0] == "sweep" and self.joins and not self.environment:
            has_size = any(word.startswith("cluster.") for word in words)
            words = (*words, *([shared_ray().word] if has_size else shared_ray().one_by_one))
            environment |= shared_ray().environment
        return run_command([str(PROGRAM), *words], self.folder, environment, timeout=400)

    def must(self, *words: str) -> str:
        """The output of a command that succeeds."""
        process = self.type(*words)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout + process.stderr

    def refused(self, *words: str) -> str:
        """The message of a command that is refused, on one line."""
        process = self.type(*words)
        assert process.returncode == 2, f"not refused: {process.stdout}{process.stderr}"
        return " ".join(process.stderr.split())

    def train(self, row: str, *words: str) -> str:
        return self.must("train", "task=toy", STUDY, f"row={row}", *words)

    def score(self, trial: str) -> float | None:
        match = re.search(r'"score": ([\d.]+)', (self.study / trial / "result.json").read_text())
        return float(match[1]) if match else None

    def table(self, form: str = "csv") -> str:
        return " ".join(self.must("table", STUDY, "--format", form).split())


def scores_of(database: Path) -> dict[str, list[tuple[str, float]]]:
    """In MLflow's database, the runs of trials by experiment: each with its trial's key and newest
    score."""
    query = """
        SELECT experiments.name, tags.value, latest_metrics.value FROM runs
        JOIN experiments USING (experiment_id) JOIN tags USING (run_uuid) JOIN latest_metrics USING (run_uuid)
        WHERE tags.key = 'trial.key' AND latest_metrics.key = 'final/score' AND runs.lifecycle_stage = 'active'
    """
    by_experiment: dict[str, list[tuple[str, float]]] = {}
    with closing(sqlite3.connect(database)) as opened:
        for experiment, key, score in opened.execute(query):
            by_experiment.setdefault(experiment, []).append((key, score))
    return by_experiment
