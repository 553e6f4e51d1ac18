"""TensorBoard's event files, without its package: records of protocol buffers, of which only the
scalars are read.

A record is a length (8 bytes), its checksum (4), the data, and their checksum (4). The numbers of
the fields are those of event.proto, summary.proto and tensor.proto, which TensorFlow keeps stable.
"""

import struct
from collections.abc import Iterable, Iterator

from tracking.written.formats.growing_points import GrowingPoints
from tracking.written.growing_file import Growth, UnreadError
from tracking.written.point import WrittenPoint, printable

# fields of Event
STEP = 2
SUMMARY = 5
# of Summary
VALUE = 1
# of Value
TAG = 1
SIMPLE_VALUE = 2
TENSOR = 8
# of Tensor
TYPE = 1
SHAPE = 2
CONTENT = 4
FLOATS = 5
DOUBLES = 6
FORMATS = {1: "<f", 2: "<d"}
"""By TensorFlow's number of a type: float and double."""
# wire types of protocol buffers
VARINT = 0
EIGHT_BYTES = 1
BYTES = 2
FOUR_BYTES = 5
HEAD = 12  # bytes before a record's data
TAIL = 4  # and after it

Field = tuple[int, int | bytes]


class EventFile(GrowingPoints):
    def complete(self) -> None:
        """Records have no newlines."""

    def _records(self, growth: Growth) -> Iterator[Iterable[WrittenPoint]]:
        """Raises UnreadError at a record that is none."""
        content = growth.content
        start = 0
        while (data := _record(content, start)) is not None:
            end = start + HEAD + len(data) + TAIL
            self._file.advance(content[start:end])
            start = end
            try:
                yield [
                    WrittenPoint(printable(name), value, step, self._source)
                    for name, value, step in _scalars(data)
                ]
            except (IndexError, struct.error, TypeError) as error:
                raise UnreadError("holds a record that is no event") from error


def _record(content: bytes, start: int) -> bytes | None:
    """The data of the record that begins here; None if it is not whole yet."""
    if start + HEAD > len(content):
        return None
    (length,) = struct.unpack_from("<Q", content, start)
    end = start + HEAD + length
    return content[start + HEAD : end] if end + TAIL <= len(content) else None


def _scalars(event: bytes) -> Iterator[tuple[str, float, int]]:
    """The name, value and step of each scalar in an event."""
    fields = dict(_fields(event))
    step = fields.get(STEP, 0)
    summary = fields.get(SUMMARY)
    if not isinstance(step, int) or not isinstance(summary, bytes):
        return
    for number, value in _fields(summary):
        if number == VALUE and isinstance(value, bytes):
            parts = dict(_fields(value))
            tag = parts.get(TAG)
            scalar = _scalar(parts)
            if scalar is not None and isinstance(tag, bytes):
                yield tag.decode("utf-8", "replace"), scalar, step


def _scalar(parts: dict[int, int | bytes]) -> float | None:
    """The value of a scalar; None for a histogram, an image and the like."""
    simple = parts.get(SIMPLE_VALUE)
    if isinstance(simple, bytes):
        return _unpacked("<f", simple)
    tensor = parts.get(TENSOR)
    if not isinstance(tensor, bytes):
        return None
    fields = dict(_fields(tensor))
    form = FORMATS.get(_whole(fields.get(TYPE)))
    content = fields.get(CONTENT, fields.get(FLOATS, fields.get(DOUBLES)))
    if form is None or fields.get(SHAPE) or not isinstance(content, bytes):
        return None
    return _unpacked(form, content) if len(content) == struct.calcsize(form) else None


def _unpacked(form: str, content: bytes) -> float:
    (value,) = struct.unpack(form, content)
    return float(value)


def _whole(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _fields(message: bytes) -> Iterator[Field]:
    """The number and the value of each field; bytes of a number that is not a varint."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        wire_type = key & 7
        if wire_type == VARINT:
            value, position = _varint(message, position)
            yield key >> 3, value
            continue
        if wire_type == BYTES:
            length, position = _varint(message, position)
        else:
            length = {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(wire_type, len(message) + 1)
        if position + length > len(message):
            raise IndexError("a field is longer than its message")
        yield key >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and the position behind it."""
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 127) << shift
        position += 1
        shift += 7
        if byte < 128:
            return number, position
