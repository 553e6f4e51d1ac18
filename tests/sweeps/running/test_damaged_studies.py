"""Every verb on a study with a damaged file: it names the file, prints no traceback, and runs the
other trial."""

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from allelse_in_folder import contents, plan
from rich.console import Console
from small_text import TEXT
from studies import SMALL
from typed import refusal, typed
from typer.testing import Result

from sweeps.running.opening import repair

Damage = Callable[[Path], None]
SHORT = [*SMALL, *TEXT, "sweep.name=synthetic-tiny", "train.steps=20", "train.checkpoint_every=10"]
BOTH = [*SHORT, "sweep.rows=[base,e_learned_positions]"]
# by `status`
LOOKED_AT = ("result.json", "config.yaml", "provenance.json", "attempts.jsonl", "journal.jsonl")


def cut(path: Path) -> None:
    """As after a full disk or an interrupted copy."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00{]garbage\n" * 3)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def looped(path: Path) -> None:
    """A symbolic link to itself, which the system refuses to read."""
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def broken_disk(path: Path) -> None:
    """The file exists, but every read fails with EIO, as on a faulty disk or server."""
    path.unlink(missing_ok=True)
    path.symlink_to("/proc/self/mem")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]) -> Path:
    """A folder with a study of two trained trials."""
    cwd = furnish(tmp_path_factory.mktemp("trained").resolve())
    for row in ("base", "e_learned_positions"):
        calm(typed(cwd, "train", *SHORT, f"row={row}", "--add"))
    return cwd


@pytest.fixture
def cwd(trained: Path, tmp_path: Path) -> Path:
    """A copy, whose base the tests damage."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def base(cwd: Path) -> Path:
    return cwd / "runs" / "synthetic-tiny" / "base-s1"


def calm(outcome: Result) -> Result:
    """A verb that ended without a traceback."""
    assert isinstance(outcome.exception, SystemExit | None), outcome.exception
    assert outcome.exit_code == 0, outcome.output
    return outcome


@pytest.mark.parametrize(
    ("name", "damage"), [*((name, garbage) for name in LOOKED_AT), ("journal.jsonl", folder)]
)
def test_status_table_and_plan_name_a_trials_damaged_file(
    cwd: Path, name: str, damage: Damage
) -> None:
    damage(base(cwd) / name)
    first, second = json.loads(calm(typed(cwd, "status", "--json")).stdout)
    assert name in first["note"]
    assert (second["state"], second["note"]) == ("finished", "")
    state = "damaged" if name == "result.json" else "finished"
    assert first["state"] == state
    rows = json.loads(calm(typed(cwd, "table", "--format", "json")).stdout)
    assert [row["seeds"] for row in rows] == [int(state == "finished"), 1]
    planned = json.loads(calm(typed(cwd, "plan", *BOTH, "--json")).stdout)
    assert [trial["finished"] for trial in planned] == [state == "finished", True]


def test_a_damaged_study_is_refused_by_name(cwd: Path) -> None:
    garbage(base(cwd).parent / "study.json")
    for verb in (["status"], ["sweep", *BOTH], ["translate", "base-s1"]):
        assert "study.json: not a study" in refusal(cwd, *verb)


def test_an_unconfirmed_configuration_is_refused(cwd: Path) -> None:
    """Another trial may have been trained there."""
    (base(cwd).parent / "study.json").unlink()
    (base(cwd) / "result.json").unlink()
    garbage(base(cwd) / "config.yaml")
    assert "config.yaml" in refusal(cwd, "sweep", *BOTH)
    garbage(base(cwd) / "result.json")
    assert "config.yaml" in refusal(cwd, "sweep", *BOTH)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, looped) for name in (*LOOKED_AT, "error.txt", "statistics/dev.jsonl")),
        ("result.json", broken_disk),
    ],
)
def test_an_unreadable_file_of_a_trial_is_named_and_left_alone(
    cwd: Path, name: str, fault: Damage
) -> None:
    path = base(cwd) / name
    fault(path)
    files_before = contents(base(cwd))
    first, second = json.loads(calm(typed(cwd, "status", "--json")).stdout)
    assert (f"{path.name} cannot be read: " in first["note"]) == (name != "statistics/dev.jsonl")
    assert (second["state"], second["note"]) == ("finished", "")
    repair(plan(cwd, *BOTH), Console(file=StringIO()))
    if name == "result.json":  # the only trial that could run
        for verb in (["sweep", *BOTH], ["train", *SHORT]):
            assert f"result.json {path}: cannot be read: " in refusal(cwd, *verb)
    assert contents(base(cwd)) == files_before


@pytest.mark.parametrize(("name", "damage"), [("result.json", folder), ("config.yaml", cut)])
def test_a_model_whose_files_are_damaged_is_refused_by_name(
    cwd: Path, name: str, damage: Damage
) -> None:
    damage(base(cwd) / name)
    for verb in (["evaluate"], ["translate"], ["export", "--to", "safetensors"]):
        message = refusal(cwd, *verb, "base-s1")
        assert f"base-s1/{name}" in message
        assert "`allelse sweep`" in message
    joint_message = refusal(cwd, "evaluate", "base-s1", "nobody-s1")
    assert name in joint_message
    assert "nobody-s1" in joint_message


def test_damaged_statistics_are_computed_again(cwd: Path) -> None:
    path = base(cwd) / "statistics" / "dev.jsonl"
    statistics = path.read_text()
    garbage(path)
    outcome = calm(typed(cwd, "evaluate", "base-s1", "e_learned_positions-s1", "--json"))
    assert [line["decoded"] for line in json.loads(outcome.stdout)] == [True, False, False, False]
    assert path.read_text().splitlines()[1:] == statistics.splitlines()[1:]
    assert path.with_name("dev.jsonl.damaged").exists()


def test_no_damaged_file_of_a_trial_stops_it_and_its_result_is_written_again(trained: Path) -> None:
    path = base(trained) / "result.json"
    provenance = base(trained) / "provenance.json"
    result_before = json.loads(path.read_text())
    cut(path)
    for name in ("journal.jsonl", "attempts.jsonl"):
        garbage(path.with_name(name))
    provenance.write_bytes(b"nonsense\n" + provenance.read_bytes()[:40])
    path.with_name("error.txt").mkdir()
    output = " ".join(calm(typed(trained, "train", *SHORT)).stdout.split())
    assert "result.json:1 is damaged" in output
    assert "resumes from its last checkpoint" in output
    for name in ("result.json", "provenance.json", "error.txt"):
        assert f"{name}.damaged" in output
        assert path.with_name(f"{name}.damaged").exists()
    result_after = json.loads(path.read_text())
    assert [result_after[name] for name in ("key", "step", "scores")] == [
        result_before[name] for name in ("key", "step", "scores")
    ]
    assert result_after["attempt"] > result_before["attempt"], "no number is used twice"
    assert json.loads(provenance.read_text())["data_identity"]
    calm(typed(trained, "sync", "sweep.name=synthetic-tiny"))  # its journal is another one
    assert "MLflow: up to date" in calm(typed(trained, "status")).stdout
