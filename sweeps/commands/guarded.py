"""What every verb does with an error: a message, and an exit code."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from sweeps.console import OUT, print_failure, print_interruption, print_refusal
from sweeps.schema import RefusedError
from sweeps.verbs import refuse_options, refuse_removed_folder
from tracking.damage import DamagedFileError

DOES = {
    **dict.fromkeys(("plan", "sweep", "train", "ui"), "started"),
    **dict.fromkeys(("init", "report"), "written"),
    **dict.fromkeys(("drop", "rm"), "moved"),
    **{"stop": "stopped", "sync": "sent", "compare": "compared"},
}
"""What a verb does, and by a refusal does not; the others only print."""


def guarded(run: Callable[..., int | None], does: str = "") -> Callable[..., None]:
    """Turn refusals, Ctrl-C and SIGTERM into messages and exit codes. ``does``: as in DOES."""
    done = does or DOES.get(run.__name__)

    @wraps(run)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            refuse_removed_folder()
            refuse_options(run, kwargs.get("overrides") or kwargs.get("arguments") or [])
            code = run(*args, **kwargs) or 0
        except (RefusedError, DamagedFileError) as error:
            print_refusal(error, f"Nothing was {done}." if done else "")
            code = 2
        except BrokenPipeError:  # the reader of a pipe has left
            OUT.on_broken_pipe()
            code = 0
        except OSError as error:
            print_failure(error)
            code = 1
        except KeyboardInterrupt as error:
            code = print_interruption(error)
        raise typer.Exit(code)

    return call
