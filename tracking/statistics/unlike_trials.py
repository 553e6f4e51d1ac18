"""Where trials of a study are not alike beyond what their rows change: machines, versions, code,
workers, scoring.

What differs is compared with its most frequent value over all finished trials of the study, the
user's code with the oldest version among them. Of a trial all attempts count whose steps are in its
weights: of one that only scores, those of its host.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracking.code import SameCode, changed_files, read_code
from tracking.files import unless_damaged
from tracking.provenance import DISTRIBUTION, scored_by, trained_by
from tracking.study import Study, StudyTrial, trial_folder
from tracking.words import plural

WORKERS = " × "  # how a device names the number of its workers
SHOWN_DIGITS = 12  # of a commit or a hash, that are shown
UNKNOWN = "unknown"
CODE = "code"
VARIABLE = "environment variable "
NOT_SET = "unset"
OF_SCORING = " of scoring"
"""Behind the name of a package, which scored; another one may have trained."""
THEN = ", then "
"""Between the values of a trial that was trained in several attempts."""
AND = " and "
"""Between the values of a trial whose sets were scored apart."""
Aspects = Mapping[str, tuple[str, ...]]


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
        """Such as "torch 2.12.0, not 2.13.0 (seed 2)", or "torch 2.13.0, then 2.12.0, not
        2.13.0"."""
        named = f"{plural('seed', len(self.seeds))} {', '.join(map(str, self.seeds))}"
        return f"{self.what} {self.value}, not {self.usual}" + (
            "" if self.all_seeds else f" ({named})"
        )


def unlike(study: Study) -> dict[str, list[Unlike]]:
    """By row, in the order of the study; rows that are like the others are left out."""
    rows: dict[str, dict[int, Aspects]] = {}
    for trial in study.trials:
        if (found := aspects(study, trial)) is not None:
            rows.setdefault(trial.row, {})[trial.seed] = found
    usual = _usual(seed for seeds in rows.values() for seed in seeds.values())
    usual |= _oldest_code(study, [trial for seeds in rows.values() for trial in seeds.values()])
    told = {row: _of_row(seeds, usual) for row, seeds in rows.items()}
    return {row: differences for row, differences in told.items() if differences}


def summary(found: Mapping[str, Sequence[Unlike]]) -> list[str]:
    """Lines for below the table: each difference once, with its rows; the most frequent difference
    first."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for row, differences in found.items():
        for difference in differences:
            rows.setdefault((difference.what, difference.value, difference.usual), []).append(row)
    ordered = sorted(rows.items(), key=lambda item: -len(item[1]))
    return [
        f"{what} {value}, not {usual}: {', '.join(dict.fromkeys(of))}"
        for (what, value, usual), of in ordered
    ]


def aspects(study: Study, trial: StudyTrial) -> dict[str, tuple[str, ...]] | None:
    """What could differ, as text; None for an unfinished trial. A trial without provenance has only
    its scoring."""
    result = study.standing(trial).result
    if result is None:
        return None
    provenance = _provenance(study, trial.name)
    trained = _provenance(study, trial.weights) if trial.weights else provenance
    found = dict[str, tuple[str, ...]]()
    for record in trained_by(trained, result["step"]):
        code = _code(study, record, SameCode(study.vouched))
        for what, value in (_machine(record) | code | _environment(record)).items():
            found[what] = (*dict.fromkeys((*found.get(what, ()), value)),)
    scored = _scored_by(study, provenance) | _scoring(study, trial, result)
    return found | {what: (value,) for what, value in scored.items()}


def _provenance(study: Study, name: str) -> dict[str, Any]:
    return unless_damaged(trial_folder(study.folder, name, study.task).provenance, {})


def _machine(record: Mapping[str, Any]) -> dict[str, str]:
    device, _, workers = str(record.get("device") or UNKNOWN).partition(WORKERS)
    cpu = record.get("cpu") or {}
    return {"CPU": str(cpu.get("model") or UNKNOWN), "device": device, "workers": workers or "1"}


def _code(study: Study, record: Mapping[str, Any], same: SameCode) -> dict[str, str]:
    """Versions of packages, our own files, and the user's: of those that count as one, the
    oldest."""
    versions = record.get("versions") or {}
    shown = {name: str(version) for name, version in versions.items() if version is not None}
    if DISTRIBUTION in shown:
        shown[DISTRIBUTION] = same.first(shown[DISTRIBUTION])
    own = record.get("own_files")
    code = record.get("code")
    shown |= {"files of allelse": same.first(str(own))[:SHOWN_DIGITS]} if own else {}
    return shown | ({CODE: _code_name(study, same.first(code))} if code else {})


def _environment(record: Mapping[str, Any]) -> dict[str, str]:
    """The variables that the user's code names."""
    values = record.get("environment") or {}
    return {
        f"{VARIABLE}{name}": NOT_SET if value is None else str(value)
        for name, value in values.items()
    }


def _oldest_code(study: Study, trials: Sequence[Aspects]) -> dict[str, str]:
    """The first version of the user's code that trained any of these trials, and the first that
    scored any."""
    oldest = dict[str, str]()
    for what in (CODE, CODE + OF_SCORING):
        names = {name for aspects_of_trial in trials for name in aspects_of_trial.get(what, ())}
        for name in (_code_name(study, digest) for digest in study.code):
            if name in names:
                oldest.setdefault(what, name)
    return oldest


def _code_name(study: Study, digest: str) -> str:
    """The hash, with the files that are not those of the study's beginning."""
    name = digest[:SHOWN_DIGITS]
    if not study.code or digest == study.code[0]:
        return name
    begun, other = (
        unless_damaged(partial(read_code, study.folder, each), None)
        for each in (study.code[0], digest)
    )
    return (
        f"{name} with another {', '.join(changed_files(begun, other))}" if begun and other else name
    )


def _scored_by(study: Study, provenance: Mapping[str, Any]) -> dict[str, str]:
    """What scored each of the table's sets last."""
    found: dict[str, dict[str, None]] = {}
    for on in study.task.scored_sets:
        same = SameCode(study.vouched, scoring=True)
        for what, value in _code(study, scored_by(provenance, on), same).items():
            found.setdefault(what + OF_SCORING, {})[value] = None
    return {what: AND.join(values) for what, values in found.items()}


def _scoring(study: Study, trial: StudyTrial, result: Mapping[str, Any]) -> dict[str, str]:
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
    for trial in trials:
        for what, values in trial.items():
            counted.setdefault(what, Counter()).update(values)
    return {what: values.most_common(1)[0][0] for what, values in counted.items()}


def _of_row(seeds: Mapping[int, Aspects], usual: Mapping[str, str]) -> list[Unlike]:
    found: list[Unlike] = []
    for what, expected in usual.items():
        others: dict[str, list[int]] = {}
        for seed, has in seeds.items():
            values = has.get(what, (expected,))
            if values != (expected,) and not _is_told(what, has, usual):
                others.setdefault(THEN.join(values), []).append(seed)
        found += [
            Unlike(what, value, expected, tuple(of), len(of) == len(seeds))
            for value, of in others.items()
        ]
    return found


def _is_told(what: str, has: Aspects, usual: Mapping[str, str]) -> bool:
    """Whether the same words say of its training what they would say of its scoring."""
    trained = what.removesuffix(OF_SCORING)
    return trained != what and (has.get(trained), usual.get(trained)) == (has[what], usual[what])
