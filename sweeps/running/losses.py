"""Why an attempt ended: by an error of its work, which another attempt may not have, or by the death of a process."""

import errno
import re
import sys
import traceback
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayTaskError

from sweeps.events import Failed, Lost
from sweeps.processes.storage import AWAY, BUSY, StorageError
from sweeps.worker.said import cause, printable

NO_MEMORY = re.compile(r"out of memory|can(no|')t allocate memory|not enough memory", re.I)
UNREACHABLE = re.compile(
    r"\bgloo\b|\bnccl|Connection (closed|reset|refused)|EADDRINUSE|Address already in use|TCPStore|rendezvous", re.I
)
LOST_GPU = re.compile(
    r"uncorrectable (NVLink|ECC) error|fallen off the bus|GPU is lost|busy or unavailable|no CUDA-capable device"
    r"|No CUDA GPUs are available|driver initialization failed|system not yet initialized",
    re.I,
)
"""What CUDA and torch say of a device that fails whatever runs on it. A kernel's own faults have other words."""
LAST_LINES = 60  # of the standard error of a process that died or hung: the stacks of its threads, for error.txt
BY_RAY = "was killed by Ray, because its node ran out of memory"
DEATHS = {
    r"OutOfMemory|(?i:out of memory)|low on memory": BY_RAY,
    r"node (?:was|has|is) (?:dead|died|terminated|lost)|node_id|its node": "was lost with its node",
    r"^ActorUnavailableError": "no longer answers: its node or the link to it is gone",
    r"\*\*\* (SIG\w+) received": "crashed with {}",
    r"SIGTERM": "was ended by SIGTERM",
    r"exit code (\d+)": "exited with code {}",
}
"""How a process ended, by what Ray's error or the process itself says; the first that is found."""
UNKNOWN_EXIT = "connection error code 2"
"""Ray's message for any process that was killed, crashed or exited by itself: Ray saw only the connection end."""
NOT_INSTALLED = re.compile(r"No module named '(?:sweeps|tracking|transformer)(\.[\w.]+)?'")
INSTALL_IT = "install it for the Python that starts Ray there"


def ended_by(error: BaseException) -> Failed | Lost:
    """The event of a worker whose work raised ``error``."""
    said, details = cause(error), printable(traceback.format_exc())
    number = error.errno if isinstance(error, OSError) else None
    words = str(error) if isinstance(error, RuntimeError) else ""  # torch's errors have few types of their own
    if isinstance(error, MemoryError) or number == errno.ENOMEM or NO_MEMORY.search(words):
        return Lost(f"out of memory: {said}", details, memory=True)
    if isinstance(error, SystemExit):
        return Lost(f"the trial's code ended its process: {said}", details)
    distributed = sys.modules.get("torch.distributed")
    if distributed and (
        number == errno.EADDRINUSE or isinstance(error, distributed.DistError) or UNREACHABLE.search(words)
    ):
        return Lost(said, details, peer=True)
    storage_away = number in AWAY | BUSY and not isinstance(error, StorageError)  # that was tried for long enough
    return (Lost if storage_away or LOST_GPU.search(words) else Failed)(said, details)


def died(error: BaseException, name: str, place: Any = None) -> Lost:
    """``error`` is Ray's exception from a call to the process ``name``, such as "worker 0".

    ``place`` is where it ran: with ``node``, ``log``, and words for a person.
    """
    if isinstance(error, RayTaskError):
        error = error.cause if isinstance(error.cause, BaseException) else error
    text = str(error).strip() or type(error).__name__
    pid, address = _found(r"pid: (\d+)", text), _found(r"ip: (\S+)", text)
    lines = last_lines(place)
    where = place or (f"pid {pid} on {address}" if pid and address else None)
    process = f"{name} ({where})" if where else name
    if missing := NOT_INSTALLED.search(text):
        found = "another allelse; install the same" if missing[1] else f"no allelse; {INSTALL_IT}"
        return Lost(f"{process} found {found}", text, unfit=True)
    how, details = _how(error, text, lines), "\n\n".join(filter(None, [text, "\n".join(lines)]))
    return Lost(f"{process} {how}", details, memory=how == BY_RAY)


def _how(error: BaseException, text: str, lines: list[str]) -> str:
    """The most certain explanation, as one line."""
    crashes = [line for line in lines if "*** SIG" in line]
    said = "\n".join([type(error).__name__, text, *crashes[-1:]])
    for pattern, how in DEATHS.items():
        if found := re.search(pattern, said):
            return how.format(*found.groups())
    if UNKNOWN_EXIT in text:
        last = f"; last line of its log: {lines[-1]}" if lines else ""
        return f"was killed (SIGKILL), perhaps because memory ran out, or exited by itself{last}"
    return f"was lost: {text.splitlines()[0]}"


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def last_lines(place: Any) -> list[str]:
    """The last lines that a process of this node wrote to its standard error, without Ray's own lines."""
    if place is None or place.node != ray.get_runtime_context().get_node_id():
        return []
    with suppress(OSError):
        lines = place.log.read_text("utf-8", "replace").splitlines()
        return [line for line in lines if line.strip() and not line.startswith(":")][-LAST_LINES:]
    return []
