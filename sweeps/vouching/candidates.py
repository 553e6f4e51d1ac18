"""Which finished trials this machine can repeat bit for bit: that needs the same kind of machine
and packages."""

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.source_trial import Source
from sweeps.problems import Problem, RefusedError, Typo, refusal
from sweeps.worker.user_code.environment import variables
from tracking.code import Code, SameCode
from tracking.provenance import (
    DISTRIBUTION,
    Provenance,
    device_and_workers,
    own_files,
    own_version,
    this_cpu,
)
from tracking.statistics.unlike_trials import NOT_SET
from tracking.study import Study

PYTHON = "python"


class UnfitError(Exception):
    """Why a trial can't be repeated on this machine, as one clause."""


@dataclass(frozen=True)
class Candidate:
    """A finished trial that can be repeated, with the workers, threads and GPUs per worker of its
    training."""

    planned: PlannedTrial
    source: Source
    record: Provenance  # of the attempt that trained it
    workers: int
    threads: int
    gpus: float

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def code(self) -> str:
        """The digest of the user's code that trained it; "" for our own task."""
        return str(self.record.get("code") or "")

    @property
    def own_files(self) -> str:
        """The digest of allelse's files; "" if it was not recorded."""
        return str(self.record.get("own_files") or "")

    @property
    def version(self) -> str:
        """The version of allelse; "" if it was not recorded."""
        return str((self.record.get("versions") or {}).get(DISTRIBUTION) or "")


def chosen_candidate(plan: Plan, study: Study, code: Code | None, name: str | None) -> Candidate:
    """The trial called ``name``, or the one that trained fastest. Raises RefusedError if it can't
    be repeated here."""
    reasons = dict[str, str]()
    candidates = list[Candidate]()
    for planned in _finished_trials(plan, study, name):
        try:
            candidates.append(_examine(planned, study, code))
        except UnfitError as error:
            reasons.setdefault(str(error), planned.name)
    if not candidates:
        raise RefusedError([_no_candidate(study, reasons)])
    return min(candidates, key=_seconds)


def _finished_trials(plan: Plan, study: Study, name: str | None) -> list[PlannedTrial]:
    """The finished trials that were trained, or only the one called ``name``. Raises RefusedError
    if there is none."""
    trained = [planned for planned in plan.trials if planned.host is None]
    finished = {planned.name: planned for planned in trained if planned.has_weights}
    if name is not None and name not in finished:
        names = ", ".join(finished) or "there is none"
        allowed = f"must be a finished trial of {study.name}: {names}"
        problem = Problem("--vouch", f'names "{name}"', allowed, Typo(name, tuple(finished)))
        raise RefusedError([problem])
    if not finished:
        fault = f"has no finished trial in {study.name} to train again"
        raise refusal("--vouch", fault, "name the study that has one by sweep.name")
    return [*finished.values()] if name is None else [finished[name]]


def differences(recorded: Mapping[str, Any], today: Mapping[str, Any]) -> Iterator[str]:
    """How today's record of an attempt differs in what can change the bits of the weights.

    Compares only what both records have.
    """
    todays_conditions = _conditions(today)
    for name, recorded_value in _conditions(recorded).items():
        value = todays_conditions.get(name, recorded_value)
        if value != recorded_value:
            yield f"{name} is {value}, but was {recorded_value}"


def _conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """What can change the bits of the weights, by name, without what the record lacks."""
    cpu = record.get("cpu") or {}
    conditions = {
        "the CPU": cpu.get("model"),
        "the CPU's generation": cpu.get("generation"),
        "the device": record.get("device"),
        "threads": record.get("threads"),
    }
    conditions |= record.get("versions") or {}
    conditions.pop(DISTRIBUTION, None)  # vouching compares versions of allelse
    environment = record.get("environment") or {}
    for variable, value in environment.items():
        conditions[variable] = NOT_SET if value is None else value
    return {name: value for name, value in conditions.items() if value is not None}


def _seconds(candidate: Candidate) -> float:
    """How long the training of the candidate took; 0 if unknown."""
    result = candidate.planned.result or {}
    return float(result.get("seconds") or 0.0)


def _examine(planned: PlannedTrial, study: Study, code: Code | None) -> Candidate:
    """The candidate for a finished trial. Raises UnfitError if it can't be repeated here, or need
    not be."""
    source = Source(study, planned.trial, is_scored=True)
    records = source.training()
    if source.has_diverged:
        raise UnfitError("it has diverged")
    if not records:
        raise UnfitError("its provenance is not recorded")
    for record in records[1:]:
        for difference in differences(records[0], record):
            raise UnfitError(f"its attempts differ: {difference}")
    if source.step not in source.saved_steps():
        raise UnfitError("the checkpoint of its last step is not there")
    codes = {str(record.get("code")) for record in records}
    candidate = _candidate(planned, source, records[-1])
    if len(codes) > 1:
        raise UnfitError("several versions of the code have trained it")
    if _is_by_todays_code(candidate, study, code):
        raise UnfitError("today's code has trained it")
    today = _todays_record(candidate.record, code)
    if planned.settings.cluster.address is not None:
        del today["cpu"]  # it trains on the nodes; the comparison afterwards sees their CPUs
    for difference in differences(candidate.record, today):
        requirement = "only the same kind of machine, with the same packages, can show it"
        raise UnfitError(f"{difference}: {requirement}")
    return candidate


def _candidate(planned: PlannedTrial, source: Source, record: Provenance) -> Candidate:
    """The candidate with the workers and threads of its record, or the threads of its configuration
    in older ones."""
    config = source.folder.config() or {}
    cluster = config.get("cluster", {})
    _, workers = device_and_workers(record)
    threads = record.get("threads") or cluster.get("cpus_per_worker") or 1
    gpus = cluster.get("gpus_per_worker") or 0.0
    return Candidate(
        planned,
        source,
        record,
        workers=workers,
        threads=int(threads),
        gpus=float(gpus),
    )


def _is_by_todays_code(candidate: Candidate, study: Study, code: Code | None) -> bool:
    """Whether both the user's code and allelse's files count as the same as today's."""
    same_code = SameCode(study.vouched)
    is_same_task = code is None or same_code.are_same(candidate.code, code.digest)
    return is_same_task and same_code.are_same(candidate.own_files, own_files())


def _todays_record(record: Provenance, code: Code | None) -> Provenance:
    """What this machine would record today, as far as that is known before a worker runs."""
    versions = {package: _version(package) for package in record.get("versions") or {}}
    environment = variables(code)
    return {"cpu": this_cpu(), "versions": versions, "environment": environment}


def _version(package: str) -> str:
    if package == PYTHON:
        return platform.python_version()
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _no_candidate(study: Study, reasons: Mapping[str, str]) -> Problem:
    """The refusal, with the first trial's name for each reason."""
    clauses = "; ".join(f"{name}: {reason}" for reason, name in reasons.items())
    fault = f"cannot train a trial of {study.name} again: {clauses}"
    effect = "`--changed-code` trains the remaining trials, and the table marks them"
    return Problem("--vouch", fault, f"leave it out if nothing has changed; {effect}")


def versions_of(candidate: Candidate, code: Code | None) -> dict[str, list[str]]:
    """The recorded and today's versions of the user's code and of allelse, as the study's file
    stores them."""
    return {
        "code": _changed_pair(candidate.code, code.digest if code else ""),
        "own_files": _changed_pair(candidate.own_files, own_files()),
        "version": _changed_pair(candidate.version, own_version() or ""),
    }


def _changed_pair(recorded: str, today: str) -> list[str]:
    """Both versions; [] if they are equal or one is unknown."""
    if not recorded or not today or recorded == today:
        return []
    return [recorded, today]
