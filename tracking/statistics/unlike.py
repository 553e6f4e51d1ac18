"""Where trials of a study are not alike beyond what their rows change: machines, versions, code, workers, scoring.

A setting that differs is compared with its most frequent value over all finished trials of the study.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.damage import unless_damaged
from tracking.provenance import changes
from tracking.study import Study, Trial

WORKERS = " × "  # how a device names the number of its workers
COMMIT = 12  # digits of a commit that are shown
UNKNOWN = "unknown"
Aspects = Mapping[str, str]


@dataclass(frozen=True)
class Unlike:
    """One thing in which trials of a row differ from most trials of the study."""

    what: str  # such as CPU, torch, commit, workers, decode.beam
    value: str
    usual: str
    seeds: tuple[int, ...]  # of the row, that have this value
    all_seeds: bool  # whether these are all finished seeds of the row

    @property
    def text(self) -> str:
        """Such as "torch 2.12.0, not 2.13.0 (seed 2)"."""
        named = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        return f"{self.what} {self.value}, not {self.usual}" + ("" if self.all_seeds else f" ({named})")


def unlike(study: Study) -> dict[str, list[Unlike]]:
    """By row, in the order of the study; rows that are like the others are left out."""
    rows: dict[str, dict[int, Aspects]] = {}
    for trial in study.trials:
        if (aspects := _aspects(study, trial)) is not None:
            rows.setdefault(trial.row, {})[trial.seed] = aspects
    usual = _usual(aspects for seeds in rows.values() for aspects in seeds.values())
    told = {row: _of_row(seeds, usual) for row, seeds in rows.items()}
    return {row: differences for row, differences in told.items() if differences}


def summary(found: Mapping[str, Sequence[Unlike]]) -> list[str]:
    """Lines for below the table: each difference once, with its rows; the most frequent difference first."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for row, differences in found.items():
        for each in differences:
            rows.setdefault((each.what, each.value, each.usual), []).append(row)
    ordered = sorted(rows.items(), key=lambda item: -len(item[1]))
    return [f"{what} {value}, not {usual}: {', '.join(dict.fromkeys(of))}" for (what, value, usual), of in ordered]


def _aspects(study: Study, trial: Trial) -> dict[str, str] | None:
    """What could differ, as text; None for an unfinished trial. A trial without provenance has only its scoring."""
    folder = study.trial_folder(trial)
    _, result = folder.standing(trial.key)
    if result is None:
        return None
    provenance = unless_damaged(folder.provenance, dict[str, Any]())
    return (_machine(provenance) | _code(provenance) if provenance else {}) | _scoring(study, trial, result)


def _machine(provenance: Mapping[str, Any]) -> dict[str, str]:
    device, _, workers = str(provenance.get("device") or UNKNOWN).partition(WORKERS)
    cpu = provenance.get("cpu") or {}
    return {"CPU": str(cpu.get("model") or UNKNOWN), "device": device, "workers": workers or "1"}


def _code(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Versions of libraries and the commit. Another commit of the same release is named by the commit alone."""
    commit = provenance.get("commit")
    versions = provenance.get("versions") or {}
    shown = {name: str(version) for name, version in versions.items() if version is not None}
    return {**shown, "commit": f"{str(commit)[:COMMIT] if commit else UNKNOWN}{changes(provenance)}"}


def _scoring(study: Study, trial: Trial, result: Mapping[str, Any]) -> dict[str, str]:
    """The settings for scoring of the table's sets, without those that the row itself changes."""
    changed = study.cells.get(trial.row, {})
    found: dict[str, str] = {}
    for name in study.task.scored_sets:
        for setting, value in result["scores"].get(name, {}).get("decode", {}).items():
            if setting.rpartition(".")[2] not in changed:
                found[study.task.setting(setting)] = str(value)
    return found


def _usual(trials: Iterable[Aspects]) -> dict[str, str]:
    """The most frequent value of each; of several, the first one."""
    counted: dict[str, Counter[str]] = {}
    for aspects in trials:
        for what, value in aspects.items():
            counted.setdefault(what, Counter())[value] += 1
    return {what: values.most_common(1)[0][0] for what, values in counted.items()}


def _of_row(seeds: Mapping[int, Aspects], usual: Aspects) -> list[Unlike]:
    found: list[Unlike] = []
    for what, expected in usual.items():
        others: dict[str, list[int]] = {}
        for seed, aspects in seeds.items():
            if aspects.get(what, expected) != expected:
                others.setdefault(aspects[what], []).append(seed)
        found += [Unlike(what, value, expected, tuple(of), len(of) == len(seeds)) for value, of in others.items()]
    return found
