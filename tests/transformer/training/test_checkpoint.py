"""Checkpoints in a folder, in memory and on an S3 server: saved states are read back completely or not at all."""

import hashlib
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from saved_states import files, manifest_of, newest_step, put, save, save_evaluated, sealed, state, step_of
from small_trials import DECODE, KEY, OWN, assignment, copy_data, small_trial

from transformer.messages import Finished, Resumed
from transformer.training.checkpoint import Checkpoints
from transformer.worker import work


def test_a_state_is_restored_exactly(any_url: str) -> None:
    checkpoints = Checkpoints(any_url, KEY, 1, keep=2)
    nested = {
        "moments": [torch.tensor([1.5], dtype=torch.bfloat16)],
        "betas": (0.9, 0.98),
        "fused": True,
        "decay": None,
    }
    checkpoints.save(7, state(7) | nested)
    checkpoints.wait()
    reader = Checkpoints(any_url, KEY, 2, keep=2)
    found = reader.newest()
    assert found is not None
    assert torch.equal(found.pop("model")["w"], state(7)["model"]["w"])
    assert found == {key: value for key, value in (state(7) | nested).items() if key != "model"}
    assert reader.passed_over == []


def test_an_empty_place_has_no_checkpoint(any_url: str) -> None:
    checkpoints = Checkpoints(any_url, KEY, 1, keep=2)
    assert checkpoints.newest() is None
    assert checkpoints.best() is None
    assert list(checkpoints.last(3)) == []
    assert checkpoints.passed_over == []


def test_only_the_newest_of_an_attempt_are_kept(any_url: str) -> None:
    save(any_url, 1, 5, 10, 95, 100, 105, keep=2)
    assert files(any_url) == ["a1/step-100", "a1/step-105"]


@pytest.mark.parametrize(
    ("nlls", "kept"),
    [
        ({5: 3.0, 10: 1.0, 15: 2.0, 20: 2.5}, [10, 15, 20]),
        ({5: 3.0, 10: 2.0, 15: 1.0, 20: 1.5}, [15, 20]),
        ({5: 1.0, 10: 1.0, 15: 2.0, 20: 2.5}, [10, 15, 20]),
        ({5: None, 10: 4.0, 15: None, 20: None}, [10, 15, 20]),
        ({5: 4.0, 10: math.nan, 15: None, 20: None}, [5, 15, 20]),
        ({5: 1.0, 10: 4.0, 15: 0.5, 20: 0.6, 25: 0.7}, [15, 20, 25]),
    ],
    ids=["best is older", "best is new", "newest of equals", "one evaluated", "no number", "best was overtaken"],
)
def test_the_best_on_dev_is_kept_with_the_newest(url: str, nlls: dict[int, float | None], kept: list[int]) -> None:
    save_evaluated(url, 1, nlls, keep=2)
    assert files(url) == sorted(f"a1/step-{step}" for step in kept)


def test_the_best_is_chosen_from_all_attempts_so_far(url: str) -> None:
    save_evaluated(url, 1, {5: 2.0, 10: 1.0})
    save_evaluated(url, 2, {15: 1.5, 20: 1.2})
    save_evaluated(url, 3, {25: 1.0})
    found = [step_of(Checkpoints(url, KEY, attempt, keep=5).best()) for attempt in (1, 2, 3)]
    assert found == [10, 10, 25]


def save_stopped(url: str, attempt: int, *steps: int, keep: int, dev_nll: float | None = None) -> Checkpoints:
    """Checkpoints of an attempt, and of its stop at the last of these steps."""
    *regular, last = steps
    checkpoints = Checkpoints(url, KEY, attempt, keep)
    for step in regular:
        checkpoints.save(step, state(step), 2.0)
    checkpoints.save(last, state(last), dev_nll, stop=True)
    checkpoints.wait()
    return checkpoints


def test_the_checkpoint_of_a_stop_is_only_used_for_a_resume(url: str) -> None:
    save_stopped(url, 1, 5, 10, 12, keep=9, dev_nll=1.0)
    later = save_stopped(url, 2, 15, 17, keep=9)
    assert newest_step(url, 2) == 12
    assert newest_step(url, 3) == 17
    assert [saved["step"] for saved in later.last(9)] == [15, 10, 5]
    assert step_of(later.best()) == 15


@pytest.mark.parametrize("keep", [1, 2])
def test_the_checkpoint_of_a_stop_replaces_no_other(url: str, keep: int) -> None:
    save_stopped(url, 1, 5, 10, 12, keep=keep)
    regular = ["a1/step-10", "a1/step-5"][:keep]
    assert files(url) == sorted([*regular, "a1/step-12"])
    Checkpoints(url, KEY, 1, keep=keep).tidy()
    assert files(url) == regular


def test_a_manifest_without_a_stop_mark_is_not_a_stop(url: str) -> None:
    save(url, 1, 5)

    def age(filesystem: Any, folder: str) -> None:
        fields = json.loads(filesystem.cat_file(f"{folder}/manifest.json"))
        kept = {name: fields[name] for name in sorted(fields) if name not in ("stop", "manifest_sha256")}
        filesystem.pipe_file(f"{folder}/manifest.json", sealed(kept))

    damage(url, "a1/step-5", age)
    reader = Checkpoints(url, KEY, 2, keep=5)
    assert [saved["step"] for saved in reader.last(1)] == [5]
    assert reader.passed_over == []


def test_a_stop_before_the_first_checkpoint_leaves_its_own(url: str) -> None:
    checkpoints = save_stopped(url, 1, 3, keep=1)
    checkpoints.tidy()
    assert files(url) == ["a1/step-3"]
    assert newest_step(url, 2) == 3


def test_steps_are_read_in_order_up_to_a_missing_one(url: str) -> None:
    save(url, 1, 5, 10, 15)
    checkpoints = save(url, 2, 15, 20)
    damage(url, "a2/step-15", flip)
    assert [saved["step"] for saved in checkpoints.at([20, 15, 5])] == [20, 15, 5]
    assert [saved["step"] for saved in checkpoints.at([20, 12, 5])] == [20]
    assert list(checkpoints.at([])) == []


def test_without_an_evaluated_checkpoint_none_is_best(url: str) -> None:
    assert save(url, 1, 5, 10).best() is None


def test_a_damaged_best_is_replaced_by_the_next(url: str) -> None:
    checkpoints = save_evaluated(url, 1, {5: 2.0, 10: 1.0, 15: 3.0})
    damage(url, "a1/step-10", flip)
    assert step_of(checkpoints.best()) == 5
    assert len(checkpoints.passed_over) == 1


def test_an_attempt_never_removes_the_checkpoints_of_another(url: str) -> None:
    save(url, 1, 5, keep=1)
    save(url, 2, 10, 15, keep=1)
    assert files(url) == ["a1/step-5", "a2/step-15"]


def test_an_attempt_starts_from_earlier_attempts_only(url: str) -> None:
    for attempt, step in ((1, 5), (2, 10), (3, 15)):
        save(url, attempt, step)
    assert [newest_step(url, attempt) for attempt in (1, 2, 3, 4)] == [None, 5, 10, 15]


def test_attempts_and_steps_are_ordered_as_numbers(url: str) -> None:
    for attempt, step in ((9, 900), (10, 1000), (2, 99)):
        save(url, attempt, step)
    assert newest_step(url, 11) == 1000
    assert newest_step(url, 10) == 900


def test_the_later_attempt_wins_at_the_same_step(url: str) -> None:
    for attempt, seconds in ((1, 1.0), (2, 2.0)):
        save(url, attempt, 5, seconds=seconds)
    found = Checkpoints(url, KEY, 3, keep=5).newest()
    assert found is not None
    assert found["seconds"] == 2.0


def test_the_last_ones_are_the_newest_of_this_and_earlier_attempts_each_step_once(url: str) -> None:
    for attempt, steps in ((1, (5, 10)), (2, (10, 15)), (3, (20,))):
        save(url, attempt, *steps, seconds=float(attempt))
    found = Checkpoints(url, KEY, 2, keep=5).last(2)
    assert [(saved["step"], saved["seconds"]) for saved in found] == [(15, 2.0), (10, 2.0)]
    assert [saved["step"] for saved in Checkpoints(url, KEY, 2, keep=5).last(9)] == [15, 10, 5]


def test_checkpoints_written_by_others_since_the_last_listing_are_found(s3: str) -> None:
    """A connection caches its listings, and another process's writes do not update that cache."""
    url = f"{s3}/meanwhile"
    save(url, 1, 5)
    reader = Checkpoints(url, KEY, 3, keep=5)
    assert step_of(reader.newest()) == 5
    reader.folder.filesystem.clear_instance_cache()
    other = save(url, 1, 10)
    assert other.folder.filesystem is not reader.folder.filesystem
    assert step_of(reader.newest()) == 10


def test_a_state_sent_to_a_server_in_parts_is_restored_exactly(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"default_block_size": 5 * 2**20})
    url, large = f"{s3}/parts", state(5, size=3 * 2**20)
    checkpoints = Checkpoints(url, KEY, 1, keep=2)
    assert checkpoints.folder.filesystem.default_block_size == 5 * 2**20
    checkpoints.save(5, large)
    checkpoints.wait()
    found = Checkpoints(url, KEY, 2, keep=2).newest()
    assert found is not None
    assert torch.equal(found["model"]["w"], large["model"]["w"])


def test_a_trial_keeps_its_checkpoints_on_a_server_and_is_evaluated_again_from_there(s3: str, tmp_path: Path) -> None:
    data = copy_data(tmp_path, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    trial = small_trial(data, decode=replace(DECODE, average_checkpoints=2))
    first, again = (list(work(assignment(trial, attempt, tmp_path, f"{s3}/whole"))) for attempt in (1, 2))
    assert files(f"{s3}/whole") == ["a1/step-10", "a1/step-5"]
    assert [event.step for event in again if isinstance(event, Resumed)] == [10]
    assert isinstance(first[-1], Finished)
    assert isinstance(again[-1], Finished)
    assert again[-1].scores == first[-1].scores


def remove(name: str) -> Any:
    return lambda filesystem, folder: filesystem.rm(f"{folder}/{name}")


def cut_short(name: str) -> Any:
    def damage(filesystem: Any, folder: str) -> None:
        content = filesystem.cat_file(f"{folder}/{name}")
        filesystem.pipe_file(f"{folder}/{name}", content[: len(content) // 2])

    return damage


def flip(filesystem: Any, folder: str) -> None:
    content = bytearray(filesystem.cat_file(f"{folder}/state.pt"))
    content[len(content) // 2] ^= 1
    filesystem.pipe_file(f"{folder}/state.pt", bytes(content))


def manifest(content: bytes) -> Any:
    return lambda filesystem, folder: filesystem.pipe_file(f"{folder}/manifest.json", content)


def damage(url: str, place: str, how: Any) -> None:
    filesystem, root = fsspec.core.url_to_fs(url)
    how(filesystem, f"{root}/{OWN}/{place}")


DAMAGES = {
    "state missing": (remove("state.pt"), "state.pt is missing"),
    "state cut short": (cut_short("state.pt"), "were written"),
    "one bit flipped": (flip, "checksum"),
    "manifest cut short": (cut_short("manifest.json"), "manifest.json cannot be read"),
    "manifest empty": (manifest(b""), "manifest.json cannot be read"),
    "manifest null": (manifest(b"null"), "manifest.json cannot be read"),
    "manifest of other bytes": (manifest(b"\xff\x00"), "manifest.json cannot be read"),
    "manifest without checksum": (manifest(b'{"step": 10, "bytes": 1}'), "manifest.json cannot be read"),
    "manifest with a word for a number": (
        manifest(b'{"step": 10, "bytes": "many", "sha256": ""}'),
        "manifest.json cannot be read",
    ),
}


@pytest.mark.parametrize(("how", "said"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_checkpoint_is_skipped_with_a_notice(url: str, how: Any, said: str) -> None:
    writer = save(url, 1, 5, 10)
    damage(url, "a1/step-10", how)
    reader = Checkpoints(url, KEY, 2, keep=5)
    assert step_of(reader.newest()) == 5
    assert step_of(reader.newest()) == 5
    assert [saved["step"] for saved in writer.last(2)] == [5]
    (line,) = reader.passed_over
    assert line.startswith(f"{url}/{OWN}/a1/step-10: ")
    assert said in line
    assert "\n" not in line


def test_an_unfinished_checkpoint_is_skipped_silently(any_url: str) -> None:
    save(any_url, 1, 5, 10)
    damage(any_url, "a1/step-10", remove("manifest.json"))
    reader = Checkpoints(any_url, KEY, 2, keep=5)
    assert step_of(reader.newest()) == 5
    assert reader.passed_over == []


def test_if_every_checkpoint_is_damaged_each_is_reported_and_none_is_used(url: str) -> None:
    save(url, 1, 5, 10)
    for place in ("a1/step-5", "a1/step-10"):
        damage(url, place, flip)
    reader = Checkpoints(url, KEY, 2, keep=5)
    assert reader.newest() is None
    assert [line.split(": ")[0] for line in reader.passed_over] == [f"{url}/{OWN}/a1/step-10", f"{url}/{OWN}/a1/step-5"]


def test_other_entries_of_the_folder_are_ignored(any_url: str) -> None:
    save(any_url, 1, 5)
    filesystem, root = fsspec.core.url_to_fs(any_url)
    for name in ("notes.txt", "a1/step-7.bak/manifest.json", "a1/astep-9/manifest.json", "old/step-11/manifest.json"):
        for path in (f"{root}/{name}", f"{root}/{OWN}/{name}"):
            filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            filesystem.pipe_file(path, b"{}")
    reader = Checkpoints(any_url, KEY, 2, keep=5)
    assert step_of(reader.newest()) == 5
    assert reader.passed_over == []


def test_a_folder_name_that_looks_like_a_pattern_is_taken_literally(tmp_path: Path) -> None:
    url = str(tmp_path / "runs [1] *")
    save(url, 1, 5)
    assert newest_step(url, 2) == 5


def test_the_manifest_describes_the_state(tmp_path: Path) -> None:
    save_evaluated(str(tmp_path), 1, {5: 1.25, 10: None})
    first, second = (tmp_path / OWN / "a1" / f"step-{step}" for step in (5, 10))
    content = (first / "state.pt").read_bytes()
    assert torch.load(io.BytesIO(content), weights_only=True)["step"] == 5
    found = json.loads((first / "manifest.json").read_text())
    expected = {"step": 5, "key": KEY, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert found == expected | {"dev_nll": 1.25, "stop": False, "manifest_sha256": found["manifest_sha256"]}
    content = (second / "state.pt").read_bytes()
    assert json.loads((second / "manifest.json").read_text()) == json.loads(manifest_of(content, 10))
    assert files(str(tmp_path), "a*/step-*/*") == [
        f"a1/step-{step}/{name}" for step in (10, 5) for name in ("manifest.json", "state.pt")
    ]


class Harm:
    """Code that an untrusted checkpoint might run when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("harm-was-done"),)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "bare pickle"])
def test_a_checkpoint_that_would_run_code_is_refused_and_runs_none(
    url: str, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(url, 1, 5, 10)
    buffer = io.BytesIO()
    torch.save({"step": 10, "model": Harm()}, buffer, _use_new_zipfile_serialization=zipped)
    content = buffer.getvalue()
    put(url, 10, content)
    reader = Checkpoints(url, KEY, 2, keep=2)
    assert step_of(reader.newest()) == 5
    assert not (tmp_path / "harm-was-done").exists()
    assert "a1/step-10: state.pt is refused" in reader.passed_over[0]
    torch.load(io.BytesIO(content), weights_only=False)
    assert (tmp_path / "harm-was-done").exists()  # the file was really dangerous


@pytest.mark.parametrize("thing", [Harm(), np.float64(1.5), {1, 2}], ids=lambda thing: type(thing).__name__)
def test_values_that_could_not_be_loaded_are_not_saved(tmp_path: Path, thing: Any) -> None:
    with pytest.raises(TypeError, match=f"found a {type(thing).__name__}"):
        Checkpoints(str(tmp_path), KEY, 1, keep=2).save(5, {"step": 5, "metrics": {"dev/ppl": thing}})
    assert files(str(tmp_path)) == []
