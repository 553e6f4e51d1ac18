"""A sketch as PDF or PNG for a paper, drawn by Matplotlib; the same sketch gives the same bytes."""

import io
import os
import warnings
from typing import Any

from transformer.pictures.sketch import PAPER, RULE, Label, Sketch
from transformer.pictures.svg import LINE_WIDTH

POINTS_PER_INCH = 72
DOTS_PER_INCH = 300
METADATA: dict[str, dict[str, None]] = {
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
"""What Matplotlib must not write, since it changes from day to day."""
STYLE = {"font.family": ["DejaVu Sans"], "text.parse_math": False, "pdf.fonttype": 42}
ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def paper_file(sketch: Sketch, kind: str) -> bytes:
    """The content of a file of this kind: ``pdf`` or ``png``."""
    matplotlib = _matplotlib()
    content = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Glyph")  # a missing letter is a box
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = _figure(sketch)
        figure.savefig(content, format=kind, metadata=METADATA[kind], dpi=DOTS_PER_INCH)
    return content.getvalue()


def _matplotlib() -> Any:
    """The package, whatever backend the environment names: no window opens."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    return matplotlib


def _figure(sketch: Sketch) -> Any:
    """The sketch as a figure of its own size."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    size = (sketch.width / POINTS_PER_INCH, sketch.height / POINTS_PER_INCH)
    figure = Figure(figsize=size, facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, sketch.width), ylim=(sketch.height, 0))
    axes.set_axis_off()
    for boxes in (*sketch.boxes.values(), *sketch.strips.values()):
        patches = [Rectangle((x, y), width, height) for x, y, width, height in boxes.places]
        color = (boxes.color, boxes.opacity)
        axes.add_collection(PatchCollection(patches, facecolor=color, linewidth=0))
    frames = [Rectangle((x, y), width, height) for x, y, width, height in sketch.frames]
    axes.add_collection(PatchCollection(frames, facecolor="none", edgecolor=RULE, linewidth=0.5))
    for lines in sketch.strongest_last():
        ends = [((x1, y1), (x2, y2)) for x1, y1, x2, y2 in lines.places]
        color = (lines.color, lines.opacity)
        axes.add_collection(LineCollection(ends, colors=[color], linewidths=LINE_WIDTH))
    for label in sketch.labels:
        _write(axes, label)
    return figure


def _write(axes: Any, label: Label) -> None:
    """A label at its baseline; SVG turns it around the same point."""
    style: dict[str, Any] = {
        "fontsize": label.size,
        "color": label.color,
        "fontweight": "bold" if label.bold else "normal",
    }
    anchor = ANCHORS[label.anchor]
    if label.turned:
        style |= {"rotation": 90, "rotation_mode": "anchor"}
    axes.text(label.x, label.y, label.text, ha=anchor, va="baseline", **style)
