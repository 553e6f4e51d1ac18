"""Colors of runs in MLflow's charts: a hue per row, a shade per seed."""

import colorsys

from tracking.rows import BASE
from tracking.study import Study, Trial

GOLDEN = 0.618034  # of the color circle, so that neighbors in the table differ most
SHADES = (0.42, 0.58, 0.72, 0.34, 0.5)


def color_of(study: Study, trial: Trial) -> str:
    """`#rrggbb`; base is gray, as the reference of all others."""
    rows = list(dict.fromkeys(each.row for each in study.trials))
    seeds = sorted({each.seed for each in study.trials if each.row == trial.row})
    place, shade = rows.index(trial.row), SHADES[seeds.index(trial.seed) % len(SHADES)]
    channels = colorsys.hls_to_rgb((place * GOLDEN) % 1, shade, 0.0 if trial.row == BASE else 0.6)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
