"""Checkpoints: what is written is read again, whole or not at all, and only from earlier attempts."""

import io
import itertools
import json
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

from transformer.training.checkpoint import Checkpoints

NUMBERS = itertools.count()


@pytest.fixture(params=["folder", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints") if request.param == "folder" else f"memory://checkpoints-{next(NUMBERS)}/t"


def state(step: int) -> dict[str, Any]:
    return {"step": step, "model": {"w": torch.arange(5.0) * step}, "metrics": {"dev/ppl": 1.5}, "seconds": 0.25}


def files(url: str, pattern: str) -> list[str]:
    filesystem, root = fsspec.core.url_to_fs(url)
    return sorted(path.split(root)[1].strip("/") for path in filesystem.glob(f"{root}/{pattern}"))


def newest_step(url: str, attempt: int) -> int | None:
    saved = Checkpoints(url, attempt, keep=5).newest()
    return None if saved is None else int(saved["step"])


def test_a_state_comes_back_as_it_was_saved(url: str) -> None:
    Checkpoints(url, 1, keep=2).save(7, state(7))
    found = Checkpoints(url, 2, keep=2).newest()
    assert found is not None
    assert torch.equal(found.pop("model")["w"], state(7)["model"]["w"])
    assert found == {key: value for key, value in state(7).items() if key != "model"}


def test_nothing_is_found_where_nothing_was_saved(url: str) -> None:
    assert Checkpoints(url, 1, keep=2).newest() is None
    assert Checkpoints(url, 1, keep=2).last(3) == []


def test_only_the_newest_of_an_attempt_are_kept(url: str) -> None:
    checkpoints = Checkpoints(url, 1, keep=2)
    for step in (5, 10, 95, 100, 105):
        checkpoints.save(step, state(step))
    assert files(url, "a1/step-*") == ["a1/step-100", "a1/step-105"]


def test_an_attempt_never_removes_the_checkpoints_of_another(url: str) -> None:
    Checkpoints(url, 1, keep=1).save(5, state(5))
    second = Checkpoints(url, 2, keep=1)
    second.save(10, state(10))
    second.save(15, state(15))
    assert files(url, "a*/step-*") == ["a1/step-5", "a2/step-15"]


def test_an_attempt_starts_from_earlier_attempts_only(url: str) -> None:
    for attempt, step in ((1, 5), (2, 10), (3, 15)):
        Checkpoints(url, attempt, keep=5).save(step, state(step))
    assert [newest_step(url, attempt) for attempt in (1, 2, 3, 4)] == [None, 5, 10, 15]


def test_attempts_and_steps_are_ordered_as_numbers(url: str) -> None:
    for attempt, step in ((9, 900), (10, 1000), (2, 99)):
        Checkpoints(url, attempt, keep=5).save(step, state(step))
    assert newest_step(url, 11) == 1000
    assert newest_step(url, 10) == 900


def test_the_later_attempt_wins_at_the_same_step(url: str) -> None:
    for attempt, seconds in ((1, 1.0), (2, 2.0)):
        Checkpoints(url, attempt, keep=5).save(5, state(5) | {"seconds": seconds})
    found = Checkpoints(url, 3, keep=5).newest()
    assert found is not None
    assert found["seconds"] == 2.0


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


def forget_checksum(filesystem: Any, folder: str) -> None:
    filesystem.pipe_file(f"{folder}/manifest.json", b'{"step": 10}')


def null_manifest(filesystem: Any, folder: str) -> None:
    filesystem.pipe_file(f"{folder}/manifest.json", b"null")


DAMAGES = {
    "manifest null": null_manifest,
    "manifest missing": remove("manifest.json"),
    "state missing": remove("state.pt"),
    "manifest cut short": cut_short("manifest.json"),
    "state cut short": cut_short("state.pt"),
    "one bit flipped": flip,
    "manifest without checksum": forget_checksum,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_checkpoint_that_is_not_whole_is_passed_over_for_the_one_before(url: str, damage: Any) -> None:
    checkpoints = Checkpoints(url, 1, keep=5)
    for step in (5, 10):
        checkpoints.save(step, state(step))
    filesystem, root = fsspec.core.url_to_fs(url)
    damage(filesystem, f"{root}/a1/step-10")
    assert newest_step(url, 2) == 5
    assert [saved["step"] for saved in checkpoints.last(2)] == [5]


def test_the_last_ones_are_the_newest_of_this_and_earlier_attempts_each_step_once(url: str) -> None:
    for attempt, steps in ((1, (5, 10)), (2, (10, 15)), (3, (20,))):
        for step in steps:
            Checkpoints(url, attempt, keep=5).save(step, state(step) | {"seconds": float(attempt)})
    found = Checkpoints(url, 2, keep=5).last(2)
    assert [(saved["step"], saved["seconds"]) for saved in found] == [(15, 2.0), (10, 2.0)]
    assert [saved["step"] for saved in Checkpoints(url, 2, keep=5).last(9)] == [15, 10, 5]


def test_a_checkpoint_loads_without_running_code_and_its_manifest_says_what_it_is(tmp_path: Path) -> None:
    Checkpoints(str(tmp_path), 1, keep=2).save(5, state(5))
    folder = tmp_path / "a1" / "step-5"
    content = (folder / "state.pt").read_bytes()
    assert torch.load(io.BytesIO(content), weights_only=True)["step"] == 5
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["step"], manifest["bytes"]) == (5, len(content))


class Harm:
    """What a checkpoint from elsewhere might do when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("harm-was-done"),)


def test_a_checkpoint_that_would_run_code_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Checkpoints(str(tmp_path / "c"), 1, keep=2).save(5, {"step": 5, "model": Harm()})
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        Checkpoints(str(tmp_path / "c"), 2, keep=2).newest()
    assert not (tmp_path / "harm-was-done").exists()
