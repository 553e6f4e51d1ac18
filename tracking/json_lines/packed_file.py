"""Statistics of a published study: a line per column of counts instead of one per sample, a third
of the size.

The first line is the head, with the number of samples as ``columns``. Every further line is a
column: ``{"column": "chrf", "place": 3, "minus": 0, "values": […]}`` is the fourth number of the
list ``chrf`` of each sample, minus the first one. Without a ``place`` the field is a number, and
without ``minus`` the values are the numbers.
"""

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracking.files import DamagedFileError
from tracking.json_lines.lines import Lines

COLUMNS = "columns"
"""The key of a head whose samples are stored by columns; its value is their number."""
FARTHEST = 3
"""How many columns back a column may refer: counts of n-grams follow from those of lower order."""
Sample = Mapping[str, Any]
Column = list[Any]


def zipped(text: str) -> bytes:
    """The gzipped text, with the same bytes at any time."""
    return gzip.compress(text.encode(), 9, mtime=0)


def packed_text(head: Sample, samples: Sequence[Sample]) -> str:
    """The lines of ``packed``, without spaces between values."""
    texts = []
    for line in packed(head, samples):
        texts.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    return "".join(texts)


def packed(head: Sample, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The lines of the packed file; of the plain file if the samples' fields differ."""
    if not _are_alike(samples):
        return [dict(head), *map(dict, samples)]
    lines = [{**head, COLUMNS: len(samples)}]
    for name, value in samples[0].items():
        column = [sample[name] for sample in samples]
        if isinstance(value, list):
            columns = [list(numbers) for numbers in zip(*column, strict=True)]
            lines += _packed_list(name, columns)
        else:
            lines.append({"column": name, "values": column})
    return lines


def unpacked(lines: Lines) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head and the samples of a file, packed or plain. Raises DamagedFileError."""
    if not lines:
        raise DamagedFileError(lines.path, "is empty")
    head, *body = lines
    if COLUMNS not in head:
        return head, body
    count = head.pop(COLUMNS)
    try:
        samples = _samples(int(count), body)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DamagedFileError(lines.path, f"has no whole columns: {error!r}") from None
    return head, samples


def sample_count(lines: Lines) -> int:
    """How many samples a file has, packed or plain. Raises DamagedFileError."""
    if not lines:
        return 0
    return int(lines[0].get(COLUMNS, len(lines) - 1))


def _samples(count: int, lines: Iterable[Sample]) -> list[dict[str, Any]]:
    samples: list[dict[str, Any]] = [{} for _ in range(count)]
    lists: dict[str, list[Column]] = {}
    for line in lines:
        name = line["column"]
        values = line["values"]
        if "place" not in line:
            for sample, value in zip(samples, values, strict=True):
                sample[name] = value
            continue
        columns_of_list = lists.setdefault(name, [])
        if "minus" in line:
            subtracted = columns_of_list[line["minus"]]
            values = [value + less for value, less in zip(values, subtracted, strict=True)]
        columns_of_list.append(values)
        for sample, value in zip(samples, values, strict=True):
            sample.setdefault(name, []).append(value)
    return samples


def _packed_list(name: str, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Each column itself or minus an earlier one: whichever takes the fewest bits."""
    lines = []
    for index, column in enumerate(columns):
        plain_line: dict[str, Any] = {"column": name, "place": index, "values": column}
        choices = [plain_line]
        for earlier in range(max(0, index - FARTHEST), index):
            differences = _differences(column, columns[earlier])
            if differences is not None:
                choices.append({**plain_line, "minus": earlier, "values": differences})
        lines.append(min(choices, key=lambda line: _bits(line["values"])))
    return lines


def _bits(column: Column) -> float:
    """The length of an ideal code for these values, rounded: the same on every machine."""
    counts = Counter(column).values()
    return round(sum(count * math.log2(len(column) / count) for count in counts), 3)


def _differences(column: Column, earlier: Column) -> Column | None:
    """The column minus an earlier one; None unless all are whole numbers, so exact."""
    if not all(type(number) is int for number in [*column, *earlier]):
        return None
    return [value - less for value, less in zip(column, earlier, strict=True)]


def _are_alike(samples: Sequence[Sample]) -> bool:
    """Whether all samples have the same fields in the same order, with lists of numbers of the same
    length."""
    if not samples:
        return False
    first = _shape(samples[0])
    has_numbers = all(_holds_numbers(value) for sample in samples for value in sample.values())
    return has_numbers and all(_shape(sample) == first for sample in samples)


def _holds_numbers(value: Any) -> bool:
    """Whether a field that is a list holds numbers alone, and at least one."""
    if not isinstance(value, list):
        return True
    return bool(value) and all(isinstance(number, int | float) for number in value)


def _shape(sample: Sample) -> list[tuple[str, int | None]]:
    """The fields, with the length of those that are lists."""
    return [
        (name, len(value) if isinstance(value, list) else None) for name, value in sample.items()
    ]
