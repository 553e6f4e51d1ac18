"""Where figures come from: no attempt's record is replaced, git and packages are the trial's, secrets stay out."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from place import FILES, STUDY, TOY, Place

SECRET, OF_ENVIRONMENT = "hunter2-pa55word", "en-vir0nment-t0ken"


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


def test_a_further_attempt_hides_neither_the_machine_nor_the_mark_of_the_one_before(place: Place) -> None:
    place.write({"stops": ""})
    assert place.type("train", "task=toy", STUDY).returncode == 1
    edited(place.study / "base-s1" / "provenance.json", on_intel)
    place.train("base")
    place.train("size_2", "--add")
    assert "Intel of another time" in place.table()
    assert "CPU" in place.must("compare", "base", "size_2", STUDY)


def test_scoring_again_leaves_where_the_weights_come_from_and_tells_other_packages(place: Place) -> None:
    place.write({"parts/one.py": "import numpy\n\ndef one():\n    return float(numpy.float64(1))\n"})
    place.train("base")
    file = place.study / "base-s1" / "provenance.json"
    edited(file, on_intel)
    edited(file, with_older_packages)
    place.train("base", "train.cut=0.6")
    content = json.loads(file.read_text())
    assert content["cpu"]["model"] == "Intel of another time"
    assert [each["versions"]["numpy"] == "1.0" for each in content["scorings"]] == [True, False]
    place.train("size_2", "--add")
    assert "numpy" in place.table()


def test_commit_branch_and_diff_are_those_of_the_folder_of_the_task(place: Place) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(place.folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    head, *declared, work = TOY.replace("\n\n\ndef work", "\n\n\n@dataclass\ndef work").split("@dataclass")
    assert declared
    place.write({"../elsewhere/shapes.py": head + "@dataclass".join(["", *declared])})  # as a library may have it
    place.write({"toy.py": f"{head}from shapes import Config\n\n\n{work.removeprefix(chr(10))}"})
    place.environment["PYTHONPATH"] = str(place.folder.parent / "elsewhere")
    git("init", "--initial-branch", "mine")
    git("add", "toy.py", "parts", "conf")
    git("commit", "-m", "first")
    with (place.folder / "toy.py").open("a") as file:
        file.write(f'HF_TOKEN = "{SECRET}"\n')
    place.train("base")
    content = json.loads((place.study / "base-s1" / "provenance.json").read_text())
    assert (content["commit"], content["branch"], content["changes"]) == (git("rev-parse", "HEAD"), "mine", ["toy.py"])
    diff = (place.study / content["diff"]).read_text()
    assert "+HF_TOKEN = " in diff
    assert SECRET not in diff


def test_of_a_typed_secret_nothing_is_shown(place: Place) -> None:
    base = "conf/task/toy/base.yaml"
    place.write({"toy.py": TOY.replace("    cut:", "    api_key: Annotated[str, Observes()]\n    cut:")})
    place.write({base: FILES[base].replace("{steps", "{api_key: none, steps")})
    word = f"train.api_key='{SECRET} of mine'"
    place.train("base", word)
    holders = {each.name for each in place.folder.rglob("*") if each.is_file() and b"of mine" in each.read_bytes()}
    assert holders == {"config.yaml", "study.json"}  # trials go on with these
    assert "of mine" not in json.loads((place.study / "study.json").read_text())["asked"][0]["command"]
    assert "of mine" not in place.must("config", "task=toy", word)


def test_secrets_reach_no_record(place: Place) -> None:
    place.environment["SOME_API_KEY"] = OF_ENVIRONMENT
    fails = f"login failed: password={SECRET}, {{SOME_API_KEY}}, train.tokens_per_batch=4000"
    place.write({"fails": fails})
    said = place.type("train", "task=toy", STUDY, f"paths.data='{place.folder}/x?secret={SECRET}'")
    assert said.returncode == 1
    error = (place.study / "base-s1" / "error.txt").read_text()
    assert "tokens_per_batch=4000" in error
    for path in (path for path in (place.folder / "runs").rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert SECRET.encode() not in content, path
        assert OF_ENVIRONMENT.encode() not in content, path
