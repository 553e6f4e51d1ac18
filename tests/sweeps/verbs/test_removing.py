"""`drop` and `rm` move to the trash what they name, after a preview, and all of it can be moved
back."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from allelse_in_folder import contents
from finished_trials import study_in, sweep
from typed import printed, refusal, typed

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.studies.trial_lock import trial_lock
from tracking.study import Study
from tracking.trial import TrialFolder

STUDY = "runs/synthetic-tiny"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of base and two rows with two seeds each, all finished; nothing is removed from
    it."""
    folder = tmp_path_factory.mktemp("whole").resolve()
    sweep(folder, "sweep.rows=[base,d_smoothing_0,big]", "sweep.seeds=[1,2]")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "own")


def names(study: Study) -> list[str]:
    return [trial.name for trial in study.trials]


def in_trash(folder: Path) -> list[str]:
    return sorted(
        f"{path.parent.name.partition('-')[2]}/{path.name}"
        for path in (folder / "runs/.trash").glob("*/*")
    )


def restored(folder: Path, output: str) -> None:
    """Type the command that the output names."""
    (line,) = [line for line in output.splitlines() if line.startswith("To restore: ")]
    program, *words = shlex.split(line.removeprefix("To restore: "))
    assert Path(program).name == "allelse"
    printed(folder, *words)


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / STUDY / "study.json").read_text("utf-8"))
    return content


def test_without_yes_only_a_preview_is_printed(whole: Path) -> None:
    files_before = contents(whole)
    for words in (["drop", "big"], ["rm", "synthetic-tiny"]):
        preview = printed(whole, *words)
        assert preview.startswith(f"Would move to the trash:\n  {STUDY}")
        assert preview.splitlines()[-1] == f"Next: {shlex.join(['allelse', *words, '--yes'])}"
        assert contents(whole) == files_before
    assert f"  {STUDY}/big-s1\n  {STUDY}/big-s2\n" in printed(whole, "drop", "big")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["big", "big-s1"], ["base-s1", "base-s2", "d_smoothing_0-s1", "d_smoothing_0-s2"]),
        (["big-s2", "base-s2"], ["base-s1", "d_smoothing_0-s1", "d_smoothing_0-s2", "big-s1"]),
        (["big", "d_smoothing_0", "base-s2"], ["base-s1"]),
    ],
)
def test_rows_and_trials_are_dropped_and_restored(
    folder: Path, words: list[str], left: list[str]
) -> None:
    record_before = (folder / STUDY / "study.json").read_text("utf-8")
    files = contents(folder / STUDY)
    output = printed(folder, "drop", *words, "--yes")
    study = study_in(folder)
    assert names(study) == left
    assert (
        {row["row"] for row in study.rows}
        == set(study.cells)
        == {trial.row for trial in study.trials}
    )
    assert set(study.seeds) == {trial.seed for trial in study.trials}
    assert study.asked[-1]["command"] == shlex.join(["allelse", "drop", *words, "--yes"])
    assert [
        line["row"] for line in json.loads(printed(folder, "table", "--format", "json"))
    ] == list(study.cells)
    assert len(json.loads(printed(folder, "status", "--json"))) == len(left)
    assert [line["name"] for line in json.loads(printed(folder, "studies", "--json"))] == [
        "synthetic-tiny"
    ]
    assert json.loads(printed(folder, "plan", "--json"))[0]["finished"]
    restored(folder, output)
    assert record(folder) == json.loads(record_before) | {"asked": record(folder)["asked"]}
    assert record(folder)["asked"][-1]["restored"]
    assert own_files(contents(folder / STUDY)) == own_files(files)
    assert in_trash(folder) == []


def own_files(files: list[str]) -> list[str]:
    """Without locks, and without results that are computed again from the trials."""
    return [path for path in files if not path.startswith((".locks", ".computed", ".sync.lock"))]


def test_a_dropped_row_can_be_added_again(folder: Path) -> None:
    printed(folder, "drop", "big", "--yes")
    assert "to add: allelse sweep" in refusal(folder, "sweep", "sweep.rows=[big]")
    sweep_plan = sweep(folder, "sweep.rows=[big]", "sweep.seeds=[1,2]", add=True)
    assert sweep_plan.added == ("big-s1", "big-s2")
    assert "big-s1" in names(study_in(folder))
    printed(folder, "drop", "big", "--yes")
    assert in_trash(folder).count("synthetic-tiny/big-s1") == 2
    next((folder / "runs/.trash").glob("*/big-s1")).rename(folder / STUDY / "big-s1")
    # added without training
    assert plan_sweep(["sweep.rows=[big]"], True, here=folder).trials[0].finished


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (["base"], ["is base, which d_smoothing_0, big are compared with"]),
        (
            ["base", "big", "d_smoothing_0"],
            ["names every trial of synthetic-tiny", "`allelse rm synthetic-tiny` removes it"],
        ),
        (["bgi"], ['is "bgi"', "did you mean big?"]),
        (["big-s3", "c_layers_2"], ['is "big-s3"', 'is "c_layers_2"', "for 2 reasons"]),
        (["../base-s1"], ['is "../base-s1"']),
        (["decode.beam=2"], ["ROW is missing"]),
        (["big", "sweep.name=other"], ['sweep.name is "other"']),
    ],
)
def test_what_cannot_be_dropped_is_refused(
    whole: Path, words: list[str], reasons: list[str]
) -> None:
    files_before = contents(whole)
    for options in ([], ["--yes"]):
        message = refusal(whole, "drop", *words, *options)
        assert all(reason in message for reason in reasons), message
    assert contents(whole) == files_before


def test_a_study_whose_trials_wait_without_folders_is_neither_removed_nor_renamed(
    folder: Path,
) -> None:
    """A sweep holds its pending trials from its first moment, before any of them has a folder."""
    study = study_in(folder)
    waiting = study.trial_folder(study.trials[-1])
    shutil.rmtree(waiting.path)
    with trial_lock(waiting):
        for words in (["rm", "synthetic-tiny", "--yes"], ["rename", "synthetic-tiny", "new"]):
            assert "big-s2 is being run by another process" in refusal(folder, *words)
    assert names(study_in(folder)) == names(study)


def test_a_running_trial_is_neither_dropped_nor_removed(folder: Path) -> None:
    study = study_in(folder)
    with trial_lock(study.trial_folder(study.trials[-1])):
        files_before = own_files(contents(folder / STUDY))
        for words in (["drop", "big", "--yes"], ["rm", "synthetic-tiny", "--yes"]):
            assert "big-s2 is being run by another process" in refusal(folder, *words)
        assert own_files(contents(folder / STUDY)) == files_before
        printed(folder, "drop", "big-s1", "--yes")
    assert "big-s2" in names(study_in(folder))


def test_of_several_studies_one_must_be_named(folder: Path) -> None:
    sweep(folder, "sweep.name=other", "sweep.rows=[base,big]")
    message = refusal(folder, "drop", "big")
    assert "sweep.name is missing" in message
    assert "must be one of other, synthetic-tiny" in message
    printed(folder, "drop", "big", "sweep.name=other", "--yes")
    assert (names(study_in(folder, "other")), len(study_in(folder).trials)) == (["base-s1"], 6)


@pytest.mark.parametrize("name", ["synthetic-tiny", f"./{STUDY}/"])
def test_a_study_is_removed_and_restored(folder: Path, name: str) -> None:
    files_before = contents(folder / STUDY)
    output = printed(folder, "rm", name, "--yes")
    assert not (folder / STUDY).exists()
    assert "No study in " in printed(folder, "studies")
    restored(folder, output)
    assert set(files_before) <= set(contents(folder / STUDY))
    assert "big" in printed(folder, "table")


def test_a_study_with_a_long_name_is_removed(folder: Path) -> None:
    (folder / STUDY).rename(folder / "runs" / ("n" * 238))
    printed(folder, "rm", "n" * 238, "--yes")
    assert not (folder / "runs" / ("n" * 238)).exists()


def test_restoring_keeps_what_was_added_meanwhile(folder: Path) -> None:
    printed(folder, "drop", "big", "--yes")
    sweep(folder, "sweep.rows=[c_layers_2]", "sweep.seeds=[1,2]", add=True)
    assert "big-s1, big-s2" in printed(folder, "restore")
    printed(folder, "restore", "big-s2")
    printed(folder, "restore", "synthetic-tiny/big")
    rows = {trial.row for trial in study_in(folder).trials}
    assert rows == {"base", "c_layers_2", "d_smoothing_0", "big"}
    assert json.loads(printed(folder, "plan", "--json"))[-1]["finished"]
    assert [
        line["row"] for line in json.loads(printed(folder, "table", "--format", "json"))
    ] == list(record(folder)["cells"])
    assert printed(folder, "restore") == "The trash is empty.\n"


def test_nothing_is_restored_over_anything(folder: Path) -> None:
    printed(folder, "drop", "big", "--yes")
    sweep(folder, "sweep.rows=[big]", "sweep.seeds=[1]", add=True)
    files_before = contents(folder)
    assert "big-s1 is a trial of synthetic-tiny again drop that one first" in refusal(
        folder, "restore", "big"
    )
    assert 'NAME is "bgi", which is not in the trash' in refusal(folder, "restore", "bgi")
    assert contents(folder) == files_before
    printed(folder, "restore", "big-s2")
    printed(folder, "drop", "big-s1", "--yes")
    message = refusal(folder, "restore", "big-s1")
    assert "which the trash has 2 times must be one of" in message
    printed(folder, "restore", message.split("must be one of ")[1].split()[0].rstrip(","))
    printed(folder, "rm", "synthetic-tiny", "--yes")
    sweep(folder, "sweep.rows=[base]")
    assert "`allelse rename synthetic-tiny NEW`" in refusal(folder, "restore", "synthetic-tiny")
    assert "belongs to the study synthetic-tiny, which is not in" in refusal(
        folder, "restore", "big-s1"
    )


def test_a_refusal_does_not_deny_what_was_restored_before(folder: Path) -> None:
    printed(folder, "drop", "big", "--yes")
    printed(folder, "drop", "d_smoothing_0", "--yes")
    sweep(folder, "sweep.rows=[big]", "sweep.seeds=[1]", add=True)
    outcome = typed(folder, "restore", "d_smoothing_0", "big")
    assert outcome.stdout.startswith("Restored d_smoothing_0-s1, d_smoothing_0-s2")
    assert "big-s1 is a trial of synthetic-tiny again" in outcome.stderr
    assert outcome.stderr.rstrip().endswith("Nothing else was restored.")
    assert "d_smoothing_0-s1" in names(study_in(folder))


def test_a_running_trial_of_another_process_keeps_its_folder(folder: Path) -> None:
    printed(folder, "drop", "big-s2", "--yes")
    study = study_in(folder)
    with trial_lock(TrialFolder(study.folder / "big-s2", study.task)):
        assert "big-s2 is being run by another process" in refusal(folder, "restore", "big-s2")
    assert in_trash(folder) == [
        "synthetic-tiny/big-s2",
        "synthetic-tiny/dropped.json",
        "synthetic-tiny/study.json",
    ]
    printed(folder, "restore", "big-s2")


def test_a_study_in_a_renamed_folder_returns_under_the_folders_name(folder: Path) -> None:
    (folder / STUDY).rename(folder / "runs/mine")
    output = printed(folder, "rm", "mine", "--yes")
    assert not (folder / "runs/mine").exists()
    restored(folder, output)
    assert (folder / "runs/mine/study.json").is_file()
    assert not (folder / STUDY).exists()
