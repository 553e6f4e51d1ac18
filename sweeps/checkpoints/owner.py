"""Which attempt owns a trial's checkpoints: the newest one, by ``owner.json`` next to their folders.

A worker that was cut off may live on and write while its successor trains. Once it sees the successor's claim, it
neither writes nor removes anything.
"""

import errno
import json
from typing import Any

NAME = "owner.json"


class SupersededError(Exception):
    """A newer attempt owns the checkpoints, in one line."""


class Owner:
    """The claim of one attempt. ``run`` is the same for all attempts of one sweep, and new for the next."""

    def __init__(self, filesystem: Any, root: str, attempt: int, run: str) -> None:
        self.filesystem, self.path = filesystem, f"{root}/{NAME}"
        self.root, self.mine, self.claimed = root, {"attempt": attempt, "run": run}, False

    def claim(self) -> None:
        """Own the checkpoints from now on. Raises SupersededError if this attempt starts after its own successor."""
        found = self._found()
        if found and found["run"] == self.mine["run"] and found["attempt"] > self.mine["attempt"]:
            raise self._superseded(found)
        self.filesystem.makedirs(self.root, exist_ok=True)
        self.filesystem.pipe_file(f"{self.path}.part", json.dumps(self.mine).encode())
        self.filesystem.mv(f"{self.path}.part", self.path)
        self.claimed = True

    def check(self) -> None:
        """Raises SupersededError once another attempt has claimed the checkpoints.

        The claim of an earlier attempt of this sweep is one from before ours: the storage shows an older state.
        Raises OSError if the claim of this process is gone: the storage is away or was emptied.
        """
        found = self._found()
        if found is None and self.claimed and not self.filesystem.exists(self.path):
            raise OSError(errno.ESTALE, "the claim of this attempt is gone", self.path)
        earlier = found and found["run"] == self.mine["run"] and found["attempt"] < self.mine["attempt"]
        if found and found != self.mine and not earlier:
            raise self._superseded(found)

    def _found(self) -> dict[str, Any] | None:
        """The newest claim; None without one, or if its file is damaged."""
        try:
            found = json.loads(self.filesystem.cat_file(self.path))
            return {"attempt": int(found["attempt"]), "run": str(found["run"])}
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def _superseded(self, found: dict[str, Any]) -> SupersededError:
        return SupersededError(f"attempt {found['attempt']} owns {self.root}, so attempt {self.mine['attempt']} ends")
