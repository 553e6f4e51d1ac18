"""A trial's state as data: an outline for the manifest, and its tensors and arrays by path, for safetensors.

No state is ever read by executing it. Imports neither torch nor NumPy: a state that holds none needs none.
"""

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweeps.task import StateError

TENSORS, ARRAYS = "tensors.safetensors", "arrays.safetensors"
REFERENCE_MARK = "$"
"""The key of an entry of the outline that stands for something else than a plain dict."""
PLAIN_VALUES = (bool, int, float, str, type(None))
DICTS = (dict, OrderedDict, defaultdict)
WIDTHS = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
}
"""The types of numbers that safetensors holds."""
ADVICE = "make it of dicts, lists, numbers, text, tensors and arrays, or give the task `save` and `load`"


@dataclass(frozen=True)
class Parts:
    """A state, copied to the host: what training does next does not change it."""

    outline: Any = None
    tensors: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(state: Any) -> "Parts":
        """Raises StateError for a state that is not plain."""
        tensors: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        return Parts(_Outline(tensors, arrays).of(state, ""), tensors, arrays)

    def files(self) -> dict[str, bytes]:
        """The content of each file; no file where there is nothing."""
        found: dict[str, bytes] = {}
        if self.tensors:
            import safetensors.torch

            found[TENSORS] = safetensors.torch.save(self.tensors)
        if self.arrays:
            import safetensors.numpy

            found[ARRAYS] = safetensors.numpy.save(self.arrays)
        return found

    @staticmethod
    def read(outline: Any, files: Mapping[str, bytes]) -> "Parts":
        """From a manifest's outline and the content of the files."""
        tensors, arrays = {}, {}
        if TENSORS in files:
            import safetensors.torch

            tensors = safetensors.torch.load(files[TENSORS])
        if ARRAYS in files:
            import safetensors.numpy

            arrays = safetensors.numpy.load(files[ARRAYS])
        return Parts(outline, tensors, arrays)

    def state(self) -> Any:
        """The state again, on the host. Raises KeyError, TypeError or ValueError if the outline does not fit."""
        return self._filled(self.outline)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, dict):
            return value
        if REFERENCE_MARK not in value:
            return {key: self._filled(each) for key, each in value.items()}
        kinds: dict[str, Callable[[Any], Any]] = {
            "tensor": self.tensors.__getitem__,
            "array": self.arrays.__getitem__,
            "number": lambda name: self.arrays[name][()],
            "tuple": lambda items: tuple(map(self._filled, items)),
            "dict": lambda items: {self._filled(key): self._filled(each) for key, each in items},
        }
        return kinds[value[REFERENCE_MARK]](value["of"])


class _Outline:
    """Takes tensors and arrays out of a state, and puts their names into their places."""

    def __init__(self, tensors: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.tensors, self.arrays = tensors, arrays

    def of(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in PLAIN_VALUES:
            return value
        if kind is list:
            return [self.of(each, f"{path}/{place}") for place, each in enumerate(value)]
        if kind is tuple:
            return {
                REFERENCE_MARK: "tuple",
                "of": [self.of(each, f"{path}/{place}") for place, each in enumerate(value)],
            }
        if kind in DICTS:
            return self._dict(value, path)
        return self._numbers(value, path)

    def _dict(self, value: dict[Any, Any], path: str) -> Any:
        items = [(key, self.of(each, f"{path}/{key}")) for key, each in value.items()]
        if all(type(key) is str for key in value) and REFERENCE_MARK not in value:
            return dict(items)
        return {
            REFERENCE_MARK: "dict",
            "of": [[self.of(key, f"{path}, the key {key!r:.40}"), each] for key, each in items],
        }

    def _numbers(self, value: Any, path: str) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter) and _is_dense(value):
            copy = value.detach().to("cpu", copy=True).contiguous()
            return {REFERENCE_MARK: "tensor", "of": _put(self.tensors, path, copy)}
        if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.name in WIDTHS:
            kind = "array" if type(value) is numpy.ndarray else "number"
            if kind == "array" or isinstance(value, numpy.generic):
                return {REFERENCE_MARK: kind, "of": _put(self.arrays, path, numpy.array(value, order="C"))}
        raise StateError(f"the state{f' at {path[1:]}' if path else ''} holds a {_called(type(value))}: {ADVICE}")


def _is_dense(tensor: Any) -> bool:
    width = str(tensor.dtype).removeprefix("torch.")
    return width in WIDTHS and str(tensor.layout) == "torch.strided" and not tensor.is_quantized


def _put(among: dict[str, Any], path: str, value: Any) -> str:
    """Under a name of its own; a lone surrogate of a key is spelled out."""
    name = path[1:].encode("utf-8", "backslashreplace").decode() or "state"
    while name in among or name == "__metadata__":
        name += "'"
    among[name] = value
    return name


def _called(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
