"""Whether a command resumes exactly: compares a run in one go with one that is killed halfway."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from sweeps.command_task.command_task import CommandTask
from sweeps.command_task.definition import Definition
from sweeps.command_task.trial.resuming import Written, matches_in, newest_whole
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.probe.listing import COST_WORDS
from sweeps.verbs.probe.request import command_of_task, trial_values, with_steps
from sweeps.verbs.probe.run import (
    Ran,
    refuse_unless_started,
    run,
    started,
)
from sweeps.verbs.probe.workspace import Workspace, fresh_workspace
from tracking.observed.columns import words_of
from tracking.written.point import WrittenPoint
from tracking.written.watch import WrittenMetrics

LOOK_S = 0.05
"""Between two looks whether the command may be killed: it should not run on for long."""
HISTORIES = ("trainer_state.json",)
"""Sources that a resumed run writes anew from the first step."""
Origin = tuple[str, str]
"""A metric's name and its source."""
Values = Mapping[tuple[Origin, int], float]


@dataclass(frozen=True)
class Difference:
    """The first step at which a metric of two runs differs; None for a value that is missing."""

    name: str
    source: str
    step: int
    whole: float | None
    resumed: float | None


@dataclass(frozen=True)
class Resumption:
    """``compared``: pairs of values after the resume. ``differences``: the first one of each
    metric. ``unsteady``: those that differed before anything was killed. ``begins_again``: whether
    the resumed run reported what came before its checkpoint."""

    steps: int
    killed_at: int
    checkpoint: str
    compared: int
    metrics: int
    differences: Sequence[Difference]
    unsteady: Sequence[Difference]
    begins_again: bool

    @property
    def is_equal(self) -> bool:
        return self.compared > 0 and not self.differences and not self.begins_again

    @property
    def first(self) -> str:
        """Such as "loss differs at step 21"; "" if nothing differs."""
        if self.begins_again:
            return "it begins again"
        if not self.differences:
            return ""
        return f"{self.differences[0].name} differs at step {self.differences[0].step}"


@dataclass(frozen=True)
class KilledRun:
    """Its points until the kill, and the path in {out} of the checkpoint to go on from, which was
    written after ``steps_before``: the last step of each metric at that time."""

    points: Sequence[WrittenPoint]
    checkpoint: str
    steps_before: Mapping[Origin, int]


class NotComparableError(Exception):
    """The runs did not get as far as to compare them. The message says why, and what helps."""

    def __init__(self, fault: str, ran: Ran | None = None) -> None:
        super().__init__(fault)
        self.lines = ran.lines if ran is not None and ran.code else ()


def compare_resumed(task: CommandTask, here: Path, seconds: float, steps: int | None) -> Resumption:
    """Run the task's command whole, and once more with a kill. ``steps``: instead of base's.

    Raises RefusedError for a command that can't resume, and NotComparableError.
    """
    definition = _resumable(task)
    if steps is not None:
        task = with_steps(task, steps)
    with fresh_workspace(here) as workspace:
        undisturbed = _run(task, workspace, None, seconds)
    last_step = _last_step(undisturbed.points)
    if last_step < 0:
        raise NotComparableError("its metrics name no steps, so the runs can't be compared by step")
    with fresh_workspace(here) as workspace:
        killed = run_until_killed(task, definition, workspace, last_step // 2, seconds)
        path = workspace.out / killed.checkpoint
        resumed = _run(task, workspace, path, seconds)
    return resumption(undisturbed.points, killed, resumed.points)


def _resumable(task: CommandTask) -> Definition:
    definition = task.definition
    assert definition is not None
    if definition.checkpoint is None or "resume" not in definition.template.names:
        fault = "has no checkpoint: and {resume}, so a lost trial begins again"
        allowed = "name the checkpoints, as checkpoint: checkpoint-*, and write {resume}"
        raise RefusedError([Problem("--resume", fault, allowed, place=definition.place("command"))])
    return definition


def _run(task: CommandTask, workspace: Workspace, checkpoint: Path | None, seconds: float) -> Ran:
    """To its end. Raises NotComparableError if it fails or takes too long."""
    command = command_of_task(task, trial_values(workspace.out, checkpoint))
    ran = run(command.words, command.env, workspace, seconds)
    run_name = "resumed run" if checkpoint else "whole run"
    if ran.was_ended:
        raise _too_long(run_name, seconds)
    if ran.code:
        raise NotComparableError(f"the {run_name} failed with code {ran.code}", ran)
    return ran


def run_until_killed(
    task: CommandTask, definition: Definition, workspace: Workspace, half: int, seconds: float
) -> KilledRun:
    """The run until SIGKILL, behind step ``half``, once there is a checkpoint.

    Raises NotComparableError if the run ends before, or takes too long.
    """
    command = command_of_task(task, trial_values(workspace.out))
    metrics = WrittenMetrics(workspace.out, workspace.output)
    pattern = str(definition.checkpoint)
    points: list[WrittenPoint] = []
    checkpoints: set[Written] = set()
    steps_before: dict[Written, dict[Origin, int]] = {}  # before each was first seen
    begin = monotonic()
    with started(command.words, command.env, workspace) as process:
        while not process.has_ended:
            process.wait(LOOK_S)
            _refuse_longer("run that is killed", begin, seconds)
            points_before = len(points)
            points += metrics.poll()
            earlier, checkpoints = checkpoints, set(matches_in(workspace.out, pattern))
            for written in checkpoints - steps_before.keys():
                steps_before[written] = _last_steps(points[:points_before])
            is_complete = bool(checkpoints) and checkpoints == earlier
            if is_complete and _last_step(points) >= half:
                break
        has_ended = process.has_ended
    refuse_unless_started(process, command.words)
    unchanged = checkpoints & set(matches_in(workspace.out, pattern))
    checkpoint = newest_whole(workspace.out, unchanged)
    if has_ended or checkpoint is None:
        fault = (
            f"the run ended before it could be killed after step {half} with a checkpoint there; "
            "it needs more steps, or checkpoints more often"
        )
        raise NotComparableError(fault)
    points += metrics.poll()
    return KilledRun(points, checkpoint.path, steps_before[checkpoint])


def _refuse_longer(run_name: str, begin: float, seconds: float) -> None:
    if monotonic() - begin > seconds:
        raise _too_long(run_name, seconds)


def _too_long(run_name: str, seconds: float) -> NotComparableError:
    return NotComparableError(
        f"the {run_name} took longer than {seconds:g} s; give it more: --seconds"
    )


def _last_step(points: Iterable[WrittenPoint]) -> int:
    return max((point.step for point in points if point.step is not None), default=-1)


def _last_steps(points: Iterable[WrittenPoint]) -> dict[Origin, int]:
    """Of each metric, other than those whose steps go back, as if each epoch began anew."""
    last_steps: dict[Origin, int] = {}
    going_back: set[Origin] = set()
    for point in points:
        if point.step is None:
            continue
        origin = (point.name, point.source)
        if point.step < last_steps.get(origin, point.step):
            going_back.add(origin)
        last_steps[origin] = point.step
    return {origin: step for origin, step in last_steps.items() if origin not in going_back}


def resumption(
    undisturbed: Sequence[WrittenPoint], killed: KilledRun, resumed: Sequence[WrittenPoint]
) -> Resumption:
    """The comparison of the points of the whole run with those until the kill, and with those of
    the resumed run from behind its checkpoint."""
    whole_values = _values(undisturbed)
    earlier = _values(killed.points)
    steps_before = _known_steps_before(killed)
    later = {
        (origin, step): value
        for (origin, step), value in _values(resumed).items()
        if step > steps_before.get(origin, -1)
    }
    unsteady = list(_differences(whole_values, earlier))
    unsteady_origins = {(difference.name, difference.source) for difference in unsteady}
    steady = {key: value for key, value in later.items() if key[0] not in unsteady_origins}
    ends = _ends(whole_values, {**earlier, **later})
    differences = [*_differences(whole_values, steady), *_missing_ends(ends, unsteady_origins)]
    return Resumption(
        steps=_last_step(undisturbed),
        killed_at=_last_step(killed.points),
        checkpoint=killed.checkpoint,
        compared=len(steady.keys() & whole_values.keys()),
        metrics=len({origin for origin, _ in steady.keys() & whole_values.keys()}),
        differences=sorted(differences, key=lambda difference: difference.step),
        unsteady=unsteady,
        begins_again=_begins_again(killed, resumed),
    )


def _known_steps_before(killed: KilledRun) -> dict[Origin, int]:
    """Those of metrics whose steps never go back until the kill."""
    known = _last_steps(killed.points)
    return {origin: step for origin, step in killed.steps_before.items() if origin in known}


def _begins_again(killed: KilledRun, resumed: Sequence[WrittenPoint]) -> bool:
    """Whether the resumed run reports each metric's first step once more, and most others from
    before its checkpoint. Metrics with a single step there can't tell."""
    new_points = [point for point in resumed if not any(map(point.comes_from, HISTORIES))]
    reported = _steps(new_points)
    found = []
    for origin, last_step in _known_steps_before(killed).items():
        before = [step for step in sorted(_steps(killed.points)[origin]) if step <= last_step]
        again = [step for step in before if step in reported.get(origin, ())]
        if len(before) > 1:
            found.append(again[:1] == before[:1] and 2 * len(again) > len(before))
    return bool(found) and all(found)


def _steps(points: Iterable[WrittenPoint]) -> dict[Origin, set[int]]:
    """The steps of each metric."""
    steps: dict[Origin, set[int]] = {}
    for point in points:
        if point.step is not None:
            steps.setdefault((point.name, point.source), set()).add(point.step)
    return steps


def _values(points: Iterable[WrittenPoint]) -> dict[tuple[Origin, int], float]:
    """The last value of each metric at each step, without costs."""
    return {
        ((point.name, point.source), point.step): point.value
        for point in points
        if point.step is not None and COST_WORDS.isdisjoint(words_of(point.name))
    }


def _differences(first: Values, second: Values) -> Iterator[Difference]:
    """The first one of each metric, at steps that both have."""
    different: set[Origin] = set()
    for key in sorted(second.keys() & first.keys(), key=lambda key: key[1]):
        origin, step = key
        if origin not in different and not _is_same(first[key], second[key]):
            different.add(origin)
            yield Difference(*origin, step, first[key], second[key])


def _is_same(value: float, repeated: float) -> bool:
    return value == repeated or (math.isnan(value) and math.isnan(repeated))


def _ends(undisturbed: Values, interrupted: Values) -> Iterator[Difference]:
    """The last step of each metric that the interrupted run never wrote."""
    last_steps: dict[Origin, int] = {}
    for origin, step in undisturbed:
        last_steps[origin] = max(step, last_steps.get(origin, step))
    for origin, step in last_steps.items():
        if (origin, step) not in interrupted:
            yield Difference(*origin, step, undisturbed[origin, step], None)


def _missing_ends(ends: Iterable[Difference], unsteady: set[Origin]) -> Iterator[Difference]:
    for difference in ends:
        if (difference.name, difference.source) not in unsteady:
            yield difference
