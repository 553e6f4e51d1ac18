"""Records of a running sweep on storage that fails for a while: the sweep waits, and then ends in one line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sweeps.processes.storage import patiently, telling
from tracking.damage import DamagedFileError

Found = TypeVar("Found")


class RemovedError(Exception):
    """A person removed the folder of a trial that runs. It ends; the other trials go on."""


class UnrecordedError(BaseException):
    """The study could not be written. What is not recorded would be lost, so the sweep ends.

    No Exception: Tune would make a text of it, and a trial a failure of its own.
    """

    def __init__(self, error: OSError) -> None:
        self.error = error


def recorded(act: Callable[[], Found], folder: Path, say: Callable[[str], None]) -> Found:
    """What ``act`` returns, which writes in this folder. ``say`` gets a line when storage fails, and when it is back.

    Raises UnrecordedError.
    """
    try:
        return telling(patiently(act, str(folder)), say)
    except DamagedFileError as damage:  # such as a file that a server has cut
        raise UnrecordedError(OSError(None, f"{damage.cause}; {damage.remedy}", damage.place)) from None
    except OSError as error:
        raise UnrecordedError(error) from None


@contextmanager
def unrecorded_as_error() -> Iterator[None]:
    """Raises the OSError of an UnrecordedError, once Tune and the trial are left."""
    try:
        yield
    except UnrecordedError as unrecorded:
        raise unrecorded.error from None
