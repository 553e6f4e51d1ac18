"""Ends a call that gets no answer. Drivers of databases wait forever for a server that hangs."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

CALL_S, FILES_S = 30.0, 600.0  # of one call; files may be large
CONNECTING_S = 300.0  # the first connection makes all tables


class _Expired(BaseException):
    """No `Exception`: SQLAlchemy then drops the connection, instead of waiting for its rollback as well."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError within the block after so many seconds.

    Only the main thread gets signals: in another one, and on Windows, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    armed = True

    def expire(_number: int, _frame: FrameType | None) -> None:
        if armed:
            raise _Expired

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Expired:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Impatient:
    """An object whose methods raise TimeoutError if they take too long."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def limited(*arguments: Any, **named: Any) -> Any:
            with at_most(FILES_S if name == "log_artifacts" else CALL_S):
                return method(*arguments, **named)

        return limited
