"""The trial of another study from which a trial was taken, as ``attempts.jsonl`` and
``provenance.json`` name it."""

from dataclasses import dataclass
from typing import Any

SOURCE = "taken_from"
"""The key of both files."""
FORM = {"study": str, "identity": str, "trial": str}


@dataclass(frozen=True)
class SourceTrial:
    """By the names that it had then. ``identity`` is that of its study, which a rename keeps."""

    study: str
    identity: str
    trial: str

    def __str__(self) -> str:
        """Such as "multi30k-half/base-s1"."""
        return f"{self.study}/{self.trial}"

    @staticmethod
    def of(content: dict[str, Any]) -> "SourceTrial":
        return SourceTrial(content["study"], content["identity"], content["trial"])
