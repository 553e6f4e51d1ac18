"""Started in the place of ``python -P -m tracking.mlflow.sync``: it has the sync done by a process
whose imports are done, with its own streams, and ends with its exit code. See ``command_server``.

The first argument names that process's socket; the words between Python and the sync's own
arguments follow, and then these.
"""

import json
import os
import socket
import sys

AS_MODULE = 3
LONGEST_ANSWER = 16


def ask(name: str, *words: str) -> int:
    """Returns the exit code."""
    request = {
        "arguments": words[AS_MODULE:],
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all of this
        "environment": dict(os.environ),
        "parent": os.getppid(),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(bytes.fromhex(name))
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        return int(connection.recv(LONGEST_ANSWER))


if __name__ == "__main__":
    sys.exit(ask(*sys.argv[1:]))
