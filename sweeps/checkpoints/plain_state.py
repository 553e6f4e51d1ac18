"""Convert a plain state to an outline of JSON and parts in safetensors, and back without loss.

The state comes back on the host, equal to the bit, with the order of each dict. Tensors and arrays
keep the order of their axes in memory, as a clone does; one that occurs twice stays one object.
Nothing is read by executing it. This module imports neither torch nor NumPy unless the state holds
their objects.
"""

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.task import StateError

TENSORS = "tensors.safetensors"
ARRAYS = "arrays.safetensors"
REFERENCE_MARK = "$"
"""The key that marks a dict of the outline as a reference: it represents something other than a
plain dict."""
Reference = dict[str, Any]
"""An entry of the outline with ``REFERENCE_MARK``."""
PLAIN_VALUES = (bool, int, float, str, type(None))
LARGEST_PLAIN_INT = 2**63
"""Python writes no integer of thousands of digits as a decimal text."""
FACTORIES: dict[str, Callable[[], Any] | None] = {
    **{factory.__name__: factory for factory in (bool, int, float, str, list, dict, tuple)},
    "None": None,
}
"""The factories of a defaultdict that have a name in an outline."""
WIDTHS = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
}
"""The types of numbers that safetensors holds."""
DEEPEST = 100
"""How deeply containers may be nested. One that contains itself has no end."""
ADVICE = (
    "make it of dicts, lists, numbers, text, and dense tensors and arrays of real numbers, or give "
    "the task `save` and `load`"
)


@dataclass(frozen=True)
class Parts:
    """A state, copied to the host: what training does next does not change it."""

    outline: Any = None
    tensors: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(state: Any) -> "Parts":
        """Raises StateError for a state that is not plain."""
        writer = _Writer()
        outline = writer.outline(state, "")
        return Parts(outline, writer.tensors, writer.arrays)

    def files(self) -> dict[str, bytes]:
        """The content of each file; no file where there is nothing."""
        files: dict[str, bytes] = {}
        if self.tensors:
            import safetensors.torch

            files[TENSORS] = safetensors.torch.save(self.tensors)
        if self.arrays:
            import safetensors.numpy

            files[ARRAYS] = safetensors.numpy.save(self.arrays)
        return files

    @staticmethod
    def read(outline: Any, files: Mapping[str, bytes]) -> "Parts":
        """From a manifest's outline and the content of the files."""
        tensors = {}
        arrays = {}
        if TENSORS in files:
            import safetensors.torch

            tensors = safetensors.torch.load(files[TENSORS])
        if ARRAYS in files:
            import safetensors.numpy

            arrays = safetensors.numpy.load(files[ARRAYS])
        return Parts(outline, tensors, arrays)

    def state(self) -> Any:
        """The state again, on the host. Raises KeyError, TypeError or ValueError if the outline
        does not fit."""
        return _Reader(self.tensors, self.arrays).value(self.outline)


class _Writer:
    """Takes the tensors and arrays out of a state and puts references to them into the outline."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.arrays: dict[str, Any] = {}
        self._references: dict[Any, Reference] = {}  # of tensors and arrays, by their memory
        self._depth = 0

    def outline(self, value: Any, path: str) -> Any:
        if type(value) in PLAIN_VALUES:
            return _plain(value)
        if self._depth >= DEEPEST:
            raise _refused(path, f"more than {DEEPEST} nested containers")
        self._depth += 1
        outline = self._of_container(value, path)
        self._depth -= 1
        return outline

    def _of_container(self, value: Any, path: str) -> Any:
        container = type(value)
        if container is list:
            return self._items(value, path)
        if container is tuple:
            return _reference("tuple", self._items(value, path))
        if container in (dict, OrderedDict, defaultdict):
            return self._of_dict(value, path)
        return self._of_numbers(value, path)

    def _items(self, values: Sequence[Any], path: str) -> list[Any]:
        return [self.outline(value, f"{path}/{index}") for index, value in enumerate(values)]

    def _of_dict(self, value: dict[Any, Any], path: str) -> dict[str, Any]:
        entries = {
            key: self.outline(entry, f"{path}/{_spelled(key)}") for key, entry in value.items()
        }
        if (
            type(value) is dict
            and REFERENCE_MARK not in value
            and all(type(key) is str for key in value)
        ):
            return entries
        pairs = [[self._key(key, f"{path}, a key"), entry] for key, entry in entries.items()]
        if isinstance(value, OrderedDict):
            attributes = vars(value)  # a state_dict of torch has the versions of its modules there
            if not attributes:
                return _reference("ordered", pairs)
            return _reference(
                "ordered", pairs, attributes=self.outline({**attributes}, f"{path}, its attributes")
            )
        if isinstance(value, defaultdict):
            return _reference("defaultdict", pairs, factory=_factory_name(value, path))
        return _reference("dict", pairs)

    def _key(self, key: Any, path: str) -> Any:
        if type(key) in PLAIN_VALUES:
            return _plain(key)
        if type(key) is tuple:
            return _reference("tuple", [self._key(part, path) for part in key])
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(key, numpy.generic):
            return self._of_numbers(key, path)
        raise _refused(path, f"a {_called(type(key))}")

    def _of_numbers(self, value: Any, path: str) -> Reference:
        """The reference to a tensor, an array or a number of NumPy."""
        torch = sys.modules.get("torch")
        numpy = sys.modules.get("numpy")
        if (
            torch is not None
            and type(value) in (torch.Tensor, torch.nn.Parameter)
            and _is_dense(value)
        ):
            return self._of_tensor(value, path)
        if numpy is not None and isinstance(value, numpy.generic) and _is_native(value):
            return _reference("number", _put(self.arrays, path, numpy.array(value)))
        if numpy is not None and type(value) is numpy.ndarray and _is_native(value):
            return self._of_array(value, path)
        raise _refused(path, f"a {_called(type(value))}{_number_words(value)}")

    def _of_tensor(self, tensor: Any, path: str) -> Reference:
        if tensor.grad_fn is not None:
            raise StateError(
                f"the state{_at(path)} holds a tensor that still has its graph: "
                "save tensor.detach()"
            )
        memory = (
            tensor.data_ptr(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            type(tensor),
            tensor.requires_grad,
        )
        if memory not in self._references or tensor.numel() == 0:
            copy = tensor.detach().to("cpu", copy=True).resolve_neg()
            axes = _axes_in_memory(copy.stride())
            name = _put(self.tensors, path, copy.permute(axes).contiguous())
            tensor_type = "parameter" if type(tensor).__name__ == "Parameter" else "tensor"
            gradient = {"requires_grad": True} if tensor.requires_grad else {}
            self._references[memory] = _reference(
                tensor_type, name, **_unless_sorted(axes), **gradient
            )
        return self._references[memory]

    def _of_array(self, array: Any, path: str) -> Reference:
        memory = array.__array_interface__["data"], array.shape, array.strides, array.dtype
        if memory not in self._references or array.size == 0:
            copy = array.copy(order="K")
            axes = _axes_in_memory(copy.strides)
            name = _put(self.arrays, path, copy.transpose(axes).copy(order="C"))
            self._references[memory] = _reference("array", name, **_unless_sorted(axes))
        return self._references[memory]


class _Reader:
    """Puts tensors and arrays back into the outline."""

    def __init__(self, tensors: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self._tensors = tensors
        self._arrays = arrays
        # an object that occurs twice is restored once
        self._restored: dict[tuple[str, str], Any] = {}
        self._kinds: dict[str, Callable[..., Any]] = {
            "int": lambda digits: int(digits, 16),
            "tuple": lambda items: tuple(map(self.value, items)),
            "dict": self._pairs,
            "ordered": self._ordered,
            "defaultdict": lambda pairs, factory: defaultdict(
                FACTORIES[factory], self._pairs(pairs)
            ),
            "number": lambda name: self._arrays[name][()],
            "array": self._array,
            "tensor": self._tensor,
            "parameter": self._parameter,
        }

    def value(self, outline: Any) -> Any:
        if isinstance(outline, list):
            return [self.value(item) for item in outline]
        if not isinstance(outline, dict):
            return outline
        if REFERENCE_MARK not in outline:
            return {key: self.value(entry) for key, entry in outline.items()}
        options = {
            name: option for name, option in outline.items() if name not in (REFERENCE_MARK, "of")
        }
        return self._kinds[outline[REFERENCE_MARK]](outline["of"], **options)

    def _pairs(self, pairs: Sequence[Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(entry) for key, entry in pairs}

    def _ordered(self, pairs: Sequence[Any], attributes: Any = None) -> OrderedDict[Any, Any]:
        ordered = OrderedDict(self._pairs(pairs))
        vars(ordered).update(self.value(attributes or {}))
        return ordered

    def _array(self, name: str, axes: Sequence[int] = ()) -> Any:
        if ("array", name) not in self._restored:
            array = self._arrays[name]
            self._restored["array", name] = array.transpose(_inverse(axes)) if axes else array
        return self._restored["array", name]

    def _tensor(self, name: str, axes: Sequence[int] = (), requires_grad: bool = False) -> Any:
        if ("tensor", name) not in self._restored:
            tensor = self._tensors[name]
            tensor = tensor.permute(_inverse(axes)) if axes else tensor
            self._restored["tensor", name] = tensor.requires_grad_(requires_grad)
        return self._restored["tensor", name]

    def _parameter(self, name: str, axes: Sequence[int] = (), requires_grad: bool = False) -> Any:
        import torch

        if ("parameter", name) not in self._restored:
            tensor = self._tensor(name, axes)
            self._restored["parameter", name] = torch.nn.Parameter(tensor, requires_grad)
        return self._restored["parameter", name]


def _plain(value: Any) -> Any:
    """The value as JSON holds it."""
    if type(value) is int and abs(value) >= LARGEST_PLAIN_INT:
        return _reference("int", hex(value))
    return value


def _reference(type_name: str, content: Any, **options: Any) -> Reference:
    return {REFERENCE_MARK: type_name, "of": content, **options}


def _factory_name(value: "defaultdict[Any, Any]", path: str) -> str:
    for name, factory in FACTORIES.items():
        if value.default_factory is factory:
            return name
    raise _refused(path, f"a defaultdict of {value.default_factory!r:.60}")


def _axes_in_memory(strides: Sequence[int]) -> list[int]:
    """The axes in the order in which they lie in memory, the one with the longest stride first."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def _unless_sorted(axes: list[int]) -> dict[str, list[int]]:
    """The entry of a reference for the axes: none if they are in their usual order."""
    return {} if axes == sorted(axes) else {"axes": axes}


def _inverse(axes: Sequence[int]) -> list[int]:
    return sorted(range(len(axes)), key=axes.__getitem__)


def _is_dense(tensor: Any) -> bool:
    width = str(tensor.dtype).removeprefix("torch.")
    return width in WIDTHS and str(tensor.layout) == "torch.strided" and not tensor.is_quantized


def _is_native(number: Any) -> bool:
    """Whether its type is NumPy's own, in this machine's order of bytes."""
    dtype = number.dtype
    return dtype.name in WIDTHS and dtype.kind in "biuf" and dtype.isnative


def _number_words(value: Any) -> str:
    """What a tensor or an array holds, such as " of complex64"; "" for anything else."""
    if type(value).__name__ not in ("Tensor", "Parameter", "ndarray"):
        return ""
    layout = str(getattr(value, "layout", "torch.strided")).removeprefix("torch.")
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if layout != "strided":
        return f" with the layout {layout}"
    return f" of {dtype}" if dtype else ""


def _put(parts: dict[str, Any], path: str, value: Any) -> str:
    """Under a name of its own; a lone surrogate of a key is spelled out."""
    name = path[1:].encode("utf-8", "backslashreplace").decode() or "state"
    while name in parts or name == "__metadata__":
        name += "'"
    parts[name] = value
    return name


def _spelled(key: Any) -> str:
    """A key within the name of a part."""
    try:
        return str(key)
    except ValueError:  # an integer of thousands of digits
        return "integer"


def _refused(path: str, content: str) -> StateError:
    return StateError(f"the state{_at(path)} holds {content}: {ADVICE}")


def _at(path: str) -> str:
    return f" at {path[1:]}" if path else ""


def _called(type_: type) -> str:
    return (
        type_.__qualname__
        if type_.__module__ == "builtins"
        else f"{type_.__module__}.{type_.__qualname__}"
    )
