"""The plan of a study says how many seeds would show a difference, once seeds spread."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from finished_trials import sweep
from rich.console import Console

from sweeps.planning.continued import plan_sweep
from sweeps.planning.plan import Plan
from sweeps.show import plan_table

SWEEP = ("sweep.rows=[base,a_heads_1,big]", "sweep.seeds=[1,2]")


def shown(planned: Plan) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(plan_table(planned))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_finished_seeds_are_enough(folder: Path) -> None:
    """BLEU 30 and 30 + 2 · seed: an sd of √2 over the seeds of each row; NLL has none."""
    for trial in sweep(folder, *SWEEP).trials:
        path = trial.folder.result_path
        result = json.loads(path.read_text("utf-8"))
        result["scores"]["dev"]["bleu"] += 2 * trial.trial.seed
        path.write_text(json.dumps(result), encoding="utf-8")
    text = shown(plan_sweep([], False, here=folder))
    assert "would show a difference with probability 0.8, if 2 rows are tested against base:" in text
    assert "BLEU: 2 with 11, 5 with 3 (sd over seeds 1.4, 3 degrees of freedom)." in text
    assert "PPL:" not in text


def test_one_finished_seed_says_nothing(folder: Path) -> None:
    sweep(folder, *SWEEP, ends=1)
    assert "with probability" not in shown(plan_sweep([], False, here=folder))


def test_a_new_study_loads_no_statistics(folder: Path) -> None:
    code = (
        "import sys; from sweeps.planning.continued import plan_sweep; from sweeps.show import plan_table; "
        "plan_table(plan_sweep([], False)); print([name for name in ('scipy', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout.strip() == "[]"
