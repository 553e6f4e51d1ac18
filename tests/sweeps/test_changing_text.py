"""Text that changes while a study runs changes no figure of it."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from ablate_in_folder import plan
from rich.console import Console
from studies import SMALL, Running, ablate, wait_until

from sweeps.run import taking
from transformer.data.prepare import prepare
from transformer.schema import RefusedError

WORDS = [*"abcdefgh"]
FILES = ["data=files", *(f"data.{name}=[{name}.txt,{name}.txt]" for name in ("train", "dev", "test"))]
DATA = [*FILES, "data.vocab_size=272", "sweep.name=own", "model.max_positions=64"]
STEPS = ["train.steps=30", "train.checkpoint_every=20"]
ONE_AFTER_THE_OTHER = f"cluster.cpus_per_worker={os.cpu_count()}"


def sentences(size: int, seed: int) -> str:
    drawn = random.Random(seed)
    return "".join(" ".join(drawn.choices(WORDS, k=drawn.randint(1, 8))) + "\n" for _ in range(size))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, (name, size) in enumerate((("train", 300), ("dev", 6), ("test", 6))):
        (tmp_path / f"{name}.txt").write_text(sentences(size, seed))
    return tmp_path


def result(folder: Path, trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "runs" / "own" / trial / "result.json").read_text())
    return content


@pytest.mark.ray
@pytest.mark.slow
def test_text_that_changes_while_rows_are_trained_changes_no_score(folder: Path, tmp_path: Path) -> None:
    words = [*SMALL, *DATA, *STEPS, ONE_AFTER_THE_OTHER, "sweep.rows=[base,e_learned_positions]"]
    control = shutil.copytree(folder, folder / "control")
    undisturbed = ablate("sweep", *words, cwd=control)
    assert undisturbed.returncode == 0, undisturbed.stdout + undisturbed.stderr
    trials = [folder / "runs" / "own" / f"{row}-s1" for row in ("base", "e_learned_positions")]
    running = Running.start("sweep", *words, cwd=folder, trial=trials[0])
    wait_until(lambda: running.ended() or any((trial / "provenance.json").exists() for trial in trials), "a row")
    with (folder / "train.txt").open("a") as file:
        file.write(sentences(50, seed=9))
    (folder / "dev.txt").write_text((folder / "dev.txt").read_text().replace("\n", " h\n", 1))
    (folder / "test.txt").unlink()
    assert not all((trial / "provenance.json").exists() for trial in trials)  # the other row comes after the change
    code, output = running.finish()
    assert code == 0, output
    for trial in trials:
        assert result(folder, trial.name)["scores"] == result(control, trial.name)["scores"]
    evaluated = ablate("evaluate", str(trials[1]), "--json", cwd=folder)
    assert evaluated.returncode == 0, evaluated.stderr


def test_damaged_prepared_text_is_refused_before_a_study_starts(folder: Path) -> None:
    planned = plan(folder, *SMALL, *DATA, *STEPS, "sweep.rows=[base]")
    settings = planned.trials[0].settings
    path = prepare(settings.data, Path(settings.paths.data)).folder / "test.target.txt"
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    with (
        pytest.raises(RefusedError, match=r"test\.target\.txt differs from what was written"),
        taking(planned, [], Console()),
    ):
        pass
    assert not (folder / "runs").exists()
