"""Where the numbers come from: commands, commits, versions, machines, data, and every trial's state."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tracking.damage import unless_damaged
from tracking.formats import stopped_at, time
from tracking.provenance import changes
from tracking.report.elements import Html, element
from tracking.report.ticks import utc
from tracking.study import Study, Trial

Found = dict[str, dict[str, list[str]]]  # what -> value -> trials


def provenance_section(study: Study) -> list[Html]:
    """What all trials share stands once; what differs is listed with the trials."""
    found: Found = {}
    for trial in study.trials:
        for name, value in _facts(unless_damaged(study.trial_folder(trial).provenance, {})).items():
            found.setdefault(name, {}).setdefault(value, []).append(trial.name)
    asked = [part for each in study.asked for part in (element("dt", f"asked {_when(each)}"), _command(each))]
    facts = [part for name, values in found.items() for part in (element("dt", name), *_values(values))]
    return [element("dl", *asked, *facts, class_="facts"), _trials(study)]


def _when(asked: Mapping[str, str]) -> str:
    try:
        return utc(datetime.fromisoformat(asked["ts"]).timestamp())
    except ValueError:
        return asked["ts"]


def _facts(held: Mapping[str, Any]) -> dict[str, str]:
    """As text, without what is unknown."""
    cpu, versions = held.get("cpu") or {}, held.get("versions") or {}
    facts = {
        "commit": f"{held['commit']}{changes(held)}" if held.get("commit") else None,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "host": held.get("host"),
        "processor": f"{cpu.get('model') or 'unknown'}, {cpu.get('count')} CPUs" if cpu else None,
        "device": held.get("device"),
        "data fingerprint": held.get("data_fingerprint"),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _values(values: Mapping[str, list[str]]) -> list[Html]:
    if len(values) == 1:
        return [element("dd", value) for value in values]
    return [element("dd", value, " ", element("span", _trials_named(of), class_="why")) for value, of in values.items()]


def _trials_named(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} others" if len(names) > 4 else shown


def _command(asked: Mapping[str, str]) -> Html:
    return element("dd", element("code", asked["command"]))


def _trials(study: Study) -> Html:
    heads = ("trial", "state", "attempts", "step", "time", "key")
    head = element("tr", *(element("th", name, scope="col") for name in heads))
    body = element("tbody", *(_trial(study, trial) for trial in study.trials))
    table = element("table", element("thead", head), body, class_="trials")
    region = element("div", table, class_="scroll", role="region", aria_label="Trials", tabindex=0)
    return element("details", element("summary", f"All {len(study.trials)} trials"), region)


def _trial(study: Study, trial: Trial) -> Html:
    folder = study.trial_folder(trial)
    state, result = folder.standing(trial.key)
    held: Mapping[str, Any] = result or {}
    attempts = len(unless_damaged(folder.attempts, []))
    step = stopped_at(held) or held.get("step", "")
    cells: Iterable[Any] = (state, attempts, step, time(held.get("seconds")), trial.key[:12])
    return element("tr", element("th", trial.name, scope="row"), *(element("td", str(cell)) for cell in cells))
