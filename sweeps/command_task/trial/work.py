"""One trial of a command in its worker: run it, watch it, and keep what it has written."""

import math
import os
import shutil
import time
from dataclasses import asdict
from typing import Any

from sweeps.command_task.definition import Definition
from sweeps.command_task.programs import search_path
from sweeps.command_task.template import filled
from sweeps.command_task.trial.ends import timed_out, unless_failed, without_metric
from sweeps.command_task.trial.guard import end_marked
from sweeps.command_task.trial.output import Output
from sweeps.command_task.trial.points import Recording
from sweeps.command_task.trial.process import CommandProcess, Start
from sweeps.command_task.trial.resuming import (
    Beginning,
    CheckpointWatch,
    Resumable,
    Written,
    beginning_of,
    write_record,
)
from sweeps.command_task.values import group_variables, key_values, planned_steps, trial_values
from sweeps.task import Trial
from tracking.provenance import RESUMED_FROM
from tracking.uri import shown_words
from tracking.written.environment import environment
from tracking.written.point import WrittenPoint
from tracking.written.watch import WrittenMetrics

LOOK_S = 0.5
"""Between two looks at what a command has written. Its end is seen at once."""
SHARE = 0.01
"""The most of a core that looking may take."""


def work(definition: Definition, trial: Trial[Any]) -> None:
    """Run the command to its end. Raises CommandError, TimedOutError."""
    CommandTrial(definition, trial).run()


class CommandTrial:
    """One attempt on one worker. Worker zero reports what the command writes."""

    def __init__(self, definition: Definition, trial: Trial[Any]) -> None:
        self.definition = definition
        self.trial = trial
        self.out = trial.folder / "out"
        number = f"-{trial.rank}" if trial.rank else ""
        self.output_path = trial.folder / f"output{number}.txt"
        self.saved_step = trial.saved.step if trial.saved else 0
        self.recording = Recording(
            definition.metrics,
            trial,
            start=self.saved_step,
            counts=definition.steps is None and definition.checkpoint is None,
            planned=planned_steps(definition, trial.config) or math.inf,
        )
        self.checkpoints: CheckpointWatch | None = None
        self.n_notices = 0

    def run(self) -> None:
        mark = f"{self.out}:{self.trial.rank}"
        end_marked(mark)
        beginning = self._beginning()
        self.points = WrittenMetrics(self.out, self.output_path)
        self._take_earlier(self.points.earlier, beginning)
        if self.definition.checkpoint is not None and not self.trial.rank:
            self.checkpoints = CheckpointWatch(self.out, self.definition.checkpoint)
        self.output = Output(self.output_path)
        start = self._start(beginning, mark)
        resumed_from = beginning.checkpoint and beginning.checkpoint.name
        self.trial.about({"command": shown_words(start.words), RESUMED_FROM: resumed_from})
        with CommandProcess(start) as process:
            stopped = self._watch(process)
        if not stopped:
            unless_failed(process, start.words[0], self.output.last_lines())
        if not self.trial.rank:
            self._end(stopped)

    def _start(self, beginning: Beginning, mark: str) -> Start:
        """The command's words and variables."""
        values = key_values(self.definition, self.trial.config)
        values |= trial_values(self.trial, self.out, beginning.checkpoint)
        env = {**os.environ, "PATH": search_path()}
        env |= environment(self.out) | group_variables(self.trial)
        env |= {name: filled(text, values) for name, text in self.definition.env.items()}
        words = self.definition.template.arguments(values)
        return Start(words, env, self.output_path, self.definition.grace, mark)

    def _beginning(self) -> Beginning:
        """Where the command begins. Unless it goes on from a checkpoint, ``{out}`` is emptied."""
        pattern = self.definition.checkpoint
        start = Beginning()
        if pattern is not None:
            state = self.trial.saved.state if self.trial.saved else None
            start = beginning_of(self.out, pattern, self.trial.folder, state, self.saved_step)
        if self.trial.rank == 0 and start.checkpoint is not None:
            self.trial.notice(f"goes on from {start.checkpoint.relative_to(self.out)}")
        elif self.trial.rank == 0 and self.output_path.exists():  # other workers may have {out}
            self._begin_again()
        self.out.mkdir(parents=True, exist_ok=True)
        self.output_path.touch()
        return start

    def _begin_again(self) -> None:
        """Remove what earlier attempts have written."""
        reason = "none of its checkpoints is there"
        if self.definition.checkpoint is None:
            reason = f"{self.definition.file} has no checkpoint:"
        self.trial.notice(f"begins again: {reason}")
        earlier = self.out.with_name("earlier")
        shutil.rmtree(earlier, ignore_errors=True)
        if self.out.exists():
            self.out.rename(earlier)  # at once, before other workers write there
        shutil.rmtree(earlier, ignore_errors=True)
        self.output_path.unlink(missing_ok=True)

    def _take_earlier(self, points: list[WrittenPoint], start: Beginning) -> None:
        """What earlier attempts wrote. The journal may lack a part of it, unless it is exact."""
        if start.is_exact or self.trial.rank:
            self.recording.remember(points)
        else:
            self.recording.report(points)

    def _watch(self, process: CommandProcess) -> bool:
        """Until the command ends. Returns whether it was asked to. Raises TimedOutError."""
        deadline = time.monotonic() + (self.definition.timeout or math.inf)
        is_late = False
        stopped = False
        pause = 0.0
        while True:
            process.wait(pause)
            busy = time.thread_time()
            self._look(process)
            if process.has_ended:
                break
            pause = max(LOOK_S, (time.thread_time() - busy) / SHARE)
            was_asked = stopped or is_late
            stopped = stopped or self.trial.stopping(alone=True)
            is_late = is_late or time.monotonic() > deadline
            if not was_asked and (stopped or is_late):
                process.end_gently()
        if is_late and not stopped:
            program = self.definition.words[0]
            seconds = self.definition.timeout or 0.0
            raise timed_out(program, seconds, self.output.last_lines())
        return stopped

    def _look(self, process: CommandProcess) -> None:
        """Pass on what the command has written since the last look."""
        self.output.pass_on(process.has_ended)
        if self.trial.rank:
            return
        complete = self.checkpoints.complete if self.checkpoints else None
        points = self.points.rest() if process.code == 0 else self.points.poll()
        has_reported = self.recording.report(points)
        self._pass_on_notices()
        if complete is not None and has_reported:
            self._save(complete)
        if self.checkpoints is not None:
            self.checkpoints.look()

    def _pass_on_notices(self) -> None:
        """Say once what could not be read."""
        for text in self.points.notices[self.n_notices :]:
            self.trial.notice(text)
        self.n_notices = len(self.points.notices)

    def _save(self, written: Written) -> None:
        """Note that this checkpoint belongs to the reports so far."""
        resumable = Resumable(written, self.recording.step)
        write_record(self.trial.folder, resumable)
        if self.recording.step > self.saved_step:
            self.trial.checkpoint(self.recording.step, asdict(resumable))
            self.saved_step = self.recording.step

    def _end(self, stopped: bool) -> None:
        """Keep the scores; of a command that was asked to stop, its last checkpoint.

        Raises CommandError for a metric without a value.
        """
        self.recording.release()
        if stopped:
            if self.checkpoints is not None and (last := self.checkpoints.end()):
                self._save(last)
            return
        for written in self.recording.missing():
            raise without_metric(written, self.recording.names, self.definition.takes_out)
        self.recording.report_values(planned_steps(self.definition, self.trial.config) or 1)
        for set_name, scores in self.recording.scores().items():
            self.trial.evaluated(set_name, scores)
