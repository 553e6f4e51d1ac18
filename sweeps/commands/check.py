"""The verbs that show what is set up: ``config``, ``doctor``."""

import json
import sys
from typing import Annotated

import typer

from sweeps.commands.arguments import Json, OverrideList
from sweeps.commands.guarded import guarded
from sweeps.console import OUT, next_verb
from sweeps.task import Problem, RefusedError

Cfg = Annotated[str | None, typer.Option("--cfg", help="job: what Hydra alone composes, before the scale divides.")]
Info = Annotated[str | None, typer.Option("--info", help="defaults: the files that Hydra composes, in their order.")]


@guarded
def config(overrides: OverrideList = None, cfg: Cfg = None, info: Info = None) -> None:
    """Print the composed configuration of one row (row=NAME).

    Hydra composes base, row and scale. Then the scale divides, the row's differences keep their proportion, and values
    from the command line are set last. docs/configuration.md has both orders side by side.
    """
    import yaml

    from sweeps.planning.compose import compose_row
    from sweeps.planning.shown_config import defaults_of, job_of
    from tracking.uri import without_passwords

    for name, given, taken in (("--cfg", cfg, "job"), ("--info", info, "defaults")):
        if given not in (None, taken):
            raise RefusedError([Problem(name, f"is {given}", f"must be {taken}")])
    if info:
        OUT.print(defaults_of(overrides or []))
        return
    tree = job_of(overrides or []) if cfg else compose_row(overrides or []).rows[0].settings.to_dict()
    sys.stdout.write(yaml.safe_dump(without_passwords(tree), sort_keys=False, allow_unicode=True))


@guarded
def doctor(as_json: Json = False) -> int:
    """Check that this machine can run a study, and show the fix for each failed check."""
    from sweeps.doctor import examination_table, examine

    findings = examine()
    if as_json:
        print(json.dumps([vars(finding) for finding in findings], indent=1))
    else:
        OUT.print(examination_table(findings))
    failed = any(finding.state == "failed" for finding in findings)
    if not failed and not as_json:
        next_verb("plan", None)
    return 1 if failed else 0
