"""The order of the test files, and the wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Ray come first, then those that train: the last long file to start keeps one process waiting."""
    ray, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("ray", "slow"))
    items.sort(key=lambda item: (item.path not in ray, item.path not in slow))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel and nothing else of ours."""
    built, site = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("site").resolve()
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(PROJECT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site
