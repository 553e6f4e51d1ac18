"""One self-contained HTML page: both pictures of each kind of attention, with what is below the
pointer in words."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformer.pictures.choice import TITLES, Choice, Kind
from transformer.pictures.columns import FAINTEST_LINE, ROW, Columns, draw_columns
from transformer.pictures.heat_maps import Grid, draw_heat_maps
from transformer.pictures.reading import Pair, Reading
from transformer.pictures.sketch import FAINTEST, head_color
from transformer.pictures.svg import LINE_WIDTH, svg

NOTES = {
    Kind.encoder: "Queries and keys are the words of the sentence.",
    Kind.decoder: "Queries and keys are what the decoder has read so far, <s> first.",
    Kind.cross: "A query is what the decoder writes next, a key a word of the sentence.",
}


@dataclass(frozen=True)
class Heading:
    """What the page says of the model and the text."""

    about: str
    sentence: str
    pair: Pair
    by_piece: bool


def page(
    heading: Heading,
    readings: Mapping[Kind, Reading],
    choice: Choice,
    only: Sequence[int] = (),
) -> str:
    """The page of these kinds of attention; ``only`` some queries of the chosen kind."""
    # Only pages import this, since it takes a moment.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = []
    for kind, reading in readings.items():
        kind_choice = Choice(kind, choice.layer, choice.heads)
        sections.append(_section(reading, kind_choice, only if kind == choice.kind else ()))
    template = environment.get_template("page.html")
    return template.render(
        heading=heading,
        sections=sections,
        line_width=LINE_WIDTH,
        faintest_line=FAINTEST_LINE,
        faintest_cell=FAINTEST,
    )


def _section(reading: Reading, choice: Choice, only: Sequence[int]) -> dict[str, Any]:
    """What the template shows of one kind."""
    return {
        "kind": choice.kind,
        "title": TITLES[choice.kind],
        "note": NOTES[choice.kind],
        "columns": svg(draw_columns(reading, choice, only)),
        "heat_maps": svg(draw_heat_maps(reading, choice.kind)),
        "data": _json(reading, choice, only),
    }


def _json(reading: Reading, choice: Choice, only: Sequence[int]) -> str:
    """The weights in 255 steps, and where the pictures are, for the page's script."""
    steps = np.round(reading.weights_LHQK * 255).astype(np.uint8)
    layers, heads, _, _ = steps.shape
    grid = Grid(reading)
    corners = []
    for layer in range(layers):
        corners.append([grid.corner(layer, head) for head in range(heads)])
    data = {
        "queries": reading.queries.texts,
        "keys": reading.keys.texts,
        "layers": layers,
        "heads": heads,
        "layer": choice.layer,
        "shown": choice.heads,
        "only": list(only),
        "weights": base64.b64encode(steps.tobytes()).decode(),
        "colors": [head_color(head) for head in range(1, heads + 1)],
        "columns": {**asdict(Columns.of(reading, choice)), "row": ROW},
        "grid": {"corners": corners, "cell": grid.cell},
    }
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
