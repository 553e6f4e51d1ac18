"""Where trials of a study are not alike beyond what their rows change: machines, versions, code,
workers, scoring.

A trial's value of each aspect is compared with the most frequent one over all finished trials of
the study, and the user's code with the oldest version among them. All attempts count whose steps
are in a trial's weights; for a trial that only scores, those of its host.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracking.code import SameCode, changed_files, read_code
from tracking.files import unless_damaged
from tracking.provenance import DISTRIBUTION, device_and_workers, scored_by, trained_by
from tracking.study import Study, StudyTrial, trial_folder
from tracking.words import grouped, seeds_listed

SHOWN_DIGITS = 12  # of a commit or a hash
UNKNOWN = "unknown"
CPU = "CPU"
GENERATION = "CPU generation"
DEVICE = "device"
ON_CPU = "cpu"
"""How the name of a device begins that is no GPU."""
CODE = "code"
VARIABLE = "environment variable "
NOT_SET = "unset"
OF_SCORING = " of scoring"
"""Behind the name of a package that scored; other versions may have trained."""
THEN = ", then "
"""Between the values of a trial that was trained in several attempts."""
AND = " and "
"""Between the values of a trial whose sets were scored separately."""
Aspects = Mapping[str, tuple[str, ...]]
"""By aspect, such as CPU, torch or decode.beam, the trial's values without repeats."""


@dataclass(frozen=True)
class Unlike:
    """One aspect in which trials of a row differ from most trials of the study."""

    aspect: str  # such as CPU, torch, commit, workers, decode.beam
    value: str
    expected: str  # that of most trials; of the user's code, the oldest
    seeds: tuple[int, ...]  # the row's seeds with this value
    all_seeds: bool  # whether these are all finished seeds of the row

    @property
    def without_seeds(self) -> str:
        """Such as "torch 2.13.0, then 2.12.0, not 2.13.0"."""
        return f"{self.aspect} {self.value}, not {self.expected}"

    @property
    def text(self) -> str:
        """Such as "torch 2.12.0, not 2.13.0 (seed 2)"."""
        text = self.without_seeds
        if self.all_seeds:
            return text
        return f"{text} ({seeds_listed(self.seeds)})"


def unlike(study: Study) -> dict[str, list[Unlike]]:
    """By row, in the order of the study; rows that are like the others are left out."""
    trials_of_row: dict[str, dict[int, Aspects]] = {}
    for trial in study.trials:
        trial_aspects = aspects(study, trial)
        if trial_aspects is not None:
            trials_of_row.setdefault(trial.row, {})[trial.seed] = trial_aspects
    all_trials = [trial for trials in trials_of_row.values() for trial in trials.values()]
    expected = _most_frequent(all_trials) | _oldest_code(study, all_trials)
    unlike_rows = {}
    for row, trials in trials_of_row.items():
        differences = list(_row_differences(trials, expected))
        if differences:
            unlike_rows[row] = differences
    return unlike_rows


def differ_by_machine(unlike_rows: Mapping[str, Sequence[Unlike]]) -> bool:
    """Whether any row has trials of another CPU or device."""
    aspects_of_rows = {one.aspect for differences in unlike_rows.values() for one in differences}
    return not aspects_of_rows.isdisjoint({CPU, GENERATION, DEVICE})


def machine_kinds(study: Study) -> dict[str, dict[int, str]]:
    """By row and seed, the kind of machine that trained each finished trial, such as "CPU
    generation family 25, model 1": what not all trials share of CPU and device.

    Trials of a GPU are of one kind whatever the CPU beside it. All are of the kind "" if nothing
    differs.
    """
    trials: dict[tuple[str, int], Aspects] = {}
    for trial in study.trials:
        trial_aspects = aspects(study, trial)
        if trial_aspects is not None:
            trials[trial.row, trial.seed] = trial_aspects
    trials_of_cpu = grouped((each.get(CPU), each) for each in trials.values())
    usual = {cpu: _most_frequent(alike) for cpu, alike in trials_of_cpu.items()}
    machines = {place: _machine_of(each, usual[each.get(CPU)]) for place, each in trials.items()}
    kinds: dict[str, dict[int, str]] = {}
    for (row, seed), machine in machines.items():
        parts = []
        for aspect, value in machine.items():
            if any(other.get(aspect) != value for other in machines.values()):
                parts.append(f"{aspect} {value}")
        kinds.setdefault(row, {})[seed] = ", ".join(parts)
    return kinds


def _machine_of(trial: Aspects, usual: Mapping[str, str]) -> dict[str, str]:
    """Its device; without a GPU, also its CPU. What was not recorded is as in most trials of this
    CPU."""
    machine = {}
    for name in (CPU, GENERATION, DEVICE):
        values = trial.get(name, (UNKNOWN,))
        if values == (UNKNOWN,) and name in usual:
            values = (usual[name],)
        machine[name] = THEN.join(values)
    if machine[DEVICE].startswith((ON_CPU, UNKNOWN)):
        return machine
    return {DEVICE: machine[DEVICE]}


def beyond_change(unlike_rows: Mapping[str, Sequence[Unlike]]) -> str:
    """What these rows differ from. The user's code is that of the study's first trials, other
    aspects are those of most."""
    aspects_of_rows = {one.aspect for differences in unlike_rows.values() for one in differences}
    are_code = {aspect in (CODE, CODE + OF_SCORING) for aspect in aspects_of_rows}
    trials = [name for kind, name in ((False, "most"), (True, "the first")) if kind in are_code]
    return f"differs from {' or '.join(trials)} trials beyond its change"


def summary(unlike_rows: Mapping[str, Sequence[Unlike]]) -> list[str]:
    """Lines for below the table: each difference once, with its rows; the most frequent difference
    first."""
    rows_of_text = grouped(
        (difference.without_seeds, row)
        for row, differences in unlike_rows.items()
        for difference in differences
    )
    by_frequency = sorted(rows_of_text.items(), key=lambda item: -len(item[1]))
    return [f"{text}: {', '.join(dict.fromkeys(rows))}" for text, rows in by_frequency]


def aspects(study: Study, trial: StudyTrial) -> dict[str, tuple[str, ...]] | None:
    """What could differ, as text; None for an unfinished trial. A trial without provenance has only
    its scoring."""
    result = study.standing(trial).result
    if result is None:
        return None
    provenance = _provenance(study, trial.name)
    training = _provenance(study, trial.weights) if trial.weights else provenance
    same_code = SameCode(study.vouched)
    pairs = list[tuple[str, str]]()
    for record in trained_by(training, result["step"]):
        attempt = _machine(record) | _code(study, record, same_code) | _environment(record)
        pairs += attempt.items()
    values_of_aspect = grouped(pairs)
    scoring = _scoring_code(study, provenance) | _scoring_settings(study, trial, result)
    for aspect, value in scoring.items():
        values_of_aspect[aspect] = [value]
    return {aspect: tuple(dict.fromkeys(values)) for aspect, values in values_of_aspect.items()}


def _provenance(study: Study, name: str) -> dict[str, Any]:
    return unless_damaged(trial_folder(study.folder, name, study.task).provenance, {})


def _machine(record: Mapping[str, Any]) -> dict[str, str]:
    device, workers = device_and_workers(record)
    cpu = record.get("cpu") or {}
    machine = {
        CPU: str(cpu.get("model") or UNKNOWN),
        DEVICE: device or UNKNOWN,
        "workers": str(workers),
    }
    if "generation" in cpu:  # older versions didn't record it
        machine[GENERATION] = str(cpu["generation"])
    return machine


def _code(study: Study, record: Mapping[str, Any], same_code: SameCode) -> dict[str, str]:
    """Versions of packages, our own files, and the user's code. Of versions that count as the same,
    the oldest."""
    versions = record.get("versions") or {}
    code = {name: str(version) for name, version in versions.items() if version is not None}
    if DISTRIBUTION in code:
        code[DISTRIBUTION] = same_code.first(code[DISTRIBUTION])
    own_files = record.get("own_files")
    if own_files:
        code["files of allelse"] = same_code.first(str(own_files))[:SHOWN_DIGITS]
    user_code = record.get("code")
    if user_code:
        code[CODE] = _code_name(study, same_code.first(user_code))
    return code


def _environment(record: Mapping[str, Any]) -> dict[str, str]:
    """The variables that the user's code reads."""
    values = record.get("environment") or {}
    environment = {}
    for name, value in values.items():
        environment[f"{VARIABLE}{name}"] = NOT_SET if value is None else str(value)
    return environment


def _oldest_code(study: Study, trials: Sequence[Aspects]) -> dict[str, str]:
    """The first version of the user's code that trained any of these trials, and the first that
    scored any."""
    versions = [_code_name(study, digest) for digest in study.code]
    oldest = dict[str, str]()
    for aspect in (CODE, CODE + OF_SCORING):
        names = {name for trial in trials for name in trial.get(aspect, ())}
        first = next((version for version in versions if version in names), None)
        if first is not None:
            oldest[aspect] = first
    return oldest


def _code_name(study: Study, digest: str) -> str:
    """The hash, with the files that changed since the study began."""
    name = digest[:SHOWN_DIGITS]
    if not study.code or digest == study.code[0]:
        return name
    first_code = unless_damaged(partial(read_code, study.folder, study.code[0]), None)
    code = unless_damaged(partial(read_code, study.folder, digest), None)
    if not first_code or not code:
        return name
    return f"{name} ({', '.join(changed_files(first_code, code))} changed)"


def _scoring_code(study: Study, provenance: Mapping[str, Any]) -> dict[str, str]:
    """The code that last scored each of the table's sets."""
    same_code = SameCode(study.vouched, scoring=True)
    pairs = list[tuple[str, str]]()
    for set_name in study.task.scored_sets:
        pairs += _code(study, scored_by(provenance, set_name), same_code).items()
    versions_of_name = grouped(pairs).items()
    return {
        f"{name}{OF_SCORING}": AND.join(dict.fromkeys(versions))
        for name, versions in versions_of_name
    }


def _scoring_settings(study: Study, trial: StudyTrial, result: Mapping[str, Any]) -> dict[str, str]:
    """The settings for scoring of the table's sets, without those that the row itself changes."""
    changed = study.cells.get(trial.row, {})
    settings: dict[str, str] = {}
    for set_name in study.task.scored_sets:
        decode = result["scores"].get(set_name, {}).get("decode", {})
        for setting, value in decode.items():
            if setting.rpartition(".")[2] not in changed:
                settings[study.task.setting(setting)] = str(value)
    return settings


def _most_frequent(trials: Iterable[Aspects]) -> dict[str, str]:
    """The most frequent value of each aspect; of equally frequent ones, the first."""
    pairs = [(aspect, value) for trial in trials for aspect in trial for value in trial[aspect]]
    values_of_aspect = grouped(pairs).items()
    return {aspect: Counter(values).most_common(1)[0][0] for aspect, values in values_of_aspect}


def _row_differences(
    trials: Mapping[int, Aspects], expected: Mapping[str, str]
) -> Iterator[Unlike]:
    """``trials`` are the row's, by seed."""
    for aspect, expected_value in expected.items():
        seeds_of_value: dict[str, list[int]] = {}
        for seed, trial in trials.items():
            values = trial.get(aspect, (expected_value,))
            if values != (expected_value,) and not _is_said_already(aspect, trial, expected):
                seeds_of_value.setdefault(THEN.join(values), []).append(seed)
        for value, seeds in seeds_of_value.items():
            has_all_seeds = len(seeds) == len(trials)
            yield Unlike(aspect, value, expected_value, tuple(seeds), has_all_seeds)


def _is_said_already(aspect: str, trial: Aspects, expected: Mapping[str, str]) -> bool:
    """Whether another difference says enough: the CPU's name, or the same difference in training as
    in scoring."""
    if aspect == GENERATION:
        return trial.get(CPU) != (expected[CPU],)
    training = aspect.removesuffix(OF_SCORING)
    if training == aspect:
        return False
    has_same_values = trial.get(training) == trial[aspect]
    return has_same_values and expected.get(training) == expected[aspect]
