"""A grid of heat maps: a row per layer, a map per head, darker where the head reads more."""

from transformer.pictures.choice import TITLES, Kind
from transformer.pictures.reading import Reading
from transformer.pictures.sketch import CELL, MUTED, Label, Sketch, head_color, visible, width_of

MARGIN = 8.0
TITLE = 14.0
SIZE = 6.0
SMALL = 8.0
APART = 10.0
LARGEST_CELL = 7.0
SIDE = 96.0
"""The longest side of a map, unless its cells would be smaller than a point."""
LEAST_FOR_WORDS = 5.0
SWATCH = 6.0
HALF_LETTER = 0.36
HEADING = 46.0
"""The least distance of two maps, so that each has room for its \"head 12\"."""


class Grid:
    """Where the maps are, and their cells. The page finds cells by it, too."""

    def __init__(self, reading: Reading) -> None:
        queries = len(reading.queries)
        keys = len(reading.keys)
        self.layers, self.heads = reading.weights_LHQK.shape[:2]
        self.cell = max(1.0, min(LARGEST_CELL, SIDE / max(queries, keys)))
        self.has_words = self.cell >= LEAST_FOR_WORDS
        self.width = keys * self.cell
        self.height = queries * self.cell
        word_width = width_of(reading.queries.texts, SIZE) if self.has_words else 0.0
        self.key_height = width_of(reading.keys.texts, SIZE) + 4 if self.has_words else 0.0
        self.step = max(self.width + APART, HEADING)
        self.drop = max(self.height + APART, HEADING)
        self.left = MARGIN + SMALL + 6 + word_width + 3
        self.top = MARGIN + 2 * TITLE

    def corner(self, layer: int, head: int) -> tuple[float, float]:
        """The upper left corner of a map; layer and head are counted from 0."""
        return self.left + head * self.step, self.top + layer * self.drop

    @property
    def size(self) -> tuple[float, float]:
        x, y = self.corner(self.layers - 1, self.heads - 1)
        right = x + max(self.width, HEADING)
        return right + MARGIN, y + max(self.height + self.key_height, HEADING) + MARGIN


def draw_heat_maps(reading: Reading, kind: Kind) -> Sketch:
    """The maps of every layer and head; queries go down, keys to the right."""
    grid = Grid(reading)
    sketch = Sketch(f"{TITLES[kind]}: a heat map for each layer and head")
    sketch.width, sketch.height = grid.size
    title = f"{TITLES[kind]}: queries go down, keys go across"
    sketch.labels.append(Label(MARGIN, MARGIN + SMALL, title, size=SMALL, color=MUTED))
    sketch.width = max(sketch.width, 2 * MARGIN + width_of([title], SMALL))
    for head in range(grid.heads):
        _draw_heading(sketch, grid, head)
    for layer in range(grid.layers):
        _draw_layer_name(sketch, grid, layer)
        for head in range(grid.heads):
            _draw_map(sketch, grid, reading, layer, head)
    if grid.has_words:
        _draw_words(sketch, grid, reading)
    return sketch


def _draw_heading(sketch: Sketch, grid: Grid, head: int) -> None:
    """The number of a head above its column of maps, with its color."""
    x, top = grid.corner(0, head)
    sketch.box(head_color(head + 1), 1.0, (x, top - SWATCH - 4, SWATCH, SWATCH))
    sketch.labels.append(Label(x + SWATCH + 3, top - 4, f"head {head + 1}", size=SMALL))


def _draw_layer_name(sketch: Sketch, grid: Grid, layer: int) -> None:
    _, y = grid.corner(layer, 0)
    label = f"layer {layer + 1}"
    middle = y + grid.height / 2
    sketch.labels.append(Label(MARGIN + SMALL, middle, label, "middle", SMALL, turned=True))


def _draw_map(sketch: Sketch, grid: Grid, reading: Reading, layer: int, head: int) -> None:
    left, top = grid.corner(layer, head)
    sketch.frames.append((left, top, grid.width, grid.height))
    for query, key, weight in visible(reading.weights_LHQK[layer, head]):
        x = left + key * grid.cell
        y = top + query * grid.cell
        sketch.box(CELL, weight, (x, y, grid.cell, grid.cell))


def _draw_words(sketch: Sketch, grid: Grid, reading: Reading) -> None:
    """Queries on the left of each layer, and keys below each column."""
    middle = grid.cell / 2 + HALF_LETTER * SIZE
    for layer in range(grid.layers):
        left, top = grid.corner(layer, 0)
        for position, text in enumerate(reading.queries.texts):
            y = top + position * grid.cell + middle
            sketch.labels.append(Label(left - 3, y, text, "end", SIZE))
    for head in range(grid.heads):
        left, top = grid.corner(grid.layers - 1, head)
        bottom = top + grid.height
        for position, text in enumerate(reading.keys.texts):
            x = left + position * grid.cell + middle
            label = Label(x, bottom + 3, text, "end", SIZE, turned=True)
            sketch.labels.append(label)
