"""The first cause of an error, in one line, without what the layers above added."""

from collections.abc import Iterator

from tracking.damage import DamagedFileError
from tracking.uri import without_password

NO_ANSWER = ("ConnectionError", "Timeout", "TimeoutError", "OperationalError", "InterfaceError")
"""Classes of the standard library, of requests, and of databases' drivers; the latter also for a locked database."""


def cause_of(error: BaseException) -> str:
    """One line that is safe to show: the message of a database driver or a connection, if there is one."""
    if isinstance(error, DamagedFileError):
        return without_password(f"{error}; {error.remedy}")
    root = next(_roots(error), error)
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    return without_password(f"{type(root).__name__}: {lines[0] if lines else 'no reason was given'}")


def out_of_reach(error: BaseException) -> bool:
    """Whether the store did not answer, or refused every request: the next one would wait as long, and fail as well."""
    found = [*_chain(error), *_roots(error)]
    return any(kind.__name__ in NO_ANSWER for link in found for kind in type(link).__mro__)


def _roots(error: BaseException) -> Iterator[BaseException]:
    """The errors that SQLAlchemy keeps as ``orig`` and urllib3 as ``reason``, along the chain of causes."""
    for link in _chain(error):
        for name in ("orig", "reason"):
            if isinstance(root := getattr(link, name, None), BaseException):
                yield root


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        inner = next((value for value in link.args if isinstance(value, BaseException)), None)
        link = link.__cause__ or inner or link.__context__
