"""Where a study's numbers come from: commands, versions, machines, and every trial's state."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tracking.files import unless_damaged
from tracking.provenance import changes
from tracking.study import Study, StudyTrial, seconds
from tracking.words import stopped_at, time


def provenance_facts(study: Study) -> dict[str, Any]:
    """``facts``: by name and value, the trials that have it. What all trials share appears once."""
    facts: dict[str, dict[str, list[str]]] = {}
    for trial in study.trials:
        provenance = unless_damaged(study.trial_folder(trial).provenance, {})
        for name, value in _trial_facts(provenance).items():
            facts.setdefault(name, {}).setdefault(value, []).append(trial.name)
    commands = []
    for command in study.asked:
        unix_seconds = seconds(command["ts"])
        when = utc(unix_seconds) if unix_seconds else command["ts"]
        commands.append((when, command["command"]))
    trials = [(trial.name, _trial_cells(study, trial)) for trial in study.trials]
    return {"commands": commands, "facts": facts, "trials": trials}


def _trial_facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """As text, without what is unknown."""
    cpu = provenance.get("cpu") or {}
    versions = provenance.get("versions") or {}
    commit = provenance.get("commit")
    facts = {
        "commit": f"{commit}{changes(provenance)}" if commit else None,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "host": provenance.get("host"),
        "processor": _processor(cpu) if cpu else None,
        "device": provenance.get("device"),
        "data fingerprint": provenance.get("data_fingerprint"),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _processor(cpu: Mapping[str, Any]) -> str:
    """Such as "AMD EPYC (family 25, model 17), 2 CPUs"."""
    generation = f" ({cpu['generation']})" if "generation" in cpu else ""
    return f"{cpu.get('model') or 'unknown'}{generation}, {cpu.get('count')} CPUs"


def _trial_cells(study: Study, trial: StudyTrial) -> tuple[object, ...]:
    """State, attempts, step, time, key."""
    standing = study.standing(trial)
    result = standing.result or {}
    attempts = len(unless_damaged(study.trial_folder(trial).attempts.all, []))
    step = stopped_at(result) or result.get("step") or ""  # 0: no step is known
    return standing.state, attempts, step, time(result.get("seconds")), trial.key[:12]


def utc(unix_seconds: float) -> str:
    """Such as 2026-11-22 20:14 UTC."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
