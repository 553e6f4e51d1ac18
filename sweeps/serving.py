"""A server that runs until Ctrl-C."""

import os
import signal
import subprocess


def serve(command: list[str], environment: dict[str, str]) -> int:
    """Run a server until Ctrl-C, which is its normal end.

    A separate session shields it from Ctrl-C: SIGTERM ends it without a traceback.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        return 0
