"""Where figures come from: no attempt's record is replaced, git and packages are the trial's,
secrets stay out."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from place import STUDY, TOY, Place

SECRET = "hunter2-pa55word"
OF_ENVIRONMENT = "en-vir0nment-t0ken"


def edited(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The JSON file after ``change``: at its top, and in each record within it."""
    content = json.loads(file.read_text())
    for record in (content, *content.get("attempts", ()), *content.get("scorings", ())):
        change(record)
    file.write_text(json.dumps(content))


def on_intel(record: dict[str, Any]) -> None:
    if "cpu" in record:
        record["cpu"] = {"model": "Intel of another time", "count": 1}


def with_older_packages(record: dict[str, Any]) -> None:
    if record.get("versions"):
        record["versions"]["numpy"] = "1.0"


def test_no_further_attempt_or_scoring_hides_machine_and_packages_of_the_one_before(
    place: Place,
) -> None:
    """Base stops after two steps, goes on, and is scored again, each time with something else."""
    place.write(
        {
            "parts/one.py": "import numpy\n\ndef one():\n    return float(numpy.float64(1))\n",
            "stops": "",
        }
    )
    file = place.study / "base-s1" / "provenance.json"
    assert place.type("train", "task=toy", STUDY).returncode == 1
    edited(file, on_intel)
    place.train("base")
    assert json.loads(file.read_text())["attempts"][0]["cpu"]["model"] == "Intel of another time"
    edited(file, on_intel)
    edited(file, with_older_packages)
    place.train("base", "train.cut=0.6")
    content = json.loads(file.read_text())
    assert content["cpu"]["model"] == "Intel of another time"
    assert [scoring["versions"]["numpy"] == "1.0" for scoring in content["scorings"]] == [
        True,
        False,
    ]
    place.train("size_2", "--add")
    table = place.table()
    assert all(words in table for words in ("Intel of another time", "numpy"))
    assert "CPU" in place.must("compare", "base", "size_2", STUDY)


def test_commit_branch_and_diff_are_those_of_the_folder_of_the_task(place: Place) -> None:
    def git(*words: str) -> str:
        command = [
            "git",
            "-C",
            str(place.folder),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            *words,
        ]
        environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment
        ).stdout.strip()

    head, *declared, work = TOY.replace("\n\n\ndef work", "\n\n\n@dataclass\ndef work").split(
        "@dataclass"
    )
    assert declared
    # as a library may have it
    place.write({"../elsewhere/shapes.py": head + "@dataclass".join(["", *declared])})
    place.write({"toy.py": f"{head}from shapes import Config\n\n\n{work.removeprefix(chr(10))}"})
    place.environment["PYTHONPATH"] = str(place.folder.parent / "elsewhere")
    git("init", "--initial-branch", "mine")
    git("add", "toy.py", "parts", "conf")
    git("commit", "-m", "first")
    with (place.folder / "toy.py").open("a") as file:
        file.write(f'HF_TOKEN = "{SECRET}"\n')
    place.train("base")
    content = json.loads((place.study / "base-s1" / "provenance.json").read_text())
    assert (content["commit"], content["branch"], content["changes"]) == (
        git("rev-parse", "HEAD"),
        "mine",
        ["toy.py"],
    )
    diff = (place.study / content["diff"]).read_text()
    assert "+HF_TOKEN = " in diff
    assert SECRET not in diff


def test_secrets_reach_no_record(place: Place) -> None:
    """What was typed stands where trials read it, and nowhere else."""
    place.environment["SOME_API_KEY"] = OF_ENVIRONMENT
    fails = f"login failed: password={SECRET}, {{SOME_API_KEY}}, train.tokens_per_batch=4000"
    place.write({"fails": fails})
    words = ("task=toy", "train.api_key='a word of mine'")
    assert (
        place.type(
            "train", STUDY, *words, f"paths.data='{place.folder}/x?secret={SECRET}'"
        ).returncode
        == 1
    )
    error = (place.study / "base-s1" / "error.txt").read_text()
    assert "tokens_per_batch=4000" in error
    paths = [
        path
        for path in (place.folder / "runs").rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    content = {path: path.read_bytes() for path in paths}
    for secret in (SECRET, OF_ENVIRONMENT):
        assert [path for path, text in content.items() if secret.encode() in text] == []
    assert {path.name for path, text in content.items() if b"of mine" in text} == {
        "config.yaml",
        "study.json",
    }
    assert (
        "of mine" not in json.loads((place.study / "study.json").read_text())["asked"][0]["command"]
    )
    assert "of mine" not in place.must("config", *words)


READING = """import os


def one():
    value = float(os.environ.get("TOY_SCALE", "1"))
    if "TOY_TOKEN" in os.environ:
        value *= len(os.environ["TOY_TOKEN"])
    return value
"""
NAMED = "environment variable TOY_"


def test_an_environment_variable_that_the_code_names_is_compared(place: Place) -> None:
    """Also one that is not set. What is secret shows as a hash alone."""
    place.write({"parts/one.py": READING})
    place.train("base")
    place.environment["TOY_UNNAMED"] = "1"
    place.train("size_2", "--add")
    assert NAMED not in place.table("md")
    place.environment |= {"TOY_SCALE": "3", "TOY_TOKEN": SECRET}
    place.train("size_3", "--add")
    table = place.table("md")
    assert f"{NAMED}SCALE 3, not unset: size_3" in table
    assert f"{NAMED}TOKEN *** (" in table
    assert SECRET not in table
    record = json.loads((place.study / "base-s1" / "provenance.json").read_text())["attempts"][0]
    assert record["environment"] == {"TOY_SCALE": None, "TOY_TOKEN": None}
    files = [path for path in place.study.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_attempts_of_one_trial_are_compared_too(place: Place) -> None:
    place.write({"parts/one.py": READING, "stops": ""})
    assert place.type("train", "task=toy", STUDY).returncode == 1
    place.environment["TOY_SCALE"] = "3"
    place.train("base")
    assert f"{NAMED}SCALE unset, then 3" in place.table("md")
