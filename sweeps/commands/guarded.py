"""What every verb does with an error: a message, and an exit code."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from rich.markup import escape

from sweeps.console import ERR, OUT, print_failure, print_interruption, print_refusal
from sweeps.schema import RefusedError
from sweeps.verbs import refuse_options, refuse_removed_folder
from tracking.damage import DamagedFileError
from transformer.finite import NotFiniteError

DOES = {
    **dict.fromkeys(("plan", "sweep", "train", "ui"), "started"),
    **dict.fromkeys(("init", "report", "export"), "written"),
    **dict.fromkeys(("drop", "rm"), "moved"),
    **{"stop": "stopped", "sync": "sent", "compare": "compared", "translate": "translated", "evaluate": "evaluated"},
}
"""What a verb does, and by a refusal does not; the others only print."""


def guarded(run: Callable[..., int | None]) -> Callable[..., None]:
    """Turn refusals, non-finite scores, Ctrl-C and SIGTERM into messages and exit codes."""

    @wraps(run)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            refuse_removed_folder()
            refuse_options(run, kwargs.get("overrides") or kwargs.get("arguments") or [])
            code = run(*args, **kwargs) or 0
        except (RefusedError, DamagedFileError) as error:
            print_refusal(error, f"Nothing was {DOES[run.__name__]}." if run.__name__ in DOES else "")
            code = 2
        except NotFiniteError as error:
            ERR.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
            code = 1
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
