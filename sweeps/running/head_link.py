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
COUNTS_AS = {"": (), REFUSED: (REFUSED, SILENT), SILENT: (SILENT,)}  # no head answers where connections are refused


class HeadLink:
    """The way to the head at ``address`` (host:port)."""

    def __init__(self, address: str, refused_s: float = REFUSED_S, silent_s: float = SILENT_S) -> None:
        self._address, self._allowed_s = address, {REFUSED: refused_s, SILENT: silent_s}
        self._since: dict[str, float] = {}  # by the kind of failure
        self._looked = time.monotonic()

    def fault(self) -> str | None:
        """Try to connect; returns why the head counts as gone, if it does."""
        stopped = time.monotonic() - self._looked > STOPPED_S
        failure = self._tried()
        self._looked = now = time.monotonic()
        if stopped or not failure:
            self._since = {}
        if failure == SILENT:  # its machine refuses nothing any longer
            self._since.pop(REFUSED, None)
        for kind in COUNTS_AS[failure]:
            self._since.setdefault(kind, now)
        gone = any(now - since > self._allowed_s[kind] for kind, since in self._since.items())
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
