"""Where trials stand: the table of a large study, and what `ablate status --json` says of each trial."""

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from finished_trials import study_in, sweep
from rich.console import Console
from rich.table import Table

from sweeps.planning.continued import plan_sweep
from sweeps.running.recorder import Recorder
from sweeps.show import plan_table
from sweeps.standings import Standings, status_json
from sweeps.standings_table import cut_notes, others_table, status_table, status_tables
from tracking.lag import Lag, lag
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


@pytest.mark.parametrize("room", [24, 60])
def test_its_tables_fit_the_terminal_with_what_runs_first(large: Path, room: int) -> None:
    study = study_in(large)
    lines = lines_of(study)
    running = [line | {"row": f"row-{number}", "state": "running"} for number, line in enumerate(lines[60:100])]
    tables = status_tables(study, [*lines[:60], *running, *lines[100:]], room)
    shown = "".join(map(text, tables))
    assert len(shown.splitlines()) <= room
    assert "of 42 rows shown" in " ".join(shown.split())
    assert "of 40 shown; --json lists all" in " ".join(shown.split())
    assert "missing" not in text(tables[0])
    assert all("running" in line for line in text(tables[1]).splitlines() if "row-" in line)


def test_later_looks_see_what_changed(large: Path) -> None:
    study, unsent = study_in(large), Lag("", {}, 0, None, ())
    standings = Standings(study)
    before, again = standings.lines(unsent), standings.lines(unsent)
    assert before == again == status_json(study, unsent)
    folder = study.trial_folder(study.trials[-1])
    folder.begin_attempt(1, "elsewhere", 1)
    assert standings.lines(unsent)[-1]["state"] == "running"
    folder.report(1, 10, {"train/loss": 1.0})
    assert standings.lines(unsent)[-1]["step"] == 10
    folder.end_attempt(1, "interrupted")
    assert standings.lines(unsent)[-1]["state"] == "interrupted"
    shutil.rmtree(folder.path)
    assert standings.lines(unsent) == before


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


def test_a_look_reads_the_ends_of_long_journals(tmp_path: Path) -> None:
    """`ablate status` of a thousand trials takes seconds for that reason."""
    planned = sweep(tmp_path, "sweep.rows=[base,big]", ends=1)
    Recorder(planned.pending[1]).begin()
    for trial in planned.pending:
        trial.folder.report(1, 1, {"loss": 2.0})
        line = trial.folder.journal_path.read_text()
        assert '"step": 1' in line
        more = (line.replace('"step": 1', f'"step": {step}') for step in range(2, 20_001))
        trial.folder.journal_path.write_text(line + "".join(more))
    study = study_in(tmp_path)
    before = bytes_read()
    lines = status_json(study, Lag("", {}, 0, None, ()))
    assert sorted((line["state"], line["step"]) for line in lines) == [("finished", 20_000), ("running", 20_000)]
    assert bytes_read() - before < sum(trial.folder.journal_path.stat().st_size for trial in planned.pending) / 5


def bytes_read() -> int:
    """By this process, also from the page cache."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_has_a_line_per_trial_with_its_whole_name(tmp_path: Path, width: int) -> None:
    """A trial's name is what other commands take. What the table cuts of a cause stands below."""
    sweep(tmp_path, ends=1)
    study, cause = study_in(tmp_path), "ValueError: the loss is not finite, in a layer with a long name"
    lines = [line | {"note": "waiting for its turn" * (line["state"] == "missing")} for line in lines_of(study)]
    lines[2] |= {"state": "running", "step": 300, "seconds_left": 95.0, "note": ""}
    lines[3] |= {"state": "interrupted", "step": 300}
    lines[4] |= {"state": "failed", "step": 300, "note": cause}
    screen = io.StringIO()
    narrow, wide = Console(file=screen, width=width), Console(file=io.StringIO(), width=200)
    (table,) = status_tables(study, lines)
    narrow.print(table)
    shown = screen.getvalue().splitlines()
    assert [line["row"] for line in lines] == [words[0] for each in shown[4:] if (words := each.split())]
    assert " waiting" in shown[5]
    assert "interrupted" in shown[7]
    assert cause not in "".join(shown)
    expected = [f"{lines[3]['row']}-s1: waiting for its turn", f"{lines[4]['row']}-s1: {cause}"]
    assert cut_notes(study, lines, narrow) == expected
    short = [line | {"note": "waiting for 4 GPUs, 2 are free"} for line in lines if line["state"] == "missing"]
    assert cut_notes(study, [*short, *lines[3:5]], narrow) == ["waiting for 4 GPUs, 2 are free", *expected]
    assert cut_notes(study, lines, wide) == []
