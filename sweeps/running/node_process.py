"""Ray's node process on this machine, if somebody else has started it."""

import psutil


class NodeProcess:
    """The process itself. Nobody here is its parent, so a zombie counts as ended."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process

    def is_running(self) -> bool:
        try:
            return self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def node_process(socket_name: str) -> NodeProcess | None:
    """The one that listens at this socket."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "raylet" and any(socket_name in word for word in process.info["cmdline"] or ()):
            return NodeProcess(process)
    return None
