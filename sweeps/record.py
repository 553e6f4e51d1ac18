"""What a trial's workers report, written into its folder. Only the sweep's own process writes there."""

import os
import socket
import textwrap
from typing import Any

import yaml

from sweeps.plan import PlannedTrial, config_dict
from tracking.files import to_json, write_atomic
from tracking.provenance import collect
from transformer.messages import Assignment, Event, Failed, Finished, Report, Resumed, Started


class Recorder:
    """One trial's folder over its attempts; every event says which attempt it comes from."""

    def __init__(self, planned: PlannedTrial) -> None:
        self.planned, self.folder = planned, planned.folder

    @property
    def next_attempt(self) -> int:
        """The number that the next attempt will get."""
        return max((attempt.number for attempt in self.folder.attempts()), default=0) + 1

    def assignment(self) -> Assignment:
        """What the workers of the next attempt are told."""
        settings = self.planned.settings
        return Assignment(
            settings.trial,
            self.next_attempt,
            settings.paths.data,
            self.planned.checkpoints,
            settings.cluster.cpus_per_worker,
        )

    def begin(self) -> int:
        """Write down that an attempt begins, before it does."""
        write_atomic(self.folder.config_path, _yaml(config_dict(self.planned)))
        return self.folder.begin_attempt(socket.gethostname(), os.getpid())

    def take(self, attempt: int, event: Event) -> bool:
        """Write down one event; False if it comes from an attempt that was given up."""
        if attempt != self.next_attempt - 1:
            return False
        match event:
            case Started(device):
                content = collect(device, self.planned.fingerprint)
                write_atomic(self.folder.provenance_path, to_json(content) + "\n")
            case Resumed(step, metrics):
                self.folder.cut_back(step)
                self.folder.report(attempt, step, metrics, fsync=True)
            case Report(step, metrics):
                self.folder.report(attempt, step, metrics, fsync="checkpoint" in metrics)
            case Finished():
                self._finish(attempt, event)
            case Failed(cause, details):
                self.fail(attempt, cause, details)
        return True

    def fail(self, attempt: int, cause: str, details: str = "") -> None:
        """The trial is given up: say why, the cause in the first line."""
        text = f"{cause}\n\n{textwrap.dedent(details).strip()}\n" if details else f"{cause}\n"
        self.folder.write_error(text)
        self.folder.end_attempt(attempt, f"failed: {cause}")

    def end(self, attempt: int, reason: str) -> None:
        """Note the end of an attempt that neither finished nor failed."""
        open_ones = [a.number for a in self.folder.attempts() if a.ended is None]
        if attempt in open_ones:
            self.folder.end_attempt(attempt, reason)

    def _finish(self, attempt: int, event: Finished) -> None:
        trial = self.planned.trial
        for set_name, lines in event.hypotheses.items():
            self.folder.write_hypotheses(set_name, lines)
        head = {"key": trial.key, "row": trial.row, "seed": trial.seed, "step": event.step, "attempt": attempt}
        self.folder.write_result({**head, **event.costs, "scores": event.scores})
        self.folder.end_attempt(attempt, "finished")


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
