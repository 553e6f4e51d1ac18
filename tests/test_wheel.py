"""The wheel carries conf/ inside sweeps/ and works where nothing else of the project is."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from sweeps.config.folders import shipped_folder
from tracking.provenance import DISTRIBUTION

PROJECT = Path(__file__).resolve().parent.parent


def typed(site: Path, folder: Path, *words: str) -> str:
    """What `allelse …` of the unpacked wheel prints in a folder."""
    code = f"import sweeps.cli; assert sweeps.__file__.startswith({str(site)!r}), sweeps.__file__; sweeps.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plan_works_from_an_empty_folder(site: Path, tmp_path: Path) -> None:
    assert len(json.loads(typed(site, tmp_path, "plan", "--json"))) == 20
    assert list(tmp_path.iterdir()) == []


def test_a_task_of_ones_own_is_planned_by_it(site: Path, tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "examples" / "digits", tmp_path, dirs_exist_ok=True)
    planned = json.loads(typed(site, tmp_path, "plan", "task=digits", "--json"))
    assert [(trial["row"], trial["params"]) for trial in planned][:2] == [("base", 2474), ("narrow", 626)]
    assert (site / "sweeps" / "task.py").is_file()
    assert (site / "sweeps" / "conf" / "shared" / "sweep" / "all.yaml").is_file()


def test_it_holds_every_configuration_file(site: Path) -> None:
    shipped = {f"sweeps/{path.relative_to(PROJECT)}" for path in (PROJECT / "conf").rglob("*.yaml")}
    found = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert len(shipped) > 30
    assert shipped <= found


def test_it_holds_the_templates_of_the_report(site: Path) -> None:
    shipped, own = (folder / "tracking" / "report" / "templates" for folder in (site, PROJECT))
    held = {path.name: path.read_bytes() for path in own.iterdir()}
    assert {path.name: path.read_bytes() for path in shipped.iterdir()} == held
    assert "page.html" in held


def test_it_writes_a_task_to_start_from(site: Path, tmp_path: Path) -> None:
    typed(site, tmp_path, "init", "fresh")
    assert len(json.loads(typed(site, tmp_path, "plan", "task=fresh", "--json"))) == 3


def test_only_our_packages_stand_on_top_each_with_its_types(site: Path) -> None:
    """A package `conf` or `tests` in site-packages would collide with other projects."""
    packages = {"allelse", "sweeps", "tracking", "transformer"}
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == packages
    assert all((site / package / "py.typed").is_file() for package in packages)


def test_a_checkout_reads_its_top_level_conf() -> None:
    assert shipped_folder(PROJECT / "sweeps") == PROJECT / "conf"


def test_the_version_is_that_of_the_distribution(site: Path, tmp_path: Path) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], DISTRIBUTION) == ("allelse", "allelse")
    assert typed(site, tmp_path, "--version") == f"allelse {project['version']}\n"


def test_the_license_goes_with_it(site: Path) -> None:
    (licensed,) = site.glob("*.dist-info/licenses/LICENSE")
    assert licensed.read_bytes() == (PROJECT / "LICENSE").read_bytes()
