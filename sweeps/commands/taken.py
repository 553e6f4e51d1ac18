"""The study that a verb reads, and the notices about it."""

from rich.markup import escape

from sweeps.config.settings import Settings
from sweeps.console import ERR
from tracking.study import Study


def taken_study(overrides: list[str] | None, used: tuple[str, ...] = ()) -> tuple[Study, Settings]:
    """The study to read, and its settings. Standard error says which one was taken, if there was a choice."""
    from sweeps.planning.named_study import study_to_read  # these import Hydra, which `--help` does not need

    taken = study_to_read(overrides, used)
    for notice in taken.notices:
        ERR.print(escape(notice), style="dim", soft_wrap=True)
    return taken.study, taken.settings
