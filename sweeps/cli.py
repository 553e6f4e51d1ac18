"""``allelse VERB [key=value …]``: the verbs in the order of `--help`; those of a task follow.

Exit codes: 0 done, 1 a trial or a check failed or `sync` is incomplete, 2 refused, 129 terminal
closed, 130 interrupted (also by `allelse stop`, unless a trial failed), 143 terminated.
"""

from typing import Annotated

import typer

from sweeps.processes.streams import replace_letters
from sweeps.verbs.command import print_version
from sweeps.verbs.compare.verb import compare
from sweeps.verbs.import_runs import import_runs
from sweeps.verbs.plan.verb import plan
from sweeps.verbs.probe.verb import probe
from sweeps.verbs.publish import publish
from sweeps.verbs.read import logs, status, stop, studies
from sweeps.verbs.remove import drop, rm
from sweeps.verbs.rename import rename
from sweeps.verbs.report import report
from sweeps.verbs.restore import restore
from sweeps.verbs.run import sweep, train
from sweeps.verbs.setup import config, doctor, init
from sweeps.verbs.table import table
from sweeps.verbs.trained.commands import Verbs
from sweeps.verbs.ui import sync, ui

app = typer.Typer(
    cls=Verbs,
    help="Run ablation studies of any model: a base, and rows that each change one named thing. "
    "Plan the cost, run the sweep, and print the table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
STUDIES = (
    init,
    probe,
    import_runs,
    plan,
    sweep,
    train,
    studies,
    status,
    stop,
    logs,
    table,
    report,
    compare,
    publish,
    ui,
    sync,
    drop,
    rm,
    restore,
    rename,
)
for verb in (*STUDIES, config, doctor):
    app.command("import" if verb is import_runs else None)(verb)


def main() -> None:
    """The entry point of the console script."""
    replace_letters()
    app()


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """The options before the verb."""


if __name__ == "__main__":
    main()
