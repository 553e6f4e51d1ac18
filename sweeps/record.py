"""What a trial's workers report, written into its folder. Only the sweep's own process writes there."""

import os
import socket
from typing import Any

import yaml

from sweeps.plan import PlannedTrial, config_dict
from tracking.files import to_json, write_atomic
from tracking.provenance import collect
from transformer.messages import Assignment, Event, Failed, Finished, Report, Resumed, Started


class Recorder:
    """One trial's folder over its attempts. ``attempt`` is the newest, the only one whose events count."""

    def __init__(self, planned: PlannedTrial) -> None:
        self.planned, self.folder = planned, planned.folder
        self.founded = False  # whether it is known from which step the newest attempt went on
        self.attempt = max((attempt.number for attempt in self.folder.attempts()), default=0)

    def assignment(self) -> Assignment:
        """What the workers of the next attempt are told."""
        settings = self.planned.settings
        return Assignment(
            settings.trial,
            self.attempt + 1,
            settings.paths.data,
            self.planned.checkpoints,
            settings.cluster.cpus_per_worker,
            settings.cluster.tokens_per_pass,
        )

    def begin(self) -> None:
        """Write down that the next attempt begins, before it does."""
        write_atomic(self.folder.config_path, _yaml(config_dict(self.planned)))
        self.attempt = self.folder.begin_attempt(socket.gethostname(), os.getpid())
        self.founded = False

    def take(self, attempt: int, event: Event) -> bool:
        """Write down one event; False if it comes from an attempt that was given up."""
        if attempt != self.attempt:
            return False
        match event:
            case Started(device):
                content = collect(device, self.planned.fingerprint)
                write_atomic(self.folder.provenance_path, to_json(content) + "\n")
            case Resumed(step, metrics):
                self._found(step)
                self.folder.report(attempt, step, metrics, fsync=True)
            case Report(step, metrics):
                self._found(0)  # no checkpoint was found: what an earlier attempt reported is not its history
                self.folder.report(attempt, step, metrics, fsync="checkpoint" in metrics)
            case Finished():
                self._finish(event)
            case Failed(cause, details):
                self.fail(cause, details)
        return True

    def _found(self, step: int) -> None:
        """The newest attempt went on from this step; once told, the journal is cut back to it."""
        if not self.founded:
            self.folder.cut_back(step)
            self.founded = True

    def fail(self, cause: str, details: str = "") -> None:
        """The trial is given up: say why, the cause in the first line."""
        self.folder.write_error(f"{cause}\n\n{details.strip()}\n" if details else f"{cause}\n")
        self.end(f"failed: {cause}")

    def end(self, reason: str) -> None:
        """Note the end of the newest attempt, unless it has ended."""
        if any(a.number == self.attempt and a.ended is None for a in self.folder.attempts()):
            self.folder.end_attempt(self.attempt, reason)

    def _finish(self, event: Finished) -> None:
        trial = self.planned.trial
        for set_name, lines in event.hypotheses.items():
            self.folder.write_hypotheses(set_name, lines)
        head = {"key": trial.key, "row": trial.row, "seed": trial.seed, "step": event.step, "attempt": self.attempt}
        self.folder.write_result({**head, **event.costs, "scores": event.scores})
        self.end("finished")


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
