"""Which checkpoint an attempt starts from, and how its workers agree on that."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Start:
    """A checkpoint; ``digest`` is that of its files' checksums."""

    step: int
    attempt: int
    digest: str


class ChosenStart(Protocol):
    """Passes rank zero's choice to the other workers; None means the beginning."""

    def tell(self, start: Start | None) -> None:
        """From rank zero."""

    def told(self) -> Start | None:
        """Wait for rank zero's choice."""

    def loaded(self, rank: int, world: int) -> None:
        """This worker has read the checkpoint. Rank zero waits for all: it may soon remove that checkpoint."""
