"""Why a process of a sweep died, in words: from what Ray says, and from the last that the process wrote."""

import re
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from transformer.messages import Lost

LAST_LINES = 20  # of a dead process's standard error, for error.txt
UNKNOWN_EXIT = "connection error code 2"
"""What Ray says of each process that was killed, crashed or left by itself: it only saw the connection end."""


def describe(error: BaseException, name: str) -> Lost:
    """``error`` is what Ray raised on asking the process; ``name`` what to call it, such as "worker 0"."""
    if isinstance(error, RayTaskError):
        error = error.cause if isinstance(error.cause, BaseException) else error
    text = str(error).strip() or type(error).__name__
    pid, address = _found(r"pid: (\d+)", text), _found(r"ip: (\S+)", text)
    words = _last_words(pid, address)
    who = " ".join([name, *([f"(pid {pid} on {address})"] if pid and address else [])])
    return Lost(f"{who} {_cause(text, words)}", "\n\n".join(filter(None, [text, "\n".join(words)])))


def _cause(text: str, words: list[str]) -> str:
    """One line: the surest that is known."""
    signals = [match[1] for line in words if (match := re.search(r"\*\*\* (SIG\w+) received", line))]
    if "OutOfMemory" in text or "out of memory" in text.lower() or "low on memory" in text:
        return "was killed by Ray, because its node ran out of memory"
    if re.search(r"node (was|has|is) (dead|died|terminated|lost)|node_id|its node", text) and "node" in text.lower():
        return "was lost with its node"
    if signals:
        return f"crashed with {signals[-1]}"
    if "SIGTERM" in text:
        return "was ended by SIGTERM"
    if code := _found(r"exit code (\d+)", text):
        return f"left with exit code {code}"
    if UNKNOWN_EXIT in text:
        last = f"; its last words: {words[-1]}" if words else ""
        return f"was killed (SIGKILL, which is also what the kernel sends when memory runs out){last}"
    return f"is lost: {text.splitlines()[0]}"


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


def _last_words(pid: str | None, address: str | None) -> list[str]:
    """The last lines that a process of this node wrote to its standard error, without Ray's own.

    None of another node's: here its pid may be that of another process.
    """
    logs = _log_folder(address)
    paths = sorted(logs.glob(f"worker-*-{pid}.err")) if pid and logs else []
    lines = paths[-1].read_text("utf-8", "replace").splitlines() if paths else []
    return [line for line in lines if line.strip() and not line.startswith(":")][-LAST_LINES:]


def _log_folder(address: str | None) -> Path | None:
    """Of this node, if that is its address."""
    node: Any = ray._private.worker._global_node or ray._private.worker.global_worker.node
    return Path(node.get_logs_dir_path()) if node and node.node_ip_address == address else None
