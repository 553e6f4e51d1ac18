"""Which finished trials can be repeated here: bit for bit only on the same kind of machine, with the same packages."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.planning.source_trial import Source
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.worker.environment import variables
from tracking.code import Code
from tracking.provenance import DISTRIBUTION, Provenance, cpu_model, own_files, own_version
from tracking.same_code import SameCode
from tracking.statistics.unlike_trials import NOT_SET, WORKERS
from tracking.study import Study

PYTHON = "python"


@dataclass(frozen=True)
class Candidate:
    """A finished trial that can be repeated, and by which code and with how many workers and threads it was trained."""

    planned: PlannedTrial
    source: Source
    record: Provenance  # of the attempt that trained it
    workers: int
    threads: int
    gpus: float

    @property
    def name(self) -> str:
        return self.planned.trial.name

    @property
    def code(self) -> str:
        """The hash of the user's code; "" for our own task."""
        return str(self.record.get("code") or "")

    @property
    def own_files(self) -> str:
        return str(self.record.get("own_files") or "")

    @property
    def version(self) -> str:
        return str((self.record.get("versions") or {}).get(DISTRIBUTION) or "")


def chosen_candidate(plan: Plan, study: Study, code: Code | None, name: str | None) -> Candidate:
    """The named trial, or the one whose training took least time. Raises RefusedError."""
    trained = [planned for planned in plan.trials if planned.host is None]
    finished = {planned.trial.name: planned for planned in trained if _is_finished(planned)}
    if name is not None and name not in finished:
        names = ", ".join(finished) or "there is none"
        allowed = f"must be a finished trial of {study.name}: {names}"
        raise RefusedError([Problem("--vouch", f'names "{name}"', allowed, nearest(name, finished))])
    wanted = [finished[name]] if name is not None else [*finished.values()]
    if not wanted:
        found = f"has no finished trial in {study.name} to train again"
        raise RefusedError([Problem("--vouch", found, "name the study that has one by sweep.name")])
    reasons = dict[str, str]()
    candidates = list[Candidate]()
    for planned in wanted:
        candidate, reason = _examined(planned, study, code)
        if candidate is not None:
            candidates.append(candidate)
        else:
            reasons.setdefault(reason, planned.trial.name)
    if not candidates:
        raise RefusedError([_no_candidate(study, reasons)])
    return min(candidates, key=_seconds)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """In what two records of attempts differ that can change the bits of the weights; what one lacks is left out."""
    recorded = _conditions(before)
    today = _conditions(now)
    for name, value in recorded.items():
        if name in today and today[name] != value:
            yield f"{name} is {today[name]}, but was {value}"


def _conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """What can change the bits of the weights, by its name, as far as the record has it."""
    machine = {"the CPU": _cpu(record), "the device": record.get("device"), "threads": record.get("threads")}
    versions = dict(record.get("versions") or {})
    versions.pop(DISTRIBUTION, None)  # that is what is vouched for
    variables_read = (record.get("environment") or {}).items()
    environment = {name: NOT_SET if value is None else value for name, value in variables_read}
    return {name: value for name, value in (machine | versions | environment).items() if value is not None}


def _is_finished(planned: PlannedTrial) -> bool:
    return planned.folder.finished_result(planned.trial.key) is not None


def _seconds(candidate: Candidate) -> float:
    result = candidate.planned.folder.finished_result(candidate.planned.trial.key) or {}
    return float(result.get("seconds") or 0.0)


def _examined(planned: PlannedTrial, study: Study, code: Code | None) -> tuple[Candidate | None, str]:
    """The candidate, or why the trial is none."""
    source = Source(study, planned.trial, is_scored=True)
    records = source.training()
    if source.has_diverged:
        return None, "it has diverged"
    if not records:
        return None, "its provenance is not recorded"
    between_attempts = next(_all_differences(records), "")
    if between_attempts:
        return None, f"its attempts differ: {between_attempts}"
    if source.step not in source.saved_steps():
        return None, "the checkpoint of its last step is not there"
    candidate = _candidate(planned, source, records[-1])
    if len({str(record.get("code")) for record in records}) > 1:
        return None, "several versions of the code have trained it"
    if _is_by_todays_code(candidate, study, code):
        return None, "today's code has trained it"
    here = _here(candidate.record, code)
    if planned.settings.cluster.address is not None:  # it trains on the nodes, whose machines the comparison sees
        del here["cpu"]
    unlike = next(differences(candidate.record, here), "")
    if unlike:
        return None, f"{unlike}: only the same kind of machine, with the same packages, can show it"
    return candidate, ""


def _all_differences(records: Sequence[Provenance]) -> Iterator[str]:
    for record in records[1:]:
        yield from differences(records[0], record)


def _candidate(planned: PlannedTrial, source: Source, record: Provenance) -> Candidate:
    """With the workers and the threads of its record; in older ones the configuration has the threads."""
    cluster = (source.folder.config() or {}).get("cluster", {})
    workers = str(record.get("device") or "").partition(WORKERS)[2]
    threads = record.get("threads") or cluster.get("cpus_per_worker") or 1
    gpus = float(cluster.get("gpus_per_worker") or 0.0)
    return Candidate(planned, source, record, int(workers or 1), int(threads), gpus)


def _is_by_todays_code(candidate: Candidate, study: Study, code: Code | None) -> bool:
    same = SameCode(study.vouched)
    is_same_task = code is None or same.are_same(candidate.code, code.digest)
    return is_same_task and same.are_same(candidate.own_files, own_files())


def _here(record: Provenance, code: Code | None) -> Provenance:
    """What this machine would record, as far as it is known before a worker runs."""
    versions = {name: _version(name) for name in record.get("versions") or {}}
    return {"cpu": {"model": cpu_model()}, "versions": versions, "environment": variables(code)}


def _version(package: str) -> str:
    if package == PYTHON:
        return platform.python_version()
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu(record: Mapping[str, Any]) -> str | None:
    return (record.get("cpu") or {}).get("model")


def _no_candidate(study: Study, reasons: Mapping[str, str]) -> Problem:
    """Each reason with the first trial that has it."""
    named = "; ".join(f"{name}: {reason}" for reason, name in reasons.items())
    allowed = "leave it out if nothing has changed; `--changed-code` trains what is left, and the table marks it"
    return Problem("--vouch", f"cannot train a trial of {study.name} again: {named}", allowed)


def versions_of(candidate: Candidate, code: Code | None) -> dict[str, list[str]]:
    """What is compared by kind: the recorded version and today's, nothing where both are one or one is unknown."""
    pairs = {
        "code": [candidate.code, code.digest if code else ""],
        "own_files": [candidate.own_files, own_files()],
        "version": [candidate.version, own_version() or ""],
    }
    return {kind: pair if all(pair) and pair[0] != pair[1] else [] for kind, pair in pairs.items()}
