"""A trial as a tracking server sees it: name, tags, params and the points of its result."""

from collections.abc import Mapping
from typing import Any

from tracking.card import COSTS, Card
from tracking.liveness import Attempt
from tracking.metric_names import final_name
from tracking.run_names import run_names
from tracking.study import Study, Trial
from tracking.tracker import Point, RunSpec
from tracking.trial_folder import TrialFolder
from tracking.uri import without_password

# These belong to the machine or the whole sweep, or are hashes, which are tags. Settings for scoring may change, too: a
# trial is then scored again.
NOT_PARAMS = frozenset({"paths", "cluster", "tracking", "sweep", "row", "key", "data_fingerprint"})
MORE_PLACES = 2  # decimals in MLflow, more than a metric has in print


def run_spec(study: Study, trial: Trial, attempts: list[Attempt]) -> RunSpec:
    """The name, start and tags with which the trial's run is created."""
    return RunSpec(run_names(study)[trial.key], to_ms(attempts[0].began), tags(study, trial, attempts))


def tags(study: Study, trial: Trial, attempts: list[Attempt]) -> dict[str, str]:
    """Machine, code and settings for scoring are tags: tags may change between attempts, params may not."""
    rows = list(dict.fromkeys(other.row for other in study.trials))
    folder = study.trial_folder(trial)
    provenance, about = folder.provenance(), study.task.tags
    return {
        "sweep.id": study.name,
        f"{about}.group": trial.group,
        f"{about}.row": f"{rows.index(trial.row) + 1:02d} {trial.row}",
        f"{about}.change": trial.change,
        f"{about}.order": f"{study.trials.index(trial) + 1:04d}",  # sorts runs as the table sorts rows
        "trial.key": trial.key,
        "seed": str(trial.seed),
        "attempt": str(attempts[-1].number),
        "host": attempts[-1].process.host,
        **{name: str(provenance[name]) for name in ("commit", "dirty", "device") if name in provenance},
        **({"data.fingerprint": fingerprint} if (fingerprint := provenance.get("data_fingerprint")) else {}),
        **_scoring_tags(folder, trial.key),
    }


def params(folder: TrialFolder) -> dict[str, str]:
    """`config.yaml` flattened to dotted keys, without those that are null; {} without one."""
    card, config = folder.card, folder.config() or {}
    flat = _flatten({name: of for name, of in config.items() if name not in NOT_PARAMS})
    return {name: value for name, value in flat.items() if name not in card.scoring}


def result_points(card: Card, result: Mapping[str, Any], provenance: Mapping[str, Any], ts_ms: int) -> list[Point]:
    """Costs, the task's own counts and scores at the result's step, such as `final/accuracy`. A null is left out.

    MLflow's list shows all digits of a number or cuts them off, so these are rounded; `result.json` has the rest.
    """
    values: dict[str, Any] = {name: _rounded(result.get(name), 1) for name in COSTS}
    values |= _counts(provenance)
    for set_name, scores in result.get("scores", {}).items():
        known = card.scores(scores).values.items()
        places = {metric.name: metric.decimals + MORE_PLACES for metric in card.metrics}
        values |= {final_name(card, set_name, name): _rounded(value, places[name]) for name, value in known}
    return points_of(values, ts_ms, result["step"])


def _counts(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Groups of numbers that the task added to provenance.json, such as `samples/train`."""
    groups = {name: of for name, of in provenance.items() if isinstance(of, dict) and all(map(_is_number, of.values()))}
    return {f"{group}/{name}": value for group, of in groups.items() for name, value in of.items()}


def _rounded(value: Any, places: int) -> Any:
    return round(value, places) if isinstance(value, float) else value


def points_of(values: Mapping[str, Any], ts_ms: int, step: int) -> list[Point]:
    """A point per number; what is no number is left out."""
    return [Point(name, float(value), ts_ms, step) for name, value in values.items() if _is_number(value)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_ms(seconds: float) -> int:
    return round(seconds * 1000)


def _scoring_tags(folder: TrialFolder, key: str) -> dict[str, str]:
    """`decode.beam` and the like, of the current scores; before the first scores, of the configuration."""
    result, card = folder.result(), folder.card
    scores = result["scores"] if result is not None and result["key"] == key else {}
    if card.headline.set in scores:
        settings = card.scores(scores[card.headline.set]).decode
        return _flatten({card.setting(name): value for name, value in settings.items()})
    return {name: value for name, value in _flatten(folder.config() or {}).items() if name in card.scoring}


def _flatten(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif value is not None:
            flat[f"{prefix}{name}"] = without_password(str(value), mark="")  # existing runs have this form
    return flat
