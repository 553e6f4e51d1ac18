"""The cause of an error in one line, and whether a store is out of reach."""

from collections.abc import Iterator

from tracking.files import DamagedFileError
from tracking.uri import without_password

NO_ANSWER = ("ConnectionError", "Timeout", "TimeoutError", "OperationalError", "InterfaceError")
"""Error classes of the standard library, of requests, and of database drivers. Drivers also raise
them for a locked database."""


def cause_of(error: BaseException) -> str:
    """One line that is safe to show: a database driver's or a connection's message if possible."""
    if isinstance(error, DamagedFileError):
        return without_password(f"{error}; {error.remedy}")
    root = next(_roots(error), error)
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    message = lines[0] if lines else "no reason was given"
    return without_password(f"{type(root).__name__}: {message}")


def out_of_reach(error: BaseException) -> bool:
    """Whether the store did not answer, or refuses every request: the next one would take as long,
    and fail as well."""
    for link in (*_chain(error), *_roots(error)):
        if any(ancestor.__name__ in NO_ANSWER for ancestor in type(link).__mro__):
            return True
    return False


def _roots(error: BaseException) -> Iterator[BaseException]:
    """Along the chain, the errors in SQLAlchemy's ``orig`` and urllib3's ``reason``."""
    for link in _chain(error):
        for name in ("orig", "reason"):
            root = getattr(link, name, None)
            if isinstance(root, BaseException):
                yield root


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its cause, the cause of that, and so on."""
    visited: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in visited:
        visited.add(id(link))
        yield link
        inner = next((value for value in link.args if isinstance(value, BaseException)), None)
        link = link.__cause__ or inner or link.__context__
