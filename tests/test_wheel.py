"""The wheel carries conf/ inside sweeps/ and works where nothing else of the project is."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from other_tasks import digits

from sweeps.verbs.command import PACKAGES_OF_RUN
from tracking.provenance import DISTRIBUTION, OUR_CODE

PROJECT = Path(__file__).resolve().parent.parent


def python(site: Path, folder: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Code run in a folder, where the unpacked wheel can be imported."""
    command = [sys.executable, "-c", code, *words]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    process = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process


def typed(site: Path, folder: Path, *words: str) -> str:
    """What `allelse …` of the unpacked wheel prints in a folder."""
    code = (
        f"import sweeps.cli; assert sweeps.__file__.startswith({str(site)!r}), "
        "sweeps.__file__; sweeps.cli.main()"
    )
    return python(site, folder, code, *words).stdout


def test_plan_works_from_an_empty_folder(site: Path, tmp_path: Path) -> None:
    assert len(json.loads(typed(site, tmp_path, "plan", "--json"))) == 20
    assert list(tmp_path.iterdir()) == []


def test_it_holds_every_file_that_is_no_code(site: Path) -> None:
    """Configuration, what the packages read such as templates, and the license."""
    folders = {PROJECT / name: site / name for name in OUR_CODE} | {
        PROJECT / "conf": site / "sweeps" / "conf"
    }
    for source, shipped in folders.items():
        expected_files = other_files(source)
        assert (
            {
                name: content
                for name, content in other_files(shipped).items()
                if name.parts[0] != "conf"
            }
            == expected_files
            != {}
        )
    (licensed,) = site.glob("*.dist-info/licenses/LICENSE")
    assert licensed.read_bytes() == (PROJECT / "LICENSE").read_bytes()


def other_files(folder: Path) -> dict[Path, bytes]:
    """Those of a folder that are no code, by their path in it."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    )
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_it_writes_a_task_to_start_from(site: Path, tmp_path: Path) -> None:
    typed(site, tmp_path, "init", "fresh")
    assert len(json.loads(typed(site, tmp_path, "plan", "task=fresh", "--json"))) == 4


def test_only_our_packages_stand_on_top_each_with_its_types(site: Path) -> None:
    """A package `conf` or `tests` in site-packages would collide with other projects."""
    packages = {"allelse", "sweeps", "tracking", "transformer"}
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == packages
    assert all((site / package / "py.typed").is_file() for package in packages)


READING = [
    ["status", "sweep.name=digits"],
    ["table", "sweep.name=digits"],
    ["report", "sweep.name=digits"],
    ["compare", "base-s1", "wide-s1", "sweep.name=digits"],
    ["plan", "scale=tiny"],
]
RUNNING = [
    ["sweep"],
    ["train"],
    ["ui"],
    ["sync"],
    ["evaluate", "base-s1"],
    ["translate", "base-s1"],
]
WITHOUT = """
import json, sys
packages, commands = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(packages))  # an import of None fails as one of a missing package does
from sweeps.cli import app
for words in commands:
    try:
        app(words)
    except SystemExit as ended:
        print("exit code", ended.code)
"""


def test_reading_needs_no_torch_or_ray_and_what_does_names_the_extra(
    site: Path, tmp_path: Path
) -> None:
    digits(tmp_path / "runs" / "digits", 0.5, 0.75, 0.875, 1.0)
    exit_codes, output = without(PACKAGES_OF_RUN, site, tmp_path, READING)
    assert exit_codes == [0] * len(READING), output
    assert (tmp_path / "runs" / "digits" / "report.html").is_file()
    exit_codes, output = without(PACKAGES_OF_RUN, site, tmp_path, RUNNING)
    assert exit_codes == [2] * len(RUNNING)
    assert output.count("allelse[run] is not installed: mlflow, pooch, ") == len(RUNNING)
    assert "type pip install 'allelse[run]'" in output


def test_the_extra_has_the_packages_that_are_looked_for() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    assert tuple(re.match(r"[\w-]+", package)[0] for package in extras["run"]) == PACKAGES_OF_RUN  # type: ignore[index]


def without(
    packages: tuple[str, ...], site: Path, folder: Path, commands: list[list[str]]
) -> tuple[list[int], str]:
    """The exit codes of the wheel's commands without these packages, and what they say on standard
    error."""
    process = python(site, folder, WITHOUT, json.dumps([packages, commands]))
    return [
        int(code) for code in re.findall(r"^exit code (\d+)$", process.stdout, re.MULTILINE)
    ], process.stderr


def test_the_version_is_that_of_the_distribution(site: Path, tmp_path: Path) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], DISTRIBUTION) == ("allelse", "allelse")
    assert f"\nversion: {project['version']}\n" in (PROJECT / "CITATION.cff").read_text("utf-8")
    assert typed(site, tmp_path, "--version") == f"allelse {project['version']}\n"
