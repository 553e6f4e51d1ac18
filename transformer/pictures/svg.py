"""A sketch as SVG, in which words stay text."""

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from transformer.pictures.sketch import FONTS, PAPER, RULE, Four, Label, Marks, Sketch

LINE_WIDTH = 1.1
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REPLACEMENT = "\ufffd"


def svg(sketch: Sketch) -> str:
    """The sketch on white paper; the same sketch gives the same text."""
    width = _number(sketch.width)
    height = _number(sketch.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}pt" height="{height}pt" role="img" '
        f'aria-label={quoteattr(sketch.description)} font-family="{FONTS}">'
    )
    background = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return "\n".join([head, background, *_parts(sketch), "</svg>\n"])


def _parts(sketch: Sketch) -> Iterator[str]:
    yield from map(_boxes, sketch.boxes.values())
    if sketch.strips:
        yield '<g class="strips">'
        yield from map(_boxes, sketch.strips.values())
        yield "</g>"
    for frame in sketch.frames:
        yield f'<path fill="none" stroke="{RULE}" stroke-width=".5" d="{_box_path(frame)}"/>'
    yield f'<g class="lines" fill="none" stroke-width="{LINE_WIDTH}">'
    for lines in sketch.strongest_last():
        path = "".join(map(_line_path, lines.places))
        yield f'<path stroke="{lines.color}" stroke-opacity="{_number(lines.opacity)}" d="{path}"/>'
    yield "</g>"
    for label in sketch.labels:
        yield _text(label)


def _boxes(boxes: Marks) -> str:
    path = "".join(map(_box_path, boxes.places))
    return f'<path fill="{boxes.color}" fill-opacity="{_number(boxes.opacity)}" d="{path}"/>'


def _line_path(ends: Four) -> str:
    x1, y1, x2, y2 = map(_number, ends)
    return f"M{x1} {y1}L{x2} {y2}"


def _box_path(box: Four) -> str:
    x, y, width, height = map(_number, box)
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _text(label: Label) -> str:
    x = _number(label.x)
    y = _number(label.y)
    attributes = [f'x="{x}" y="{y}" font-size="{_number(label.size)}" fill="{label.color}"']
    if label.anchor != "start":
        attributes.append(f'text-anchor="{label.anchor}"')
    if label.bold:
        attributes.append('font-weight="bold"')
    if label.turned:
        attributes.append(f'transform="rotate(-90 {x} {y})"')
    if label.name:
        attributes.append(f'data-name="{label.name}"')
    text = escape(NOT_IN_XML.sub(REPLACEMENT, label.text))
    return f"<text {' '.join(attributes)}>{text}</text>"


def _number(value: float) -> str:
    """With at most two decimals, such as 12.5."""
    return f"{round(float(value), 2):g}"
