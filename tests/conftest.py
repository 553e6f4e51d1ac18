"""The order of the test files, what CI may skip, and the wheel."""

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from joined_ray import JoinedRay, shared_ray

from sweeps.config.hydra.composer import Composer
from sweeps.preflight.machine import cpus, memory
from sweeps.trees import Tree

# a shell's background job ignores Ctrl-C, and so would the processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)
PROJECT = Path(__file__).resolve().parent.parent
# Ray gives its workers only what other processes leave of the CPUs: beside other work a test would
# wait for minutes
os.environ.setdefault("RAY_worker_niceness", "0")
# threads of torch that wait for work would keep the cores from other processes: a training beside
# others took five times the CPU time
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


PROGRAMS = {
    "browser": "/usr/bin/chromium",
    "latex": "/usr/bin/pdflatex",
    "postgres": "/usr/lib/postgresql",
}
"""What a test with this mark needs. `.ci/run` installs them; where one is missing, its tests are
deselected."""


BYTES_PER_PROCESS = 2_500_000_000
"""Of a process of tests with its Ray, its commands and what these train."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two cores: a third of the time, a test waits for others than the CPU. As
    many as the memory takes."""
    return max(1, min(3 * cpus() // 2, memory() // BYTES_PER_PROCESS))


def _missing() -> dict[str, str]:
    return {
        mark: path
        for mark, path in PROGRAMS.items()
        if not Path(path).exists() and not os.environ.get("CI")
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for mark, path in _missing().items():
        terminalreporter.write_line(
            f"Tests with the mark {mark} are deselected: {path} is missing."
        )


def _mark_names(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that start Ray come first, then those that train: the last long file to start keeps one
    process waiting."""
    missing = _missing()
    deselected = [item for item in items if missing.keys() & _mark_names(item)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]
    ray = {item.path for item in items if item.get_closest_marker("ray")}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in ray, item.path not in slow))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI only tests that need CUDA are skipped: whatever else a test lacks there, `.ci/run` has
    to install."""
    report = yield
    if report.skipped and os.environ.get("CI") and item.get_closest_marker("gpu") is None:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def joined_ray() -> JoinedRay:
    """For sweeps whose subject is not how Ray starts or ends: to start it takes longer than they
    do."""
    return shared_ray()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel and nothing else of ours."""
    built = tmp_path_factory.mktemp("built")
    site = tmp_path_factory.mktemp("site").resolve()
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(built),
        str(PROJECT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.fixture(scope="session", autouse=True)
def _each_composition_once() -> Generator[None]:
    """Hydra takes 0.07 s for a row. The same files with the same options are composed once per
    process."""
    compose = Composer._compose
    composed = dict[Any, Tree]()

    def once(composer: Composer, options: tuple[str, ...]) -> Tree:
        files = sorted(
            file for folder in composer.folders.searched for file in folder.glob("**/*.yaml")
        )
        state = (
            composer.folders.searched,
            options,
            repr(composer.folders.source.task.base),
            *((file, file.stat().st_mtime_ns, file.stat().st_ino) for file in files),
        )
        if state not in composed:
            composed[state] = compose(composer, options)
        return composed[state]

    Composer._compose = once  # type: ignore[method-assign]
    yield
    Composer._compose = compose  # type: ignore[method-assign]
