"""What a command prints: a file that grows, which is passed on to the trial's log."""

import sys
from pathlib import Path

MOST_BYTES = 1 << 16
"""Of one look: of a command that prints without end, the log has the newest lines only."""
LAST_LINES = 20


class Output:
    """The output of one attempt, at the end of ``path``, which has that of earlier ones, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._start = self._at = path.stat().st_size

    def pass_on(self, is_over: bool = False) -> None:
        """Print the complete lines since the last call, or everything that is left."""
        size = self.path.stat().st_size
        start = max(self._at, size - MOST_BYTES)
        with self.path.open("rb") as file:
            file.seek(start)
            content = file.read(size - start)
        if not is_over:
            content = content[: content.rfind(b"\n") + 1]
        self._at = start + len(content)
        if content:
            text = content.decode("utf-8", "replace")
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            sys.stdout.flush()

    def last_lines(self) -> list[str]:
        """The last lines of this attempt that are not empty."""
        with self.path.open("rb") as file:
            file.seek(max(self._start, self.path.stat().st_size - MOST_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
        return [line.rstrip() for line in lines if line.strip()][-LAST_LINES:]
