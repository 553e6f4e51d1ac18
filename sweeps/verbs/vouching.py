"""``sweep --vouch``: show first that today's code trains the same weights as the recorded one."""

from rich.markup import escape

from sweeps.console import OUT, typed_command
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import names_and_overrides, refuse_without_extra
from tracking.words import listed


def vouched(words: list[str], add: bool, changed_code: bool) -> list[str]:
    """Show that today's code trains the same weights; returns the overrides alone. Raises
    RefusedError."""
    from sweeps.planning.continuation import plan_sweep
    from sweeps.preflight.checks import checked
    from sweeps.vouching.voucher import vouch

    names, overrides = names_and_overrides(words)
    if changed_code:
        raise RefusedError(
            [
                Problem(
                    "--changed-code",
                    "is typed with --vouch, which marks nothing",
                    "use one of them",
                )
            ]
        )
    if len(names) > 1:
        raise RefusedError([Problem("--vouch", f"names {listed(names)}", "must name one trial")])
    refuse_without_extra()
    planned = plan_sweep(overrides, add, changed_code=True)
    vouch(
        planned,
        names[0] if names else None,
        typed_command(),
        lambda retrial: checked(lambda: retrial, overrides)[0],
        lambda text: OUT.print(escape(text), soft_wrap=True),
    )
    return overrides
