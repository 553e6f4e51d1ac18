"""A study that is published: what it shows, what it leaves out, and that reading leaves it
alone."""

import gzip
import hashlib
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import sentence_studies
from served_commands import PROGRAM
from typed import typed

from allelse import load
from tracking.published_study import is_published
from tracking.study import Study, read_study, write_study
from tracking.study_lock import lock_of, write_lock

ROOT = Path(__file__).resolve().parents[2]
ONLY_PUBLISH = "is published, and only `allelse publish` changes it"
ROWS = {"base": 0.9, "close": 0.85, "far": 0.4}
NAME = "sweep.name=reading"
PUBLISHED = ("paths.runs=studies", NAME)
OUTPUTS = [f"output of sample {number}" for number in range(1, sentence_studies.SAMPLES + 1)]


def answer(folder: Path, *words: str) -> str:
    """What a command prints."""
    outcome = typed(folder, *words)
    assert outcome.exit_code == 0, outcome.output
    return str(outcome.stdout)


def digests(folder: Path) -> dict[str, str]:
    """Of each file and folder below, also hidden ones."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in folder.rglob("*")
    }


def all_text(folder: Path) -> str:
    """Of all files, unzipped."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    contents = [
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in files
    ]
    return b"\n".join(contents).decode()


def _without_texts(output: str) -> str:
    """What a command shows without outputs, of which a published study has few, and without the
    study's folder."""
    lines = [line for line in output.splitlines() if "output of sample" not in line]
    return re.sub(r"\{\s*\}", "{}", "\n".join(lines)).replace("studies/reading", "runs/reading")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Three rows with three seeds, whose trials have outputs."""
    draft = sentence_studies.make(tmp_path / "runs" / "reading", ROWS, (1, 2, 3))
    write_study(
        replace(draft, task=replace(draft.task, artifacts=("outputs",)), identity="1f" * 16)
    )
    study = read_study(draft.folder)
    for trial in study.trials:
        study.trial_folder(trial).write_artifact(
            "outputs/dev.txt", "".join(f"{line}\n" for line in OUTPUTS)
        )
    return study


def test_a_published_study_shows_what_the_study_shows_to_the_last_digit(
    tmp_path: Path, study: Study
) -> None:
    answer(tmp_path, "publish", NAME)
    for words in (
        ("table", "--format", "json"),
        ("table", "--format", "csv"),
        ("table", "--format", "md", "--intervals"),
        ("compare", "base", "far", "--json"),
        ("status", "--json"),
    ):
        ours, theirs = (
            _without_texts(answer(tmp_path, words[0], *selection, *words[1:]))
            for selection in ((NAME,), PUBLISHED)
        )
        assert ours == theirs, words
    plain = load(tmp_path / "runs" / "reading")
    published = load(tmp_path / "studies" / "reading")
    for name in ("trials", "scores", "curves"):
        assert getattr(plain, name).equals(getattr(published, name)), name
    assert (tmp_path / "studies/reading/base-s1/statistics/dev.jsonl.gz").exists()


def test_publishing_again_changes_nothing_and_adds_later_trials(
    tmp_path: Path, study: Study
) -> None:
    later = study.trial_folder(study.trials[-1]).path
    waiting = tmp_path / "waiting"
    later.rename(waiting)
    answer(tmp_path, "publish", NAME)
    first = digests(tmp_path / "studies")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "studies").rglob("*.gz")}
    assert "8 of 9 trials are finished, 0 new or changed" in answer(tmp_path, "publish", NAME)
    assert digests(tmp_path / "studies") == first
    waiting.rename(later)
    assert "9 of 9 trials are finished, 1 new or changed" in answer(tmp_path, "publish", NAME)
    trials = {
        name: digest for name, digest in digests(tmp_path / "studies").items() if "-s" in name
    }
    assert {name: digest for name, digest in trials.items() if name in first} == {
        name: digest for name, digest in first.items() if "-s" in name
    }
    assert {name.split("/")[1] for name in trials if name not in first} == {"far-s3"}
    assert all(path.stat().st_mtime_ns == old_time for path, old_time in times.items())


def test_a_published_study_goes_back_to_runs_and_is_published_from_there(
    tmp_path: Path, study: Study
) -> None:
    answer(tmp_path, "publish", NAME)
    first = digests(tmp_path / "studies")
    shutil.rmtree(study.folder)
    shutil.copytree(tmp_path / "studies" / "reading", study.folder)
    answer(tmp_path, "publish", NAME)
    assert digests(tmp_path / "studies") == first
    (study.folder / "base-s1" / "journal.jsonl").touch()  # as if a trial went on
    assert not is_published(study.folder)


def test_it_has_ten_lines_of_each_output_and_no_other_text(tmp_path: Path, study: Study) -> None:
    answer(tmp_path, "publish", NAME)
    text = all_text(tmp_path / "studies")
    numbers = {int(number) for number in re.findall(r"output of sample (\d+)", text)}
    assert numbers == {1, 5, 9, 13, 17, 21, 25, 29, 33, 37}
    assert all_text(study.folder).count(f"{OUTPUTS[1]}\n") == len(study.trials), (
        "the study has all of them"
    )


def test_no_test_is_published_before_all_locked_trials_are_there(
    tmp_path: Path, study: Study
) -> None:
    write_lock(study.folder, lock_of(study, (), {"dev": ["accuracy"]}))
    answer(tmp_path, "publish", NAME)
    published = tmp_path / "studies" / "reading"
    assert "t-test" in (published / "table.md").read_text(), "rows of three seeds are tested"
    shutil.rmtree(published)
    shutil.rmtree(study.trial_folder(study.trials[-1]).path)  # the last seed of far
    assert "t-test" in answer(tmp_path, "table", NAME, "--format", "md"), (
        "close still has three seeds"
    )
    answer(tmp_path, "publish", NAME)
    for name in ("table.md", "table.tex", "report.html"):
        text = (published / name).read_text()
        assert "t-test" not in text, name
        assert "1 of 9 locked trials is missing (far-s3)" in text, name
    figures = sorted(published.glob("*.svg"))
    assert figures
    assert all(
        "1 of 9 trials is missing: no test is published yet." in path.read_text()
        for path in figures
    )


def test_no_verb_writes_into_a_published_study(tmp_path: Path, study: Study) -> None:
    answer(tmp_path, "publish", NAME)
    old_digests = digests(tmp_path / "studies")
    for words in (
        ("status",),
        ("status", "--curves"),
        ("table",),
        ("report", "--output", str(tmp_path / "page.html"), "--figures", str(tmp_path / "figures")),
        ("compare", "base-s1", "far-s1"),
        ("logs", "base-s1"),
    ):
        answer(tmp_path, words[0], *PUBLISHED, *words[1:])
    answer(tmp_path, "studies", "paths.runs=studies")
    load(tmp_path / "studies" / "reading")
    for changing in (
        ("drop", *PUBLISHED, "base"),
        ("rm", "paths.runs=studies", "reading", "--yes"),
        ("rename", "paths.runs=studies", "reading", "other"),
    ):
        refused = typed(tmp_path, *changing)
        assert refused.exit_code == 2, refused.output
        assert ONLY_PUBLISH in refused.output
        assert "`rm runs/reading/published.json`" in refused.output, "runs has the study already"
    refused = typed(tmp_path, "report", *PUBLISHED)
    assert refused.exit_code == 2
    assert "--output is missing, and reading is published" in refused.output
    assert digests(tmp_path / "studies") == old_digests


def test_a_published_study_is_continued_from_a_copy(tmp_path: Path) -> None:
    place = ("paths.runs=studies", "sweep.name=multi30k-half")
    shutil.copytree(ROOT / "studies" / "multi30k-half", tmp_path / "studies" / "multi30k-half")
    old_digests = digests(tmp_path / "studies")
    for verb in ("sweep", "train"):
        refused = typed(tmp_path, verb, *place)
        assert refused.exit_code == 2, refused.output
        assert ONLY_PUBLISH in refused.output
    *_, following = answer(tmp_path, "status", *place).splitlines()
    assert f"type `{following.removeprefix('Next: ')}`" in refused.output
    assert digests(tmp_path / "studies") == old_digests
    subprocess.run(following.removeprefix("Next: "), shell=True, cwd=tmp_path, check=True)
    *_, following = answer(tmp_path, "status", "sweep.name=multi30k-half").splitlines()
    assert following.endswith("allelse sweep sweep.name=multi30k-half")


@pytest.mark.slow
def test_mlflow_gets_a_published_study_from_a_copy(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(tmp_path, "publish", NAME)
    old_digests = digests(tmp_path / "studies")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with subprocess.Popen(
        [str(PROGRAM), "ui", *PUBLISHED, "--no-browser"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout
            address = server.stdout.readline().split(": ")[1].partition("/#")[0]
            with urllib.request.urlopen(f"{address}/health", timeout=60) as page:
                assert page.status == 200
        finally:
            os.killpg(server.pid, signal.SIGINT)
    (database,) = (tmp_path / "cache").rglob("mlflow.db")
    assert (database.parent / "reading" / "mlflow-ledger.json").exists()
    for _ in range(2):
        answer(tmp_path, "sync", *PUBLISHED)
    assert digests(tmp_path / "studies") == old_digests


def test_a_damaged_copy_is_named(tmp_path: Path, study: Study) -> None:
    answer(tmp_path, "publish", NAME)
    path = tmp_path / "studies/reading/base-s1/journal.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="not gzip, or cut off"):
        read_study(tmp_path / "studies/reading").trial_folder(study.trials[0]).journal()


def test_another_study_of_the_name_is_refused(tmp_path: Path, study: Study) -> None:
    answer(tmp_path, "publish", NAME)
    write_study(replace(study, identity="2e" * 16))
    refused = typed(tmp_path, "publish", NAME)
    assert refused.exit_code == 2
    assert "has another study named reading" in refused.output
    refused = typed(tmp_path, "publish", NAME, "--to", "runs")
    assert refused.exit_code == 2
    assert "is runs, which contains the study itself" in refused.output
