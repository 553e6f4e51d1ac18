"""The example scripts, which know nothing of allelse: a worker with its script and then the sweep
are killed in the middle, and the table has every trial."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from joined_ray import ACTIVATED, JoinedRay
from studies import Running, allelse, lines, wait_until
from typed import printed

from examples import EXAMPLES, copied

SEEDS = (1, 2, 3)
PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Script:
    """An example, the word that makes it short, and what it writes.

    ``checkpoints`` is a glob of a file that ends each, below ``{out}``; ``steps`` are those at
    which it writes the table's ``metric``.
    """

    folder: str
    task: str
    word: str
    rows: tuple[str, ...]
    checkpoints: str
    metric: str
    steps: list[int]

    def sweep(self, *words: str) -> list[str]:
        rows = f"sweep.rows=[{','.join(self.rows)}]"
        seeds = f"sweep.seeds=[{','.join(map(str, SEEDS))}]"
        task = f"task={self.task}"
        return ["sweep", task, "sweep.name=s", self.word, rows, seeds, "tracking=off", *words]


SCRIPTS = (
    Script(
        "gpt",
        "small_gpt",
        "steps=40",
        ("base", "narrow", "no_dropout", "one_layer"),
        "checkpoint-*.pt",
        "dev/loss",
        [20, 40],
    ),
    Script("lightning", "moons", "epochs=2", ("base", "slow"), "*.ckpt", "dev/accuracy", [19, 39]),
)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.folder)
def test_an_unchanged_script_survives_the_death_of_a_worker_and_of_the_sweep(
    script: Script, joined_ray: JoinedRay, tmp_path: Path
) -> None:
    folder = copied(script.folder, tmp_path)
    study = folder / "runs" / "s"
    words = script.sweep(joined_ray.word)
    environment = {**os.environ, **ACTIVATED, **joined_ray.environment}
    trials = len(script.rows) * len(SEEDS)
    running = Running.start(*words, cwd=folder, trial=study, env=environment)
    struck = kill_a_worker(running, study, script)
    wait_until(lambda: len(results(study)) >= trials // 3 or running.ended(), "a third", PATIENCE_S)
    assert not running.ended(), running.process.communicate()[0]
    running.kill()
    assert len(results(study)) < trials
    done = allelse(*words, cwd=folder, env=environment, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr

    table = json.loads(printed(folder, "table", "--format", "json", "sweep.name=s"))
    assert [row["seeds"] for row in table] == [len(SEEDS)] * len(script.rows)
    assert len(results(study)) == trials
    for result in results(study):
        check_steps(result.parent, script)
    assert "--- goes on from " in (struck / "log.txt").read_text()


def kill_a_worker(running: Running, study: Path, script: Script) -> Path:
    """Kill the worker of a script that has saved a checkpoint, and all below it. Returns the
    trial's folder."""
    stopped: dict[Path, psutil.Process] = {}

    def is_stopped() -> bool:
        """Whether a script that has a checkpoint has been stopped, so that it can't end first."""
        for path in study.glob(f"*/checkpoints/*/files/out/{script.checkpoints}"):
            trial = study / path.relative_to(study).parts[0]
            process = suspended(script, trial) if path.stat().st_size else None
            if process is not None:
                stopped[trial] = process
                return True
        return running.ended()

    wait_until(is_stopped, "a script with a checkpoint", PATIENCE_S)
    assert stopped, running.process.communicate()[0]
    ((trial, process),) = stopped.items()
    (worker,) = [parent for parent in process.parents() if "ray::" in parent.cmdline()[0]]
    for relative in (worker, *worker.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            relative.kill()
    return trial


def suspended(script: Script, trial: Path) -> psutil.Process | None:
    """The script of this trial, which does not go on; None if it does not run."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_script = words[1:2] == [f"{script.task}.py"]  # not its guard
        if is_script and any(word.startswith(f"{trial}/") for word in words):
            with suppress(psutil.NoSuchProcess):
                process.suspend()
                if process.status() != psutil.STATUS_ZOMBIE:
                    return process
    return None


def results(study: Path) -> list[Path]:
    return list(study.glob("*/result.json"))


def check_steps(trial: Path, script: Script) -> None:
    """The journal has the table's metric once at each step."""
    journal = lines(trial / "journal.jsonl")
    steps = [line["step"] for line in journal if script.metric in line["metrics"]]
    assert steps == script.steps, trial.name


@pytest.mark.parametrize("folder", ["gpt", "lightning", "trainer"])
def test_the_scripts_know_nothing_of_allelse(folder: str) -> None:
    (path,) = (EXAMPLES / folder).glob("*.py")
    assert "allelse" not in path.read_text("utf-8")
