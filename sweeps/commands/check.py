"""The verbs that show what is set up: ``config``, ``doctor``."""

import json
import sys

from sweeps.commands.arguments import Json, OverrideList
from sweeps.commands.guarded import guarded
from sweeps.console import OUT, next_verb


@guarded
def config(overrides: OverrideList = None) -> None:
    """Print the composed configuration of one row (row=NAME)."""
    import yaml

    from sweeps.planning.compose import compose_row
    from tracking.uri import without_passwords

    settings = compose_row(overrides or []).rows[0].settings
    sys.stdout.write(yaml.safe_dump(without_passwords(settings.to_dict()), sort_keys=False, allow_unicode=True))


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
