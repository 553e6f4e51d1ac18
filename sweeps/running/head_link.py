"""Whether the head of a cluster that this process has joined is gone, or only out of reach for a while."""

import errno
import socket
import time

REFUSED_S = 15.0
"""How long its machine may refuse connections: the head has ended, but may be restarted."""
SILENT_S = 45.0
"""How long nothing may answer: the link may be down, or the head busy. Ray itself gives up after 60 s, with traces."""
ANSWER_S = 2.0
STOPPED_S = 10.0
"""If no look was taken for so long, this process itself was stopped meanwhile."""
OWN_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)
REFUSED, SILENT = "refused", "silent"


class HeadLink:
    """The way to the head at ``address`` (host:port)."""

    def __init__(self, address: str, refused_s: float = REFUSED_S, silent_s: float = SILENT_S) -> None:
        self._address, self._allowed_s = address, {REFUSED: refused_s, SILENT: silent_s}
        self._failed = False
        self._since = self._looked = time.monotonic()

    def fault(self) -> str | None:
        """Try to connect; returns why the head counts as gone, if it does."""
        failure, now = self._tried(), time.monotonic()
        if not (self._failed and failure) or now - self._looked > STOPPED_S:
            self._since = now
        self._failed, self._looked = bool(failure), now
        gone = failure and now - self._since > self._allowed_s[failure]
        return f"Ray's head at {self._address} no longer answers" if gone else None

    def _tried(self) -> str:
        """How the head failed to answer; "" if it answers, or if this process cannot even ask."""
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
        except ConnectionRefusedError:
            return REFUSED
        except OSError as error:
            return "" if error.errno in OWN_FAULTS else SILENT
        return ""
