"""A checkpoint with any damage to its bytes is skipped with a notice, and never read as another one."""

import io
import random
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
import torch
from saved_states import manifest_of, put, save, state, step_of
from small_trials import KEY, OWN

from transformer.training.checkpoint import Checkpoints


@pytest.fixture
def url() -> Iterator[str]:
    """An empty place in memory."""
    yield "memory://damaged"
    fsspec.filesystem("memory").rm("/damaged", recursive=True)


def bit_flips(content: bytes) -> Iterator[bytes]:
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            yield bytes(flipped)


@pytest.mark.parametrize("dev_nll", [None, 1.25, 1e-05])
def test_each_flipped_bit_of_a_manifest_is_detected(url: str, dev_nll: float | None) -> None:
    writer = Checkpoints(url, KEY, 1, keep=9)
    writer.save(5, state(5), dev_nll)
    writer.wait()
    memory, path = fsspec.filesystem("memory"), f"/damaged/{OWN}/a1/step-5/manifest.json"
    written = memory.cat_file(path)
    (expected,) = writer.folder.finished(range(2))
    for content in bit_flips(written):
        memory.pipe_file(path, content)
        reader = Checkpoints(url, KEY, 2, keep=9)
        found = list(reader.folder.finished(range(2)))
        if found:
            assert found == [expected], content  # 1e-05 is 1E-05
        else:
            (line,) = reader.passed_over
            assert line.startswith(f"{url}/{OWN}/a1/step-5: manifest.json "), line


def pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


WHOLE = pickled(state(10))
GARBAGE = {
    "empty": b"",
    "a word": b"garbage",
    "zeros": bytes(1000),
    "noise": random.Random(1).randbytes(5000),
    "half of a zip": WHOLE[: len(WHOLE) // 2],
    "the end of a zip": WHOLE[len(WHOLE) // 2 :],
    "a bare pickle cut short": b"\x80\x02}q\x00(X\x04\x00\x00\x00step",
    "an empty zip": b"PK\x05\x06" + bytes(18),
    "a list": pickled([1, 2]),
    "a tensor": pickled(torch.ones(3)),
    "no step": pickled({"model": {}}),
    "another step": pickled(state(9)),
    "a step of another kind": pickled(state(10) | {"step": "10"}),
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_under_a_valid_manifest_is_skipped(url: str, content: bytes) -> None:
    save(url, 1, 5)
    put(url, 10, content)
    reader = Checkpoints(url, KEY, 2, keep=9)
    assert step_of(reader.newest()) == 5
    (line,) = reader.passed_over
    assert line.startswith(f"{url}/{OWN}/a1/step-10: state.pt is "), line
    assert "\n" not in line


def test_many_kinds_of_noise_are_skipped(url: str) -> None:
    """Pieces of a real file in the wrong order, and flipped bits with a matching checksum."""
    drawn = random.Random(2)
    for _ in range(200):
        content = bytearray(WHOLE)
        for _ in range(drawn.randint(1, 20)):
            content[drawn.randrange(len(content))] ^= drawn.randrange(1, 256)
        put(url, 10, bytes(content[: drawn.randint(1, len(content))]))
        reader = Checkpoints(url, KEY, 2, keep=9)
        assert step_of(reader.newest()) in (None, 10)


def test_a_manifest_of_another_step_is_skipped(url: str) -> None:
    save(url, 1, 5)
    put(url, 10, WHOLE)
    fsspec.filesystem("memory").pipe_file(f"/damaged/{OWN}/a1/step-10/manifest.json", manifest_of(WHOLE, 11))
    reader = Checkpoints(url, KEY, 2, keep=9)
    assert step_of(reader.newest()) == 5
    assert reader.passed_over == [f"{url}/{OWN}/a1/step-10: manifest.json is from step 11"]


@pytest.mark.parametrize("content", [b'{"step": Infinity, "bytes": 1, "sha256": ""}', b"[" * 100_000, b"7", b'"step"'])
def test_a_file_that_is_not_a_manifest_is_skipped(url: str, content: bytes) -> None:
    put(url, 10, WHOLE)
    fsspec.filesystem("memory").pipe_file(f"/damaged/{OWN}/a1/step-10/manifest.json", content)
    reader = Checkpoints(url, KEY, 2, keep=9)
    assert reader.newest() is None
    assert reader.passed_over == [f"{url}/{OWN}/a1/step-10: manifest.json cannot be read"]
