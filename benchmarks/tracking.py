"""Syncing journals to MLflow, and what training notices of it: ``python -m benchmarks.tracking [--only PART]``.

Journals of 20 trials, 5 metrics and 2 000 steps are carried to a database and to a server on this machine: wall
seconds, from the start of the syncer. Training is `allelse train` at scale tiny, in turn with a server that answers,
one that is down, and one that accepts connections and never answers: wall seconds between its first and last report.
``--only training --rounds 3 --steps 200`` takes under four minutes, ``--only journals`` about two.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from tracking.attempts import Process
from tracking.journal import journal_line
from tracking.mlflow.pages import answers, free_port, ui_command, ui_environment
from tracking.study import Study, Trial, write_study
from tracking.trial import TrialFolder
from tracking.uri import URI_VARIABLE, default_uri
from tracking.words import time as as_time
from transformer.card import CARD

METRICS, STEPS = 5, 2000
START_S = 300.0  # for a server, on any machine


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as place, serving(Path(place) / "server") as server:
        if options.only in (None, "journals"):
            print_journals(server, Path(place), options.trials)
        if options.only in (None, "training"):
            print_training(server, Path(place) / "training", options.steps, options.rounds)


def print_journals(server: str, place: Path, trials: int) -> None:
    print("| journals carried to | wall time | points per second |\n| --- | --- | --- |")
    for name, uri in (("sqlite", ""), ("a server over HTTP", server)):
        seconds = synced(journals(place / name / "study", trials), uri)
        print(f"| {name} | {seconds:.1f} s | {trials * METRICS * STEPS / seconds:.0f} |")


def print_training(server: str, place: Path, steps: int, rounds: int) -> None:
    """Each ratio is taken within a round, so that a slower minute of the machine affects all states alike."""
    with silent() as hanging:
        stores = {"up": server, "down": f"http://127.0.0.1:{free_port(0)}", "hanging": hanging}
        taken = training_seconds(stores, place, steps, rounds)
    print(f"\n| the server is | training, median of {rounds} | × up, median | range |\n| --- | --- | --- | --- |")
    for name, seconds in taken.items():
        ratios = [own / up for own, up in zip(seconds, taken["up"], strict=True)]
        spread = f"{min(ratios):.3f}–{max(ratios):.3f}"
        print(f"| {name} | {as_time(median(seconds))} | {median(ratios):.3f} | {spread} |")


def journals(folder: Path, trials: int) -> Study:
    """A study whose trials ended on another machine, METRICS × STEPS points each."""
    numbers = range(1, trials + 1)
    begun = tuple(Trial("base", "base", "", seed, f"key-{seed}", {}) for seed in numbers)
    study = Study(folder, begun, {}, (), task=CARD)
    write_study(study)
    for trial in study.trials:
        where = study.trial_folder(trial)
        where.begin_attempt(1, Process("another-machine", 1))
        where.journal_path.write_text("".join(f"{line}\n" for line in _lines(trial.seed)))
        where.attempts.end(1, "failed")
    return study


def _lines(seed: int) -> Iterator[str]:
    began = time.time() - STEPS
    for step in range(1, STEPS + 1):
        metrics = {f"train/metric_{number}": number + seed / step for number in range(METRICS)}
        yield json.dumps(journal_line(began + step, 1, step, metrics, step if step == STEPS else None))


def synced(study: Study, uri: str) -> float:
    """Wall seconds of one syncer. Raises subprocess.CalledProcessError if something was not sent."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "tracking.mlflow.sync", "--study", str(study.folder)]
    subprocess.run(command, check=True, env=os.environ | {URI_VARIABLE: uri})
    return time.perf_counter() - began


def training_seconds(stores: dict[str, str], place: Path, steps: int, rounds: int) -> dict[str, list[float]]:
    """By the state of the server, in turn, after a training that prepares the data and is not counted."""
    _trained(place, "first", stores["up"], steps)
    taken: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(rounds):
        for name, uri in stores.items():
            taken[name].append(_trained(place, f"{name}-{number}", uri, steps))
    return taken


def _trained(place: Path, name: str, uri: str, steps: int) -> float:
    """Seconds between the first and the last report of one training, which is ended then: the end waits for MLflow."""
    overrides = [f"paths.runs={place}/runs", f"paths.data={place}/data", f"sweep.name={name}", f"tracking.uri={uri}"]
    schedule = [f"train.steps={steps}", "train.log_every=10"]
    command = [sys.executable, "-m", "sweeps.cli", "train", *overrides, *schedule]
    trial = TrialFolder(place / "runs" / name / "base-s1", CARD)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and [report.step for report in trial.journal()][-1:] != [steps]:
            time.sleep(0.2)
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for each in family:
            each.kill()
        process.kill()
    reports = trial.journal()
    if [report.step for report in reports][-1:] != [steps]:
        raise RuntimeError(f"{' '.join(command)} ended early, with exit code {process.returncode}")
    return reports[-1].ts - reports[0].ts


@contextmanager
def serving(runs: Path) -> Iterator[str]:
    """The address of what `allelse ui` starts."""
    runs.mkdir()
    port = free_port(0)
    process = subprocess.Popen(
        ui_command(runs, port=port),
        env=ui_environment(default_uri(runs)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if not answers(f"http://127.0.0.1:{port}", START_S):
            raise RuntimeError(f"MLflow's server did not start within {START_S:.0f} s")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracking", description=(__doc__ or "").split("\n")[0])
    for name, value in {"trials": 20, "rounds": 5, "steps": 400}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    parser.add_argument("--only", choices=("journals", "training"), help="default: both")
    return parser.parse_args()


if __name__ == "__main__":
    main()
