"""How many files this process may open: a sweep holds one lock per pending trial."""

import resource
from contextlib import suppress

ENOUGH = 65_536
"""Far more than the trials of a study; a limit of a million makes programs slow that close every file."""


def allow_open_files() -> None:
    """Raise the soft limit up to the hard one, as any process may. Ray raises its own in the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # refused by a container's rules
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
