"""Stacks of another process: of one that hangs, of one that is stopped, of one that offers none."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from studies import wait_until

from sweeps.running.stacks import stacks_of

HANGING = """
import sys, time
from sweeps.running.stacks import offer_stacks
def waits_for_ever():
    print("ready", flush=True)
    time.sleep(10**6)
if sys.argv[1] == "offers":
    offer_stacks()
waits_for_ever()
"""


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[psutil.Process]:
    started = subprocess.Popen([sys.executable, "-c", HANGING, request.param], stdout=subprocess.PIPE, text=True)
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    yield psutil.Process(started.pid)
    started.kill()
    started.communicate()


@pytest.mark.parametrize("process", ["offers"], indirect=True)
def test_a_process_that_hangs_shows_where(process: psutil.Process) -> None:
    assert "in waits_for_ever" in stacks_of(process.pid)
    process.suspend()
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "its stop")
    assert stacks_of(process.pid).startswith("the process is stopped, so it has no stack")


@pytest.mark.parametrize("process", ["nothing"], indirect=True)
def test_a_process_that_offers_no_stacks_is_not_disturbed(process: psutil.Process) -> None:
    assert stacks_of(process.pid) == "the process has no stack dump enabled"
    assert process.is_running()


def test_a_process_that_is_gone_has_none() -> None:
    assert "no stack" in stacks_of(2**22 - 3)
