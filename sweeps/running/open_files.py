"""How many files this process may open: a sweep holds one lock per pending trial."""

import resource
from contextlib import suppress

from sweeps.schema import Problem, RefusedError

ENOUGH = 65_536
"""Far more than the trials of a study; a limit of a million makes programs slow that close every file."""
BESIDES = 200
"""Files and connections that are open besides the locks; Ray's are some forty, and one or two per running trial."""


def allow_open_files(locks: int) -> None:
    """Raise the soft limit up to the hard one, as any process may. Ray raises its own in the same way.

    Raises RefusedError if even that is too low for so many locks.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # refused by a container's rules
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed != resource.RLIM_INFINITY and allowed < locks + BESIDES:
        found = f"is {allowed}, but {locks} trials to run need {locks + BESIDES} open files"
        raise RefusedError([Problem("ulimit -Hn", found, "raise it, or select fewer trials with sweep.seeds=[1]")])
