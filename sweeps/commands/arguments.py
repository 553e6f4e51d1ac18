"""Arguments and options that several verbs take."""

from typing import Annotated

import typer

OverrideList = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE …]", help="Overrides, in Hydra's grammar.")
]
Trials = Annotated[list[str], typer.Argument(metavar="TRIAL… [KEY=VALUE …]", help="Finished trials, then overrides.")]
Add = Annotated[bool, typer.Option("--add", help="Add rows and seeds that the study does not have yet.")]
ChangedCode = Annotated[
    bool, typer.Option("--changed-code", help="Train what is left with the code of now; the table marks those rows.")
]
Check = Annotated[bool, typer.Option("--check", help="Look at places, addresses and machines, as sweep does first.")]
Multirun = Annotated[
    bool, typer.Option("--multirun", "-m", help="As in Hydra; several values make rows without it, too.", hidden=True)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
