"""The paper's picture: two columns of words, and lines as strong as the weights between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer.pictures.choice import Choice
from transformer.pictures.reading import Reading
from transformer.pictures.sketch import INK, MUTED, Label, Sketch, head_color, visible, width_of

MARGIN = 8.0
TITLE = 12.0
ROW = 15.0
SIZE = 9.5
SMALL = 8.0
GAP = 4.0
SPAN = 150.0
"""The width of the lines."""
SPREAD = 8.0
"""The height at a word over which its heads' lines start."""
SWATCH = 8.0
SWATCH_STEP = 22.0
LEGEND = "heads"
LEGEND_WIDTH = 28.0
HALF_LETTER = 0.36
"""From a baseline to the middle of its letters, by their size."""
FAINTEST_LINE = 0.05
"""Lines of smaller weights would only make a fog. The heat maps show them."""


@dataclass(frozen=True)
class Columns:
    """Where the words and the ends of their lines are. The page draws lines by it, too."""

    left: float
    right: float
    top: float
    offsets: tuple[float, ...]

    @staticmethod
    def of(reading: Reading, choice: Choice) -> "Columns":
        query_width = max(width_of(reading.queries.texts, SIZE), width_of(["queries"], SMALL))
        left = MARGIN + query_width
        count = len(choice.heads)
        middle = (count - 1) / 2
        step = SPREAD / max(count - 1, 1)
        offsets = tuple((position - middle) * step for position in range(count))
        further_legend_rows = -(-count // _swatches_per_row(left)) - 1
        top = MARGIN + TITLE + 2 * ROW + further_legend_rows * ROW + GAP
        return Columns(left + GAP, left + GAP + SPAN, top, offsets)

    def middle(self, position: int) -> float:
        """The height of a word's middle."""
        return self.top + (position + 0.5) * ROW


def _swatches_per_row(left: float) -> int:
    return max(1, int((left + SPAN - LEGEND_WIDTH) // SWATCH_STEP))


def draw_columns(reading: Reading, choice: Choice, only: Sequence[int] = ()) -> Sketch:
    """Every query, or ``only`` some of them, and what the chosen heads read."""
    columns = Columns.of(reading, choice)
    title = choice.title(len(reading.weights_LHQK))
    sketch = Sketch(f"{title}: lines from each query to the keys that it reads")
    label = Label(MARGIN, MARGIN + SMALL, title, size=SMALL, color=MUTED, name="title")
    sketch.labels.append(label)
    _draw_legend(sketch, choice, columns)
    _draw_words(sketch, reading, columns, only)
    _draw_lines(sketch, reading, choice, columns, only or range(len(reading.queries)))
    if only:
        _draw_strips(sketch, reading, choice, columns, only)
    words = max(len(reading.queries), len(reading.keys))
    key_width = max(width_of(reading.keys.texts, SIZE), width_of(["keys"], SMALL))
    title_width = width_of([title], SMALL)
    sketch.width = MARGIN + max(columns.right + GAP + key_width, MARGIN + title_width)
    sketch.height = columns.top + words * ROW + MARGIN
    return sketch


def _draw_legend(sketch: Sketch, choice: Choice, columns: Columns) -> None:
    """A square and a number for each head."""
    per_row = _swatches_per_row(columns.left - GAP)
    first = MARGIN + TITLE + SWATCH + 1
    sketch.labels.append(Label(MARGIN, first, LEGEND, size=SMALL, color=MUTED))
    for position, head in enumerate(choice.heads):
        row, column = divmod(position, per_row)
        x = MARGIN + LEGEND_WIDTH + column * SWATCH_STEP
        y = MARGIN + TITLE + row * ROW
        sketch.box(head_color(head), 1.0, (x, y + 2, SWATCH, SWATCH))
        label = Label(x + SWATCH + 3, y + 9, str(head), size=SMALL, name=f"head-{head}")
        sketch.labels.append(label)


def _draw_words(
    sketch: Sketch,
    reading: Reading,
    columns: Columns,
    bold: Sequence[int],
) -> None:
    """Queries on the left, keys on the right. If some queries are bold, the others are gray."""
    heading = columns.top - GAP
    left = columns.left - GAP
    right = columns.right + GAP
    sketch.labels.append(Label(left, heading, "queries", "end", SMALL, MUTED))
    sketch.labels.append(Label(right, heading, "keys", "start", SMALL, MUTED))
    for position, text in enumerate(reading.queries.texts):
        baseline = columns.middle(position) + HALF_LETTER * SIZE
        is_bold = position in bold
        color = MUTED if bold and not is_bold else INK
        name = f"query-{position}"
        label = Label(left, baseline, text, "end", SIZE, color, bold=is_bold, name=name)
        sketch.labels.append(label)
    for position, text in enumerate(reading.keys.texts):
        baseline = columns.middle(position) + HALF_LETTER * SIZE
        sketch.labels.append(Label(right, baseline, text, "start", SIZE, name=f"key-{position}"))


def _draw_lines(
    sketch: Sketch,
    reading: Reading,
    choice: Choice,
    columns: Columns,
    queries: Sequence[int],
) -> None:
    """What the chosen heads read for these queries."""
    for head, offset in zip(choice.heads, columns.offsets, strict=True):
        color = head_color(head)
        for query, key, weight in visible(reading.weights_LHQK[choice.layer - 1, head - 1]):
            if query in queries and weight >= FAINTEST_LINE:
                start = columns.middle(query) + offset
                end = columns.middle(key) + offset
                sketch.line(color, weight, (columns.left, start, columns.right, end))


def _draw_strips(
    sketch: Sketch,
    reading: Reading,
    choice: Choice,
    columns: Columns,
    queries: Sequence[int],
) -> None:
    """Behind each key a strip per head, as strong as its greatest weight for these queries."""
    width = width_of(reading.keys.texts, SIZE) / len(choice.heads)
    for position, head in enumerate(choice.heads):
        strongest_K = reading.weights_LHQK[choice.layer - 1, head - 1, list(queries)].max(0)
        for key, weight in enumerate(strongest_K):
            x = columns.right + GAP - 1 + position * width
            y = columns.middle(key) - ROW / 2 + 1
            sketch.strip(head_color(head), weight, (x, y, width, ROW - 2))
