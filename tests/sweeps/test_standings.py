"""Where trials stand: the table of a large study, and what `ablate status --json` says of each trial."""

import io
from pathlib import Path
from typing import Any

import pytest
from finished_trials import study_in, sweep
from rich.console import Console
from rich.table import Table

from sweeps.planning.continued import plan_sweep
from sweeps.show import plan_table
from sweeps.standings import status_json
from sweeps.standings_table import others_table, status_table
from tracking.lag import lag
from tracking.study import Study


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows with 60 seeds each; the first three trials are finished."""
    folder = tmp_path_factory.mktemp("large").resolve()
    seeds = ",".join(map(str, range(1, 61)))
    sweep(folder, "sweep.rows=[base,a_heads_4]", f"sweep.seeds=[{seeds}]", ends=3)
    return folder


def text(table: Table | None) -> str:
    assert table is not None
    file = io.StringIO()
    Console(file=file, width=120).print(table)
    return file.getvalue()


def lines_of(study: Study) -> list[dict[str, Any]]:
    return status_json(study, lag(study, None))


def test_a_large_study_has_one_line_per_row(large: Path) -> None:
    study = study_in(large)
    lines = lines_of(study)
    assert [line["steps"] for line in lines] == [600] * 120
    finished = sum(line["state"] == "finished" for line in lines)
    assert finished == 3
    shown = text(status_table(study, lines))
    assert "3 of 120 finished" in shown
    assert len([line for line in shown.splitlines() if "missing" in line]) == 2
    assert others_table(study, lines) is None
    failed = [line | {"state": "failed", "note": "no memory"} for line in lines[10:40]]
    named = text(others_table(study, [*lines[:10], *failed, *lines[40:]]))
    assert "20 of 30" in named
    assert named.count("no memory") == 20


def test_its_plan_has_too(large: Path) -> None:
    shown = text(plan_table(plan_sweep([], here=large)))
    assert "117 of 120 trials" in shown
    assert len([line for line in shown.splitlines() if "to run" in line]) == 3


def test_many_rows_of_one_seed_keep_their_lines(large: Path) -> None:
    study = study_in(large)
    lines = [line | {"row": f"row-{line['row']}-{line['seed']}"} for line in lines_of(study)]
    shown = text(status_table(study, lines))
    assert shown.count("row-") == 120
    assert others_table(study, lines) is None
