"""Which attempt owns the checkpoints of a trial."""

import errno
import json
from typing import Any

OWNER = "owner.json"
"""Next to the folders of attempts: the newest one, which owns them."""


class SupersededError(Exception):
    """A newer attempt owns the checkpoints, in one line."""


class Owner:
    """Whether an attempt owns the checkpoints. One that never claimed them, such as a verb, checks
    nothing.

    A worker that was cut off may live on and write while its successor trains. Once it sees the
    successor's claim, it neither writes nor removes anything.
    """

    def __init__(self, filesystem: Any, root: str, attempt: int) -> None:
        self.filesystem = filesystem
        self.path = f"{root}/{OWNER}"
        self.root = root
        self.mine = {"attempt": attempt, "run": ""}
        self.claimed = False

    def claim(self, run: str) -> None:
        """Own the checkpoints from now on. ``run`` is the same for all attempts of one sweep, and
        new for the next.

        Raises SupersededError if this attempt starts after its own successor.
        """
        self.mine["run"] = run
        owner = self._newest_claim()
        if owner and owner["run"] == self.mine["run"] and owner["attempt"] > self.mine["attempt"]:
            raise self._superseded(owner)
        self.filesystem.makedirs(self.root, exist_ok=True)
        self.filesystem.pipe_file(f"{self.path}.part", json.dumps(self.mine).encode())
        self.filesystem.mv(f"{self.path}.part", self.path)
        self.claimed = True

    def check(self) -> None:
        """Raises SupersededError once another attempt has claimed the checkpoints.

        The claim of an earlier attempt of this sweep is one from before ours: the storage shows an
        older state. Raises OSError if the claim of this process is gone: the storage is away or was
        emptied.
        """
        if not self.claimed:
            return
        owner = self._newest_claim()
        if owner is None and not self.filesystem.exists(self.path):
            raise OSError(errno.ESTALE, "the claim of this attempt is gone", self.path)
        earlier = (
            owner and owner["run"] == self.mine["run"] and owner["attempt"] < self.mine["attempt"]
        )
        if owner and owner != self.mine and not earlier:
            raise self._superseded(owner)

    def _newest_claim(self) -> dict[str, Any] | None:
        """The newest claim; None without one, or if its file is damaged."""
        try:
            claim = json.loads(self.filesystem.cat_file(self.path))
            return {"attempt": int(claim["attempt"]), "run": str(claim["run"])}
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def _superseded(self, owner: dict[str, Any]) -> SupersededError:
        return SupersededError(
            f"attempt {owner['attempt']} owns {self.root}, so attempt {self.mine['attempt']} ends"
        )
