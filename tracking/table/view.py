"""What a reader chose of a study's table: metrics, set, seeds, rows, columns, order, and what is marked."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tracking.statistics.seeds import standings
from tracking.study import Study, Trial


@dataclass(frozen=True)
class View:
    """Empty ``rows`` and ``columns`` mean all rows, and the columns of the format."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # as CSV names them
    sort: str | None = None  # such a name; the best value of a metric comes first
    best: bool = False  # whether the best values are bold
    intervals: bool = False  # whether differences have their intervals
    seeds: tuple[int, ...] = ()  # the chosen ones, if not all
    verdicts: bool = False  # whether differences are compared with the published ones

    @property
    def named(self) -> list[str]:
        """The chosen columns, after the row's name; [] without a choice."""
        return ["row", *(name for name in self.columns if name != "row")] if self.columns else []


PLAIN = View()


def study_of_metrics(study: Study, names: Sequence[str], set_name: str | None) -> Study:
    """The study with a table of these metrics, by default those it has, each on its own or on this set.

    Published values belong to the metric's own set, so that they are left out on another one."""
    if not names and set_name is None:
        return study
    known = {metric.name: metric for metric in study.task.metrics}
    shown = [known[name] for name in names or [metric.name for metric in study.task.tabled]]
    tabled = [replace(metric, tabled=True, set=set_name or metric.set) for metric in shown]
    others = [replace(metric, tabled=False) for metric in known.values() if metric not in shown]
    moved = {new.name for new, metric in zip(tabled, shown, strict=True) if new.set != metric.set}
    note = "" if len(moved) == len(tabled) else study.task.published_note
    card = replace(study.task, metrics=(*tabled, *others), published_note=note)
    return replace(study, task=card, trials=tuple(_without_published(trial, moved) for trial in study.trials))


def _without_published(trial: Trial, names: Collection[str]) -> Trial:
    return replace(trial, published={name: of for name, of in trial.published.items() if name not in names})


def study_of_seeds(study: Study, seeds: Iterable[int]) -> Study:
    """The study with these seeds only."""
    kept = set(seeds)
    return replace(study, trials=tuple(trial for trial in study.trials if trial.seed in kept))


def measured_sets(study: Study) -> dict[str, list[str]]:
    """The sets with scores in any trial that counts, each with the metrics that have a value there."""
    found: dict[str, list[str]] = {}
    for each in standings(study):
        for name, of_set in (each.counted or {}).get("scores", {}).items():
            metrics = [metric.name for metric in study.task.metrics if of_set.get(metric.name) is not None]
            found[name] = list(dict.fromkeys([*found.get(name, []), *metrics]))
    return found
