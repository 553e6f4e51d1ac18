"""Which version of the user's code scores a trained trial, as the study records it."""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from sweeps.config.tasks import TaskSource
from sweeps.planning.user_code import scoring_code, user_code
from tracking.code import Code, write_code
from tracking.files import unless_damaged
from tracking.study import STUDY_FILE, read_study


@dataclass(frozen=True, eq=False)
class ScoringCode:
    """``recorded`` is the hash of a version that the study keeps; None if today's scores."""

    study: Path
    source: TaskSource
    recorded: str | None

    @cached_property
    def entry(self) -> dict[str, str]:
        """What heads and provenance say of it; {} for our own task."""
        today = self._today
        digest = self.recorded or (today.digest if today else "")
        return {"code": digest} if digest else {}

    def keep(self) -> None:
        """Keep today's version in the study, if that scores."""
        if self._today is not None:
            write_code(self.study, self._today)

    @cached_property
    def _today(self) -> Code | None:
        """None if a recorded version scores."""
        if self.recorded:
            return None
        if not (self.study / STUDY_FILE).exists():
            return user_code(self.source)
        study = unless_damaged(partial(read_study, self.study), None)
        return scoring_code(study, self.source) if study else user_code(self.source)
