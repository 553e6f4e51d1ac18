"""Names and colors in MLflow: of metrics and of runs. docs/mlflow.md explains them to users."""

import colorsys
from collections import Counter

from tracking.card import Card
from tracking.journal import JournalLine
from tracking.statistics.rows import BASE
from tracking.study import Study, Trial

VAL, FINAL, BEST, LAST, DELTA, PUBLISHED = "val/", "final/", "best/", "last/", "delta/", "published/"
PUBLISHED_DELTA = "published/delta/"
OF_OTHERS = (BEST, LAST, DELTA, PUBLISHED)  # these are not of the finished model
ROW = "row."  # tags: mean ± sd of a run's row, and its difference from base

WIDTH = 22  # characters of a run's name that MLflow's list shows
GOLDEN = 0.618034  # of the color circle, so that neighbors in the table differ most
SHADES = (0.42, 0.58, 0.72, 0.34, 0.5)


def points_in(card: Card, report: JournalLine) -> dict[str, float]:
    """The values of a report, named as in MLflow."""
    return {journal_name(card, name): value for name, value in report.metrics.items()}


def journal_name(card: Card, name: str) -> str:
    """`val/<metric>` for a metric of the card on its own set, such as `dev/<metric>`; other names as they are."""
    set_name, _, metric = name.partition("/")
    return f"{VAL}{metric}" if _is_own(card, set_name, metric) else name


def final_name(card: Card, set_name: str, metric: str) -> str:
    """`final/<metric>` on the metric's own set, which the table shows; `final/<set>/<metric>` on others."""
    return f"{FINAL}{metric}" if _is_own(card, set_name, metric) else f"{FINAL}{set_name}/{metric}"


def _is_own(card: Card, set_name: str, metric: str) -> bool:
    return any(each.name == metric and each.set == set_name for each in card.metrics)


def run_names(study: Study) -> dict[str, str]:
    """The name of each trial's run by its key: unique in the study, such as `base s1`, `C d_model 1024 s1`.

    Where two shortened names are the same, it has the row's whole name: rows differ in their names."""
    wanted = {trial.key: _shortest(trial) for trial in study.trials}
    taken = Counter(wanted.values())
    whole = {trial.key: f"{trial.row} s{trial.seed}" for trial in study.trials}
    return {key: name if taken[name] == 1 else whole[key] for key, name in wanted.items()}


def _shortest(trial: Trial) -> str:
    """The first of these that fits: the change, its first value, the row's name, a part of the row's name."""
    if trial.group == trial.row:
        return f"{trial.row} s{trial.seed}"
    choices = (trial.change, trial.change.partition(",")[0], _row_words(trial))
    names = [f"{trial.group} {words} s{trial.seed}" for words in choices if words]
    return next((name for name in names if len(name) <= WIDTH), _cut(trial))


def _row_words(trial: Trial) -> str:
    """`e_learned_positions` of group E is `learned positions`."""
    return trial.row.removeprefix(f"{trial.group.lower()}_").replace("_", " ")


def _cut(trial: Trial) -> str:
    room = max(4, WIDTH - len(f"{trial.group}  s{trial.seed}"))
    words = _row_words(trial)
    return f"{trial.group} {words[: room - 1].rstrip()}… s{trial.seed}"


def color_of(study: Study, trial: Trial) -> str:
    """`#rrggbb`: a hue per row, a shade per seed; base is gray, as the reference of all others."""
    rows = list(dict.fromkeys(each.row for each in study.trials))
    seeds = sorted({each.seed for each in study.trials if each.row == trial.row})
    place, shade = rows.index(trial.row), SHADES[seeds.index(trial.seed) % len(SHADES)]
    channels = colorsys.hls_to_rgb((place * GOLDEN) % 1, shade, 0.0 if trial.row == BASE else 0.6)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
