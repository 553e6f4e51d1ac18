"""Runs in a csv file: as W&B and pandas write it, or from any spreadsheet."""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import zip_longest
from pathlib import Path

from tracking.files import DamagedFileError, decoded, read_whole
from tracking.observed.source_table import (
    SourceTable,
    Value,
    cell_value,
    is_number,
    named_value,
    refused,
    shown_path,
    with_decimal_point,
)

BYTE_ORDER_MARK = "\ufeff"
INDEX_NAME = re.compile(r"(?:Unnamed: \d+(?:\.\d+)*)?")
"""The head of pandas' index, as it writes it, and as it reads and writes it again."""
DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*%?")
DELIMITERS = (",", ";", "\t")
LONGEST_FIELD = 1 << 24
"""Characters: W&B writes whole objects into a cell."""


def read_csv(path: Path) -> SourceTable:
    """The runs of the file, in its order. Raises ImportRefusedError, DamagedFileError."""
    content = read_whole(path)
    if content is None:
        raise refused("SOURCE", f"is {path}, which does not exist", "must be a CSV file")
    text = decoded(path, content).removeprefix(BYTE_ORDER_MARK)
    delimiter = _delimiter(text)
    numbered_lines = list(_lines(path, text, delimiter))
    head = numbered_lines[0][1] if numbered_lines else []
    _check_head(path, head)
    numbers = [number for number, _ in numbered_lines[1:]]
    lines = [cells for _, cells in numbered_lines[1:]]
    if delimiter != "," and not _has_decimal_point(lines):
        lines = [list(map(with_decimal_point, cells)) for cells in lines]
    _check_percent(path, head, lines, numbers)
    table = [_line(path, head, *each) for each in zip(numbers, lines, strict=True)]
    if not table:
        raise DamagedFileError(path, "has no run: there is no line below its head")
    columns = tuple(name for name in head if not _is_index(name, table))
    return SourceTable(shown_path(path), path.stem, columns, tuple(table))


def _lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Every line that is not blank, as its number in the file and its cells. A cell with a line
    break makes one line of several: its number is that of the last one."""
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DamagedFileError(path, f"not csv: {error}") from None


def _has_decimal_point(lines: Iterable[Iterable[str]]) -> bool:
    """Whether any number has one: then a comma between digits separates thousands."""
    return any(DECIMAL_POINT.fullmatch(cell.strip()) for cells in lines for cell in cells)


def _delimiter(text: str) -> str:
    """The one that the head has most of: a spreadsheet may write semicolons or tabs."""
    head = text.partition("\n")[0]
    return max(DELIMITERS, key=head.count)


def _check_head(path: Path, head: Sequence[str]) -> None:
    doubled = [name for name, number in Counter(head).items() if number > 1 and name]
    if doubled:
        raise DamagedFileError(path, f"has two columns named {doubled[0]}", 1)
    if len(head) < 2:
        raise DamagedFileError(path, "must have at least two columns", 1)


def _check_percent(
    path: Path, head: Sequence[str], lines: Sequence[Sequence[str]], numbers: Sequence[int]
) -> None:
    """Raises DamagedFileError for a column with 90.1% and 0.92: the second may mean 92%.
    ``numbers``: of the lines in the file."""
    for name, cells in zip(head, zip_longest(*lines, fillvalue=""), strict=False):
        first_lines: dict[bool, int] = {}
        for place, cell in enumerate(cells):
            value = cell_value(cell)
            if is_number(value) and math.isfinite(value):
                first_lines.setdefault(cell.rstrip().endswith("%"), place)
        if len(first_lines) == 2:
            first, second = sorted(first_lines.values())
            both = f"{cells[second].strip()} in {name}, but {cells[first].strip()} before it"
            fault = f"has {both}: write both with %, or neither"
            raise DamagedFileError(path, fault, numbers[second])


def _line(path: Path, head: Sequence[str], number: int, cells: Sequence[str]) -> dict[str, Value]:
    """One run. Cells that are missing at the end of a line are empty."""
    if len(cells) > len(head):
        fault = f"has {len(cells)} cells, but the head has {len(head)}"
        raise DamagedFileError(path, fault, number)
    return {name: named_value(name, cell) for name, cell in zip(head, cells, strict=False)}


def _is_index(name: str, table: Sequence[Mapping[str, Value]]) -> bool:
    """Whether the column is pandas' index: it numbers the lines, from 0 or after some were left
    out."""
    if not INDEX_NAME.fullmatch(name):
        return False
    numbers = [line.get(name) for line in table]
    return all(type(number) is int for number in numbers) and len({*numbers}) == len(numbers)
