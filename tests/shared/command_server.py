"""A process that has imported the command line, and forks a process of its own for each command.

A new interpreter imports for a second before it reads its first word. Requests come as JSON over
the socket that the first argument names, each with four files: the command's streams, and one for
its process id and exit code. The modules to import follow. It ends with the process that started
it.

A sync of a study would import MLflow for seconds. The first command that starts one makes this
process fork a second server, which imports MLflow and forks a process of its own for each sync.
"""

import gc
import json
import os
import random
import select
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

LONGEST_REQUEST = 1 << 17
STREAMS = 3
CLIENT = Path(__file__).with_name("sync_client.py")
OF_A_SYNC = (
    "mlflow.tracking",
    "mlflow.store.db.utils",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.model_registry.sqlalchemy_store",
)
"""What a sync imports once it connects."""


def serve(channel: socket.socket, syncs: socket.socket) -> bool:
    """Fork a keeper for each request. True in the process of a command, False at the end.

    The server of ``syncs`` is forked with the first one.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no ended keeper stays as a zombie
    sources = [channel, syncs]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if syncs in ready:
            sources.remove(syncs)
            if os.fork() == 0:
                _serve_syncs(syncs, channel)
            continue
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


def _take_over(request: dict[str, Any], streams: list[int]) -> None:
    """Have the streams, folder and environment of whoever asks."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Make this process what a new one would be before its first import."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _take_over(request, streams)
    environment.AT_START.clear()
    environment.AT_START.update(os.environ)
    sys.argv[:] = request["arguments"]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    random.seed()
    numpy.random.seed()


def _listen() -> socket.socket:
    """A socket of which Linux chooses the name."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")
    listener.listen()
    return listener


def _send_syncs_to(listener: socket.socket) -> None:
    """Let the command of this process have its syncs done by the second server."""
    from sweeps.running import syncer

    as_module = syncer.sync_command
    client = [sys.executable, "-S", "-E", str(CLIENT), listener.getsockname().hex()]
    syncer.sync_command = lambda settings: [*client, *as_module(settings)[1:]]
    listener.close()


def _serve_syncs(listener: socket.socket, lifeline: socket.socket) -> None:
    """Fork a keeper for each sync, until the other end of ``lifeline`` is closed. Does not return:
    the processes of syncs end themselves."""
    from tracking.mlflow.store import MLFLOW_ENV

    os.environ.update(MLFLOW_ENV)
    for module in OF_A_SYNC:
        import_module(module)
    gc.freeze()
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(lifeline, 0)  # asks for nothing but its end
    while lifeline.fileno() not in (descriptor for descriptor, _ in poll.poll()):
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            lifeline.close()
            _keep_sync(connection)
        connection.close()
    os._exit(0)


def _keep_sync(connection: socket.socket) -> None:
    """Fork the sync's process and tell its exit code. Kill it if who asked for it is gone."""
    message, streams, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, STREAMS)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sync_id = os.fork()
    if sync_id == 0:
        connection.close()
        _sync(json.loads(message), streams)
    for stream in streams:
        os.close(stream)
    end = os.pidfd_open(sync_id)
    waiting: list[Any] = [end, connection]
    ready, _, _ = select.select(waiting, [], [])
    if end not in ready:
        os.kill(sync_id, signal.SIGKILL)
    _, status = os.waitpid(sync_id, 0)
    if end in ready:
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _sync(request: dict[str, Any], streams: list[int]) -> None:
    """Become what ``python -m tracking.mlflow.sync`` would be, and end as it does."""
    from tracking.mlflow import sync

    _take_over(request, streams)
    os.getppid = lambda: request["parent"]
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    sys.exit(sync.main(request["arguments"]))


if __name__ == "__main__":
    _, socket_number, *modules = sys.argv
    for module in modules:
        import_module(module)
    import numpy

    from sweeps.cli import main
    from sweeps.worker.user_code import environment
    from tracking.provenance import of_process

    of_process()  # which packages there are takes a while, and is remembered
    gc.freeze()  # what is shared by all commands need not be copied to be collected
    syncs = _listen()
    if serve(socket.socket(fileno=int(socket_number)), syncs):
        _send_syncs_to(syncs)
        main()
