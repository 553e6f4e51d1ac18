"""Owners of checkpoints: other trials' are neither read nor removed, and a finished trial removes its extra ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from saved_states import files, manifest_of, newest_step, put, save, save_evaluated, step_of
from small_trials import DECODE, KEY, OWN, assignment, copy_data, small_trial

from transformer.config import TrialConfig
from transformer.messages import Event, Finished, Noticed, Report
from transformer.training.checkpoint import Checkpoints
from transformer.worker import work

OTHER = "fedcba9876543210" * 4


def listed(url: str) -> list[str]:
    """Every file below the URL."""
    filesystem, root = fsspec.core.url_to_fs(url)
    filesystem.invalidate_cache()
    return sorted(path.split(root)[1].strip("/") for path in filesystem.find(root))


def write(url: str, path: str, content: bytes = b"half") -> None:
    filesystem, root = fsspec.core.url_to_fs(url)
    filesystem.makedirs(f"{root}/{path}".rsplit("/", 1)[0], exist_ok=True)
    filesystem.pipe_file(f"{root}/{path}", content)


def older(url: str, *steps: int) -> None:
    """Checkpoints of a version without keys, directly below the URL."""
    filesystem, root = fsspec.core.url_to_fs(url)
    writer = Checkpoints(url, None, 1, keep=9)
    for step in steps:
        writer.save(step, {"step": step})
    writer.wait()
    assert filesystem.exists(f"{root}/a1/step-{steps[0]}/state.pt")


def test_another_trial_s_checkpoints_are_skipped_with_one_notice(any_url: str) -> None:
    other = Checkpoints(any_url, OTHER, 1, keep=9)
    other.save(60, {"step": 60})
    other.wait()
    older(any_url, 70)
    reader = Checkpoints(any_url, KEY, 2, keep=5)
    assert reader.newest() is None
    owners = f"trial {OTHER[:16]}, a trial without a key (a1)"
    assert reader.notices() == [f"{any_url}: skipped the checkpoints of {owners}"]
    assert reader.notices() == []
    save(any_url, 1, 5)
    assert newest_step(any_url, 2) == 5
    assert step_of(Checkpoints(any_url, OTHER, 2, keep=5).newest()) == 60


def test_a_copied_checkpoint_of_another_trial_is_skipped(url: str) -> None:
    save(url, 1, 5)
    put(url, 10, b"whatever", OTHER)
    reader = Checkpoints(url, KEY, 2, keep=5)
    assert step_of(reader.newest()) == 5
    assert step_of(reader.best()) is None
    expected = f"{url}/{OWN}/a1/step-10: belongs to trial {OTHER[:16]} and is skipped"
    assert reader.passed_over == [expected]


def test_the_full_key_counts_not_its_first_digits(url: str) -> None:
    clash = KEY[:16] + OTHER[16:]
    put(url, 10, b"whatever", clash)
    reader = Checkpoints(url, KEY, 2, keep=5)
    assert reader.newest() is None
    assert len(reader.passed_over) == 1


def test_a_manifest_without_a_key_is_skipped(url: str) -> None:
    put(url, 10, b"whatever")
    write(url, f"{OWN}/a1/step-10/manifest.json", b'{"step": 10, "sha256": "", "bytes": 8, "dev_nll": null}')
    reader = Checkpoints(url, KEY, 2, keep=5)
    assert reader.newest() is None
    assert "belongs to a trial without a key and is skipped" in reader.passed_over[0]


def test_an_attempt_prunes_only_its_own_checkpoints(url: str) -> None:
    """The trial's folder was removed, but its checkpoints remain: attempts count from 1 again."""
    save(url, 1, 40, 50, 60, keep=3)
    save(url, 1, 5, 10, 15, keep=2)
    assert files(url) == [f"a1/step-{step}" for step in (10, 15, 40, 50, 60)]


def test_the_newest_steps_and_the_best_of_all_attempts_are_kept(url: str) -> None:
    save_evaluated(url, 1, {5: 3.0, 10: 1.0, 15: 2.0})
    save_evaluated(url, 2, {15: 2.0, 20: 1.5})
    save_evaluated(url, 3, {20: 1.5, 25: 1.4, 30: 1.2})
    Checkpoints(url, KEY, 3, keep=3).tidy()
    assert files(url) == ["a1/step-10", "a3/step-20", "a3/step-25", "a3/step-30"]


def test_a_best_step_of_two_attempts_is_kept_once(url: str) -> None:
    save_evaluated(url, 1, {5: 1.0, 10: 2.0})
    save_evaluated(url, 2, {5: 1.1, 10: 2.0, 15: 2.0})
    Checkpoints(url, KEY, 2, keep=1).tidy()
    assert files(url) == ["a2/step-15", "a2/step-5"]


def test_interrupted_writes_are_removed_with_the_folders_left_empty(any_url: str) -> None:
    save(any_url, 1, 5)
    save(any_url, 3, 10)
    for path in ("a1/step-7/state.pt", "a2/step-8/state.pt.tmp", "a2/step-9/state.pt", "a3/step-10/state.pt.tmp"):
        write(any_url, f"{OWN}/{path}")
    Checkpoints(any_url, KEY, 3, keep=1).tidy()
    assert listed(any_url) == [f"{OWN}/a3/step-10/manifest.json", f"{OWN}/a3/step-10/state.pt"]
    filesystem, root = fsspec.core.url_to_fs(any_url)
    filesystem.invalidate_cache()
    assert [path.rstrip("/").rsplit("/", 1)[-1] for path in filesystem.ls(f"{root}/{OWN}", detail=False)] == ["a3"]


def test_other_trials_files_stay(any_url: str) -> None:
    save(any_url, 1, 5, 10)
    put(any_url, 7, b"a copy", OTHER)
    other = Checkpoints(any_url, OTHER, 1, keep=9)
    other.save(60, {"step": 60})
    other.wait()
    older(any_url, 70)
    write(any_url, f"{OWN}/a1/notes.txt")
    write(any_url, f"{OWN}/a4/step-20/state.pt")  # of a later attempt, possibly still being written
    before = set(listed(any_url))
    Checkpoints(any_url, KEY, 3, keep=1).tidy()
    gone = before - set(listed(any_url))
    assert gone == {f"{OWN}/a1/step-5/manifest.json", f"{OWN}/a1/step-5/state.pt"}


def test_a_damaged_checkpoint_replaces_no_complete_one(url: str) -> None:
    save(url, 1, 5, 10)
    save(url, 2, 10, 15)
    for place in ("a2/step-10", "a2/step-15"):
        write(url, f"{OWN}/{place}/state.pt", b"damaged")
    checkpoints = Checkpoints(url, KEY, 2, keep=2)
    checkpoints.tidy()
    assert files(url) == ["a1/step-10", "a1/step-5"]
    assert len(checkpoints.notices()) == 2


def test_without_a_complete_checkpoint_nothing_is_removed(url: str) -> None:
    save(url, 1, 5, 10)
    for place in ("a1/step-5", "a1/step-10"):
        write(url, f"{OWN}/{place}/manifest.json", manifest_of(b"other bytes", 5))
    Checkpoints(url, KEY, 1, keep=1).tidy()
    assert files(url) == ["a1/step-10", "a1/step-5"]


def test_a_failed_removal_is_reported_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path)
    save(url, 1, 5, 10)
    checkpoints = Checkpoints(url, KEY, 1, keep=1)

    def fail(path: str, **options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(checkpoints.folder.filesystem, "rm", fail)
    checkpoints.tidy()
    expected = f"{url}/{OWN}: cannot remove older checkpoints: Operation not permitted"
    assert checkpoints.notices() == [expected]
    assert files(url) == ["a1/step-10", "a1/step-5"]


def averaging_trial(folder: Path) -> TrialConfig:
    """A checkpoint at each step, and the mean of the last three at the end."""
    data = copy_data(folder, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    often: dict[str, Any] = {"steps": 12, "checkpoint_every": 1, "evaluate_every": 4, "keep_checkpoints": 3}
    return small_trial(data, decode=replace(DECODE, average_checkpoints=3), **often)


def attempts(trial: TrialConfig, folder: Path, url: str, deaths: int) -> list[list[Event]]:
    """The events of a trial that dies ``deaths`` times, four steps further each time, and then finishes."""
    found: list[list[Event]] = []
    for attempt in range(1, deaths + 2):
        found.append([])
        for event in work(assignment(trial, attempt, folder, url)):
            found[-1].append(event)
            if attempt <= deaths and isinstance(event, Report) and event.step == 4 * attempt + 1:
                break
    return found


def test_a_trial_that_died_often_keeps_no_more_than_one_that_never_died(tmp_path: Path) -> None:
    trial, url = averaging_trial(tmp_path), tmp_path / "checkpoints"
    end, uninterrupted = (attempts(trial, tmp_path, f"{url}/{deaths}", deaths)[-1] for deaths in (2, 0))
    kept, expected = ({path.rsplit("/", 1)[-1] for path in files(f"{url}/{deaths}")} for deaths in (2, 0))
    assert kept == expected >= {"step-10", "step-11", "step-12"}
    assert isinstance(end[-1], Finished)
    assert isinstance(uninterrupted[-1], Finished)
    assert end[-1].scores == uninterrupted[-1].scores
    assert [event for event in end if isinstance(event, Noticed)] == []


def test_a_finished_trial_is_scored_again_with_the_mean_of_the_kept_checkpoints(tmp_path: Path) -> None:
    trial, url = averaging_trial(tmp_path), str(tmp_path / "checkpoints")
    first = attempts(trial, tmp_path, url, deaths=1)[-1]
    again = list(work(assignment(trial, 3, tmp_path, url)))
    assert not any(isinstance(event, Report) for event in again)
    assert isinstance(first[-1], Finished)
    assert isinstance(again[-1], Finished)
    assert again[-1].scores == first[-1].scores
