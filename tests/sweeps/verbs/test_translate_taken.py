"""A translation model that a second study has taken from the first, which is then removed."""

import json
import shutil
from pathlib import Path

from typed import printed, typed

SECOND = "sweep.name=second"


def same_settings(study: Path) -> list[str]:
    """The overrides that compose the study again."""
    choices = json.loads((study / "study.json").read_text("utf-8"))["chosen"]
    values = [f"{key}={json.dumps(value)}" for key, value in choices["values"].items()]
    return ["data=files", *values, "sweep.rows=[base]", "sweep.seeds=[1]"]


def copy_with_this_study(trained: Path, folder: Path) -> Path:
    """Without studies of tests before this one, from which a trial could be taken, too."""
    shutil.copytree(trained, folder)
    for study_file in folder.glob("runs/*/study.json"):
        if study_file.parent.name != "copies":
            shutil.rmtree(study_file.parent)
    return folder


def translations(folder: Path, trial: str) -> bytes:
    outcome = typed(
        folder,
        "translate",
        trial,
        "--input",
        "dev.txt",
        "--output",
        f"{trial.replace('/', '-')}.txt",
    )
    assert outcome.exit_code == 0, outcome.output
    return (folder / f"{trial.replace('/', '-')}.txt").read_bytes()


def test_a_taken_model_translates_as_before_without_its_source(
    trained: Path, tmp_path: Path
) -> None:
    folder = copy_with_this_study(trained, tmp_path / "copy")
    expected = translations(folder, "copies/base-s1")
    words = [SECOND, *same_settings(folder / "runs" / "copies")]
    plan = " ".join(printed(folder, "plan", *words).split())
    assert "taken from copies" in plan
    assert "0 of 1 trials, 1 taken" in plan
    path = folder / "runs/copies/base-s1/provenance.json"
    recorded = path.read_text("utf-8")
    path.write_text(recorded.replace('"own_files"', '"unknown"'), "utf-8")
    assert "base-s1 (other code trained it)" in " ".join(printed(folder, "plan", *words).split())
    path.write_text(recorded, "utf-8")
    assert "Taken from copies, not trained: base-s1" in printed(folder, "sweep", *words)
    table = printed(folder, "table", SECOND, "--format", "csv")
    printed(folder, "rm", "copies", "--yes")
    shutil.rmtree(folder / "runs" / ".trash")
    assert translations(folder, "second/base-s1") == expected
    assert printed(folder, "table", SECOND, "--format", "csv") == table
    lines = (folder / "runs" / "second" / "base-s1" / "log.txt").read_text("utf-8").splitlines()
    assert [line.partition(",")[0] for line in lines if "attempt" in line] == ["--- attempt 1"]
