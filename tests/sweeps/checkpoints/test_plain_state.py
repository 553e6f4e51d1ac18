"""A plain state comes back as it went in: every accepted type, drawn at random with fixed seeds, or
refused by name."""

import json
import math
import random
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from saved_state import saved_state

from sweeps.checkpoints.reader import CheckpointReader
from sweeps.checkpoints.store import CheckpointStore
from sweeps.task import Keep, StateError

FLOATS = (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 5e-324, 0.1, 1e308)
INTEGERS = (0, 1, -1, 2**62, 2**63, -(2**63), -(2**64) - 1, 10**5000, -(10**5000))
TEXTS = (
    "",
    "$",
    "of",
    "a/b",
    "ü",
    "\x00",
    "lone \ud800",
    "__metadata__",
    "tensors.safetensors",
    "1",
)
ARRAY_TYPES = ("bool", *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)))
ARRAY_TYPES += ("float16", "float32", "float64")
TENSOR_TYPES = (*ARRAY_TYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2")
LEARNED_TYPES = ("float16", "bfloat16", "float32", "float64")
Draw = Callable[[random.Random, int], Any]


def shape_of(chance: random.Random) -> list[int]:
    return [chance.choice((0, 1, 2, 3)) for _ in range(chance.randint(0, 4))]


def array_of(chance: random.Random) -> Any:
    """Any bits, in any order of axes, with gaps or backward."""
    dtype = np.dtype(chance.choice(ARRAY_TYPES))
    shape = shape_of(chance)
    numbers = np.random.default_rng(chance.randrange(2**32))
    raw = numbers.integers(256, size=math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    array = (raw % 2 if dtype.kind == "b" else raw).view(dtype).reshape(shape)
    array = array.transpose(chance.sample(range(len(shape)), len(shape)))
    return array[::-1] if array.ndim and chance.random() < 0.2 else array


def tensor_of(chance: random.Random) -> Any:
    name = chance.choice(TENSOR_TYPES)
    width = getattr(torch, name).itemsize
    shape = shape_of(chance)
    numbers = np.random.default_rng(chance.randrange(2**32))
    raw = torch.frombuffer(
        bytearray(numbers.bytes(math.prod(shape) * width + width)), dtype=torch.uint8
    )[:-width]
    tensor = (raw % 2 if name == "bool" else raw).view(getattr(torch, name)).reshape(shape)
    tensor = tensor.permute(chance.sample(range(len(shape)), len(shape)))
    if name in LEARNED_TYPES and chance.random() < 0.3:
        return torch.nn.Parameter(tensor, requires_grad=chance.random() < 0.7)
    return tensor.requires_grad_(name in LEARNED_TYPES and chance.random() < 0.3)


def number_of(chance: random.Random) -> Any:
    return np.dtype(chance.choice(ARRAY_TYPES)).type(chance.choice((0, 1)))


def key_of(chance: random.Random, depth: int) -> Any:
    kinds = [TEXTS, INTEGERS, FLOATS, (True, None)]
    if depth and chance.random() < 0.2:
        return tuple(key_of(chance, 0) for _ in range(chance.randint(0, 2)))
    return number_of(chance) if chance.random() < 0.1 else chance.choice(chance.choice(kinds))


def entries_of(chance: random.Random, depth: int) -> dict[Any, Any]:
    only_text = chance.random() < 0.5
    keys = [
        chance.choice(TEXTS) if only_text else key_of(chance, depth)
        for _ in range(chance.randint(0, 5))
    ]
    return {key: value_of(chance, depth - 1) for key in keys}


def ordered_of(chance: random.Random, depth: int) -> Any:
    ordered = OrderedDict(entries_of(chance, depth))
    if chance.random() < 0.3:
        ordered._metadata = OrderedDict(z={"version": 1}, a={})  # type: ignore[attr-defined] # as torch's state_dict
    return ordered


def default_of(chance: random.Random, depth: int) -> Any:
    return defaultdict(chance.choice((int, float, list, dict, None)), entries_of(chance, depth))


def items_of(chance: random.Random, depth: int) -> list[Any]:
    return [value_of(chance, depth - 1) for _ in range(chance.randint(0, 4))]


LEAVES: tuple[Draw, ...] = (
    lambda chance, depth: chance.choice((*FLOATS, *INTEGERS, *TEXTS, True, False, None)),
    lambda chance, depth: array_of(chance),
    lambda chance, depth: tensor_of(chance),
    lambda chance, depth: number_of(chance),
)
CONTAINERS: tuple[Draw, ...] = (
    entries_of,
    ordered_of,
    default_of,
    items_of,
    lambda chance, depth: tuple(items_of(chance, depth)),
)


def value_of(chance: random.Random, depth: int) -> Any:
    return chance.choice(LEAVES if depth <= 0 else LEAVES + CONTAINERS)(chance, depth)


def returned(state: Any, folder: Path) -> Any:
    """The state after a checkpoint in this folder."""
    store = CheckpointStore(CheckpointReader(str(folder), "k" * 64, attempt=1), Keep())
    store.save(1, state, 0.0, None, ())
    store.settle()
    (manifest,) = folder.glob("*/a1/step-1/manifest.json")
    return saved_state(manifest.parent)


def layout(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The strides that matter: of the axes with more than one place, if there is anything."""
    return [
        stride for size, stride in zip(shape, strides, strict=True) if size > 1 and 0 not in shape
    ]


def check_same(expected: Any, actual: Any) -> None:
    """The same type, the same bits, the same order, the same layout in memory."""
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        check_same_tensor(expected, actual)
    elif isinstance(expected, np.ndarray | np.generic):
        assert (actual.dtype, actual.shape, actual.tobytes()) == (
            expected.dtype,
            expected.shape,
            expected.tobytes(),
        )
        if isinstance(expected, np.ndarray):
            assert actual.flags.writeable
            assert layout(actual.shape, actual.strides) == layout(
                expected.shape, expected.copy(order="K").strides
            )
    elif isinstance(expected, Mapping):
        check_same(list(expected.keys()), list(actual.keys()))
        check_same(list(expected.values()), list(actual.values()))
        check_same(getattr(expected, "__dict__", None), getattr(actual, "__dict__", None))
        assert getattr(expected, "default_factory", None) is getattr(
            actual, "default_factory", None
        )
    elif isinstance(expected, list | tuple):
        assert len(expected) == len(actual)
        for part, twin in zip(expected, actual, strict=True):
            check_same(part, twin)
    else:
        assert repr(expected) == repr(actual) if isinstance(expected, float) else expected == actual


def check_same_tensor(expected: torch.Tensor, actual: torch.Tensor) -> None:
    assert (actual.dtype, actual.shape, actual.requires_grad) == (
        expected.dtype,
        expected.shape,
        expected.requires_grad,
    )
    assert layout(actual.shape, actual.stride()) == layout(
        expected.shape, expected.detach().clone().stride()
    )
    bits = [
        tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
        for tensor in (expected, actual)
    ]
    assert bits[0] == bits[1]


@pytest.mark.parametrize("seed", range(200))
def test_what_went_in_comes_back(seed: int, tmp_path: Path) -> None:
    state = value_of(random.Random(seed), 4)
    check_same(state, returned(state, tmp_path))


def test_every_type_is_drawn() -> None:
    """Otherwise the test above promises less than it says."""
    drawn_types: set[type] = set()

    def look(value: Any) -> None:
        drawn_types.add(type(value))
        inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        for item in inner if isinstance(value, dict | list | tuple) else ():
            look(item)

    for seed in range(200):
        look(value_of(random.Random(seed), 4))
    plain = {bool, int, float, str, type(None), list, tuple, dict, OrderedDict, defaultdict}
    assert (
        plain | {np.ndarray, np.bool_, np.float32, torch.Tensor, torch.nn.Parameter} <= drawn_types
    )


def test_what_stands_in_two_places_stays_one(tmp_path: Path) -> None:
    net = torch.nn.Linear(2, 2)
    array = np.zeros(3)
    state = {
        "a": net.state_dict(),
        "b": net.state_dict(),
        "c": array,
        "d": array,
        "e": array.copy(),
    }
    back = returned(state, tmp_path)
    assert back["a"]["weight"] is back["b"]["weight"]
    assert back["c"] is back["d"]
    assert back["c"] is not back["e"]


Point = namedtuple("Point", "x y")
LEARNED = torch.ones(1, requires_grad=True)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"p": Point(1, 2)}, "the state at p holds a test_plain_state.Point"),
        ({"d": defaultdict(lambda: 3)}, "the state at d holds a defaultdict of <function"),
        ({"d": defaultdict(set)}, "the state at d holds a defaultdict of <class 'set'>"),
        (
            {"l": LEARNED * 2},
            "the state at l holds a tensor that still has its graph: save tensor.detach()",
        ),
        ({"s": torch.Size([1])}, "the state at s holds a torch.Size"),
        ({LEARNED: 1}, "holds a torch.Tensor"),
        ({"a": np.zeros(1, ">f4")}, "the state at a holds a numpy.ndarray"),
        ({"a": np.ma.array([1])}, "the state at a holds a numpy.ma.MaskedArray"),
        ({"b": b"bytes"}, "the state at b holds a bytes"),
    ],
)
def test_what_cannot_come_back_is_refused_by_name(state: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(StateError) as refused:
        returned(state, tmp_path)
    assert words in str(refused.value)


def test_a_state_that_holds_itself_is_refused(tmp_path: Path) -> None:
    state: list[Any] = []
    state.append(state)
    with pytest.raises(StateError, match="more than 100 nested containers"):
        returned(state, tmp_path)


def test_a_manifest_with_sorted_keys_is_read_as_before(tmp_path: Path) -> None:
    """An earlier version wrote it so."""
    store = CheckpointStore(CheckpointReader(str(tmp_path), "k" * 64, attempt=1), Keep())
    store.save(1, {"b": 1, "a": (2,)}, 0.0, None, ())
    store.settle()
    (manifest,) = tmp_path.glob("*/a1/step-1/manifest.json")
    fields = json.loads(manifest.read_text())
    names = ("key", "step", "seconds", "score", "files", "outline", "reports")
    earlier_fields = {name: fields[name] for name in names}
    manifest.write_bytes(_as_before(earlier_fields))
    assert saved_state(manifest.parent) == {"b": 1, "a": (2,)}


def _as_before(fields: dict[str, Any]) -> bytes:
    import hashlib

    content = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    manifest = fields | {"sha256": hashlib.sha256(content).hexdigest()}
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
