"""Commands that run in processes of their own whose imports are done: see ``command_server``."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Timer

import sweeps.cli

PROGRAM = Path(sys.executable).parent / "allelse"
AS_MODULE = (sys.executable, "-P", "-m", "sweeps.cli")
SERVER = Path(__file__).with_name("command_server.py")
MODULES = (
    "sweeps.planning.continuation",
    "sweeps.planning.study_rows.todays_words",
    "sweeps.preflight.checks",
    "sweeps.running.single_process",
    "tracking.statistics.verdict",
)
"""What the verbs import beside the command line itself. Libraries that only some tasks need are
not among them: a trial records what its process has imported."""
TORCH = ("torch",)
"""What commands of a network import for seconds."""
AT_START = dict(os.environ)
READ_BY_COMMANDS = (
    "COLUMNS",
    "PYTHONDONTWRITEBYTECODE",
    "PYTEST_",
    "RAY_",
    "SACREBLEU",
    "TOY_FOLDER",
    "TUNE_",
)
"""How the names of variables begin that nothing reads before the command does."""


def run_command(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    types: str = "",
    timeout: float = 600,
    modules: tuple[str, ...] = (),
) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours to its end, its output captured; ``env`` instead of this process's
    environment.

    ``modules`` are imported before, once for all commands that name them. A command gets a new
    interpreter if its environment differs in what Python or a library reads when it starts.
    """
    environment = dict(os.environ if env is None else env)
    if not _differs_only_for_commands(environment):
        return subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            input=types,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    request = {
        "arguments": _arguments(command),
        "folder": str(cwd),
        "environment": environment,
    }
    with _server(modules).run(request) as served:
        code, output, errors = served.finish(types, timeout)
    return subprocess.CompletedProcess(command, code, output, errors)


def _differs_only_for_commands(environment: Mapping[str, str]) -> bool:
    differences = environment.items() ^ AT_START.items()
    return all(name.startswith(READ_BY_COMMANDS) for name, _ in differences)


def _arguments(command: Sequence[str]) -> list[str]:
    """As ``sys.argv`` has them."""
    if tuple(command[: len(AS_MODULE)]) == AS_MODULE:
        return [str(Path(sweeps.cli.__file__)), *command[len(AS_MODULE) :]]
    return list(command)


class _Served:
    """A command's process, seen from here: the other ends of its streams."""

    def __init__(self, channel: socket.socket, request: Mapping[str, object]) -> None:
        input_end, our_input = os.pipe()
        our_output, output_end = os.pipe()
        our_errors, errors_end = os.pipe()
        our_answer, answer_end = os.pipe()
        self._input = os.fdopen(our_input, "w")
        self._output = os.fdopen(our_output)
        self._errors = os.fdopen(our_errors)
        self._answer = os.fdopen(our_answer)
        files = [input_end, output_end, errors_end, answer_end]
        socket.send_fds(channel, [json.dumps(request).encode()], files)
        for file in files:
            os.close(file)
        self._group = int(self._answer.readline())

    def finish(self, types: str, timeout: float) -> tuple[int, str, str]:
        """Exit code, output and errors. Kills the process if it takes longer, or if this one is
        interrupted."""
        timer = Timer(timeout, self._kill)
        timer.start()
        with ThreadPoolExecutor() as readers:
            try:
                output = readers.submit(self._output.read)
                errors = readers.submit(self._errors.read)
                self._type(types)
                code = int(self._answer.readline())
                return code, output.result(), errors.result()
            except BaseException:
                self._kill()
                raise
            finally:
                timer.cancel()

    def _type(self, text: str) -> None:
        with suppress(BrokenPipeError), self._input:
            self._input.write(text)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)

    def __enter__(self) -> "_Served":
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self._output, self._errors, self._answer):
            stream.close()


class _Server:
    """It ends once our end of the channel is closed, so at the latest with this process."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._channel, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end:
            number = other_end.fileno()
            # its streams are pipes, as those of a command: Python asks only once whether it can
            # seek in them
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(SERVER), str(number), *MODULES, *modules],
                env=AT_START,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[number],
                start_new_session=True,
            )

    def run(self, request: Mapping[str, object]) -> _Served:
        return _Served(self._channel, request)


@lru_cache(maxsize=2)
def _server(modules: tuple[str, ...]) -> _Server:
    """The two used last stay; the memory of further ones would be missed."""
    return _Server(modules)
