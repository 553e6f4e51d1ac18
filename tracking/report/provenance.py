"""Where the numbers come from: commands, commits, versions, machines, data, and every trial's state."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tracking.damage import unless_damaged
from tracking.provenance import changes
from tracking.report.ticks import utc
from tracking.study import Study, Trial
from tracking.words import stopped_at, time


def provenance(study: Study) -> dict[str, Any]:
    """``facts``: by name and value, the trials that have it. What all trials share stands once."""
    facts: dict[str, dict[str, list[str]]] = {}
    for trial in study.trials:
        for name, value in _facts(unless_damaged(study.trial_folder(trial).provenance, {})).items():
            facts.setdefault(name, {}).setdefault(value, []).append(trial.name)
    asked = [(_when(each["ts"]), each["command"]) for each in study.asked]
    return {"asked": asked, "facts": facts, "trials": [(trial.name, _cells(study, trial)) for trial in study.trials]}


def _when(ts: str) -> str:
    try:
        return utc(datetime.fromisoformat(ts).timestamp())
    except ValueError:
        return ts


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


def _cells(study: Study, trial: Trial) -> tuple[object, ...]:
    """State, attempts, step, time, key."""
    folder = study.trial_folder(trial)
    state, result = folder.standing(trial.key)
    held = result or {}
    attempts = len(unless_damaged(folder.attempts.all, []))
    return state, attempts, stopped_at(held) or held.get("step", ""), time(held.get("seconds")), trial.key[:12]
