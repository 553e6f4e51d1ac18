"""Csv files of runs as trackers write them, clean or with one planted fault, from a stated seed."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

BASE_SETTINGS: dict[str, Any] = {
    "lr": 0.1,
    "dropout": 0.1,
    "d_model": 512,
    "n_heads": 8,
    "batch_size": 32,
    "weight_decay": 0.01,
    "optimizer": "adam",
    "augment": True,
}
CHANGES: tuple[dict[str, Any], ...] = (
    {"lr": 0.01},
    {"lr": 1.0},
    {"dropout": 0.3},
    {"d_model": 256},
    {"weight_decay": 0.0},
    {"optimizer": "sgd"},
    {"augment": False},
    {"n_heads": 4},
)
LABELS = {"batch_size": "bs", "weight_decay": "wd", "n_heads": "heads"}
Line = dict[str, Any]
FORMS = ("wandb", "pandas", "mlflow")


@dataclass
class Runs:
    """``lines`` by their plain columns; ``form``: the tracker that wrote them. Rows are inferred,
    or named by the column ``variant``."""

    chance: Random
    form: str
    are_named: bool
    lines: list[Line] = field(default_factory=list)

    def of_row(self, row: str) -> list[Line]:
        return [line for line in self.lines if line["variant"] == row]

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(line["variant"] for line in self.lines))

    def any_row(self) -> str:
        """One that is not base."""
        return self.chance.choice(self.rows[1:])

    def any_line(self, row: str | None = None) -> Line:
        return self.chance.choice(self.of_row(row or self.any_row()))

    def write(self, path: Path) -> list[str]:
        """The words that import it."""
        lines = [self._formed(line) for line in self.lines]
        columns = list(dict.fromkeys(column for line in lines for column in line))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(lines)
        base = "variant=base" if self.are_named else "optimizer=adam"
        row_options = ["--row", "variant"] if self.are_named else ["--ignore", "variant"]
        return ["import", str(path), "--base", base, *row_options, "--metric", "bleu:up"]

    def _formed(self, line: Line) -> Line:
        number = self.lines.index(line)
        if self.form == "wandb":
            names = {"name": "Name", "state": "State", "created": "Created", "steps": "_step"}
            extra = {"Runtime": line["seconds"], "Notes": "", "Tags": "", "Sweep": ""}
            return {names.get(name, name): value for name, value in line.items()} | extra
        if self.form == "pandas":
            return {"": number, **line}
        folders = dict.fromkeys([*BASE_SETTINGS, "seed", "variant"], "params.")
        folders |= dict.fromkeys(
            ["bleu", "train_loss", "seconds", "steps", "best_bleu"], "metrics."
        )
        folders |= dict.fromkeys(["last_bleu"], "metrics.")
        folders |= {"git_commit": "tags.", "torch_version": "tags.", "dataset_hash": "tags."}
        renamed = {"name": "tags.mlflow.runName", "state": "status", "created": "start_time"}
        renamed |= {"steps": "metrics.step"}
        head = {"run_id": f"{number:032x}", "experiment_id": "1", "artifact_uri": f"/m/{number}"}
        return head | {
            renamed.get(name, folders.get(name, "") + name): value for name, value in line.items()
        }


def clean_runs(chance: Random, are_named: bool | None = None) -> Runs:
    """Base and three to six rows that each change one thing, all at the same seeds."""
    has_names = chance.random() < 0.5 if are_named is None else are_named
    runs = Runs(chance, chance.choice(FORMS), has_names)
    first = chance.choice((0, 1, 1, 42))
    seeds = range(first, first + chance.choice((3, 4, 5)))
    changes = [{}, *chance.sample(CHANGES, chance.randint(3, 6))]
    effects = [chance.gauss(0, 1.0) for _ in changes]
    for change, effect in zip(changes, effects, strict=True):
        for seed in seeds:
            runs.lines.append(_line(chance, change, effect, seed, len(runs.lines)))
    return runs


def _line(chance: Random, change: Line, effect: float, seed: int, number: int) -> Line:
    words = [f"{LABELS.get(key, key)}{value}".lower() for key, value in change.items()]
    row = "-".join(words) or "base"
    score = 27 + effect + chance.gauss(0, 0.2)
    return {
        "name": f"{row}-s{seed}",
        "state": "finished",
        "created": f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00.000Z",
        "variant": row,
        "seed": seed,
        **BASE_SETTINGS,
        **change,
        "git_commit": "4f2a9c1",
        "torch_version": "2.9.0",
        "dataset_hash": "0123456789abcdef0123456789abcdef",
        "host": chance.choice(("node1", "node2", "node3")),
        "output_dir": f"out/{row}/{seed}/{chance.randrange(10**6)}",
        "bleu": score,
        "train_loss": 2 + chance.random(),
        "seconds": 100 + 10 * chance.random(),
        "steps": 1000,
    }


Planted = tuple[str, list[str]]
"""The kind of doubt that must be found, and runs of which it must name at least one."""


def hidden_difference(runs: Runs) -> Planted:
    """A row that also changes the size of a batch."""
    lines = runs.of_row(runs.any_row())
    for line in lines:
        line["batch_size"] = 128
    return "hidden-difference", _names(lines)


def unlike_setting(runs: Runs) -> Planted:
    """One seed that was run with another size of a batch."""
    line = runs.any_line()
    line["batch_size"] = 128
    return "unlike-settings", _names([line])


def unlike_commit(runs: Runs) -> Planted:
    line = runs.any_line()
    line["git_commit"] = "b77d0e2"
    return "unlike-code", _names([line])


def unlike_package(runs: Runs) -> Planted:
    """A whole row that was run after an update."""
    lines = runs.of_row(runs.any_row())
    for line in lines:
        line["torch_version"] = "2.10.1"
    return "unlike-packages", _names(lines)


def unlike_data(runs: Runs) -> Planted:
    line = runs.any_line()
    line["dataset_hash"] = "fedcba9876543210fedcba9876543210"
    return "unlike-data", _names([line])


def unequal_steps(runs: Runs) -> Planted:
    """A row, or a run of base, that was trained for longer."""
    lines = runs.of_row(runs.any_row()) if runs.chance.random() < 0.5 else [runs.any_line("base")]
    for line in lines:
        line["steps"] = 1500
    return "unequal-steps", _names(lines)


def repeated_run(runs: Runs) -> Planted:
    """A seed that was run again, with another score."""
    line = runs.any_line()
    repeated_line = line | {"name": f"{line['name']}-again", "bleu": line["bleu"] + 0.31}
    repeated_line["output_dir"] += "-again"
    runs.lines.append(repeated_line)
    return "repeated-runs", _names([repeated_line])


def copied_run(runs: Runs) -> Planted:
    """Two seeds of a row with the same score to the last digit."""
    first, second, *_ = runs.of_row(runs.any_row())
    second["bleu"] = first["bleu"]
    return "repeated-runs", _names([first, second])


def missing_seed(runs: Runs) -> Planted:
    row = runs.any_row()
    runs.lines.remove(runs.any_line(row))
    return "missing-seeds", _names(runs.of_row(row))


def chosen_seed(runs: Runs) -> Planted:
    """A row with a seed of its own, or a gap in the seeds of all rows."""
    if runs.chance.random() < 0.5:
        line = runs.any_line()
        line["seed"] = 1234
        line["name"] += "-b"
        return "chosen-seeds", _names([line])
    seeds = sorted({line["seed"] for line in runs.lines})
    for line in runs.lines:
        line["seed"] += 1 if line["seed"] == seeds[-1] else 0
    return "chosen-seeds", []


def left_out_run(runs: Runs) -> Planted:
    line = runs.any_line()
    line["state"] = runs.chance.choice(("failed", "crashed", "running", "killed"))
    line["bleu"] = "" if runs.chance.random() < 0.5 else line["bleu"]
    return "left-out-runs", _names([line])


def best_in_some(runs: Runs) -> Planted:
    """A row whose score is the best one over time, beside rows with their last ones."""
    row = runs.any_row()
    has_last = runs.chance.random() < 0.5
    for line in runs.lines:
        line["best_bleu"] = line["bleu"] + 0.1 + runs.chance.random()
        if has_last:
            line["last_bleu"] = line["bleu"]
    lines = runs.of_row(row)
    for line in lines:
        line["bleu"] = line["best_bleu"]
    return "best-and-last", _names(lines)


FAULTS: Sequence[Callable[[Runs], Planted]] = (
    *(hidden_difference, unlike_setting, unlike_commit, unlike_package, unlike_data),
    *(unequal_steps, repeated_run, copied_run, missing_seed, chosen_seed, left_out_run),
    best_in_some,
)


def _names(lines: Sequence[Line]) -> list[str]:
    return [line["name"] for line in lines]


def larger_base(runs: Runs) -> None:
    """Base with more seeds than its rows: differences are known better so."""
    seed = max(line["seed"] for line in runs.lines)
    for offset in (1, 2):
        runs.lines.append(_line(runs.chance, {}, 0.0, seed + offset, len(runs.lines)))


def longer_row(runs: Runs) -> None:
    """A row that is about the number of steps, and says so."""
    for line in runs.of_row("base"):
        longer = line | {"variant": "max_steps2000", "max_steps": 2000, "steps": 2000}
        longer |= {"name": f"max_steps2000-s{line['seed']}", "bleu": line["bleu"] + 0.417}
        runs.lines.append(longer | {"output_dir": f"{line['output_dir']}-longer"})
    for line in runs.lines:
        line.setdefault("max_steps", 1000)


def second_seed(runs: Runs) -> None:
    """Settings that follow the seed."""
    for line in runs.lines:
        line["data_seed"] = line["seed"] + 100


def best_beside_last(runs: Runs) -> None:
    """The best value is there too, and some runs end at it."""
    for line in runs.lines:
        line["best_bleu"] = line["bleu"] + runs.chance.choice((0.0, 0.25))


def nothing(runs: Runs) -> None:
    """No peculiarity."""


PECULIARITIES: Sequence[Callable[[Runs], None]] = (
    *(nothing, larger_base, longer_row, second_seed),
    best_beside_last,
)
