"""A process that has imported the command line, and forks a process of its own for each command.

A new interpreter imports for a second before it reads its first word. Requests come as JSON over
the socket that the first argument names, each with four files: the command's streams, and one for
its process id and exit code. The modules to import follow. It ends with the process that started
it.
"""

import json
import os
import random
import signal
import socket
import sys
from importlib import import_module
from typing import Any

LONGEST_REQUEST = 1 << 17
STREAMS = 3


def serve(channel: socket.socket) -> bool:
    """Fork a keeper for each request. True in the process of a command, False at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no ended keeper stays as a zombie
    while True:
        message, files, _, _ = socket.recv_fds(channel, LONGEST_REQUEST, STREAMS + 1)
        if not message:
            return False
        if os.fork() == 0:
            channel.close()
            return _keep(json.loads(message), files)
        for file in files:
            os.close(file)


def _keep(request: dict[str, Any], files: list[int]) -> bool:
    """Fork the command's process and tell its id, then its exit code. Returns only in that
    process."""
    *streams, answer = files
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command_id = os.fork()
    if command_id == 0:
        os.close(answer)
        _become(request, streams)
        return True
    for stream in streams:
        os.close(stream)
    os.write(answer, f"{command_id}\n".encode())
    _, status = os.waitpid(command_id, 0)
    os.write(answer, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Make this process what a new one would be before its first import."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    environment.AT_START.clear()
    environment.AT_START.update(os.environ)
    sys.argv[:] = request["arguments"]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    random.seed()
    numpy.random.seed()


if __name__ == "__main__":
    _, socket_number, *modules = sys.argv
    for module in modules:
        import_module(module)
    import numpy

    from sweeps.cli import main
    from sweeps.worker.user_code import environment

    if serve(socket.socket(fileno=int(socket_number))):
        main()
