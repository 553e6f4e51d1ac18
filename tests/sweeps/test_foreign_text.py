"""Causes, names and paths come from outside: no screen may read them as markup of rich."""

import io
from pathlib import Path

import pytest
from ablate_in_folder import own, plan
from rich.console import Console

from sweeps.events import Failed, Noticed, Started
from sweeps.planning.plan import recorded
from sweeps.running.progress import Progress
from sweeps.show import plan_table
from sweeps.standings import status_json
from sweeps.standings_table import status_table
from tracking.lag import lag
from tracking.rows import table
from tracking.study import write_study
from tracking.table import render

GLOO = "[/__w/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711"
ODD = "[/odd] [bold]"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_cause_that_looks_like_markup_is_shown_as_it_is(tmp_path: Path, terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)
    with Progress(plan(tmp_path, "sweep.rows=[base]"), console) as progress:
        progress.start("base-s1")
        progress.take("base-s1", Started("cpu", 2))
        progress.take("base-s1", Noticed(f"{GLOO} and goes on"))
        progress.retry("base-s1", GLOO)
        progress.take("base-s1", Failed(GLOO, ""))
        console.print(progress.table())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"base-s1: FAILED: {GLOO}" in shown
    assert f"{GLOO}; starting another attempt" in shown
    assert f"{GLOO} and goes on" in shown


@pytest.mark.parametrize("terminal", [False, True])
def test_the_end_of_all_trials_leaves_a_line_and_the_command(tmp_path: Path, terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)
    with Progress(plan(tmp_path, "sweep.rows=[base]"), console) as progress:
        progress.start("base-s1")
        progress.give_up("Ray ended", "ablate sweep")
        assert console.file.getvalue().rstrip().endswith("run again: ablate sweep")  # type: ignore[attr-defined]


def test_names_and_errors_that_look_like_markup_are_shown_in_every_table(tmp_path: Path) -> None:
    own(
        tmp_path,
        "row/[bold]mine",
        f'# @package _global_\nrow: {{group: "{ODD}", change: mine}}\nmodel: {{d_ff: 1024}}\n',
    )
    planned = plan(tmp_path, "sweep.rows=['[bold]mine']", "sweep.name='[dim]study'")
    study = recorded(planned, ["ablate"])
    write_study(study)
    trial = planned.trials[0].folder
    trial.begin_attempt(1, "host", 1)
    trial.write_error(f"RuntimeError: {GLOO}\n")
    lines = status_json(study, lag(study, None))
    for shown in (plan_table(planned), status_table(study, lines), render(study, table(study), 200)):
        console = Console(file=io.StringIO(), width=250)
        console.print(shown)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert "[dim]study" in text
        assert "[bold]mine" in text or ODD in text
    assert "[/__w" in text, "folded in the table"
