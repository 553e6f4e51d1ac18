"""Colors that the color-blind can tell apart: those of Okabe and Ito, and the grays around them.

On a page each color is a CSS variable, so that dark mode has others. The first value is that of files on paper.
"""

from collections.abc import Sequence

INK, MUTED, RULE, PAPER = "#1c1d22", "#6e7079", "#d8d9de", "#fefefe"
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES: tuple[object, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
VARIABLES = {
    **{INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"},
    **{color: f"--series-{place}" for place, color in enumerate(SERIES, 1)},
}


def line_style(place: int) -> tuple[str, object]:
    """Color and dashes of the line at this place: a color comes again only with other dashes."""
    return SERIES[place % len(SERIES)], DASHES[place // len(SERIES) % len(DASHES)]


def group_styles(groups: Sequence[str], base: str) -> dict[str, tuple[str, str]]:
    """Color and marker by group; the group of base has ink and a circle."""
    others = [group for group in dict.fromkeys(groups) if group != base]
    shapes = MARKERS[1:]
    found = {
        group: (SERIES[place % len(SERIES)], shapes[(place + place // len(SERIES)) % len(shapes)])
        for place, group in enumerate(others)
    }
    return {base: (INK, MARKERS[0])} | found
