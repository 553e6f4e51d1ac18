"""The wheel carries conf/ and works where nothing else of the project is."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel and nothing else of ours."""
    built, site = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(PROJECT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_plan_works_from_an_empty_folder(site: Path, tmp_path: Path) -> None:
    code = f"import sweeps.cli; assert sweeps.__file__.startswith({str(site)!r}), sweeps.__file__; sweeps.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 20
    assert list(tmp_path.iterdir()) == []


def test_it_holds_every_configuration_file_and_no_test(site: Path) -> None:
    shipped = {str(path.relative_to(PROJECT)) for path in (PROJECT / "conf").rglob("*.yaml")}
    found = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert shipped <= found
    assert not any(name.startswith("tests") for name in found)
