"""The folder of a trial's checkpoints, at any fsspec URL: ``<key[:16]>/a<attempt>/step-<n>/``.

A checkpoint belongs to the trial whose key its manifest holds. Other trials' checkpoints are neither read nor removed.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import fsspec

from sweeps.processes.storage import unless_in_use
from transformer.training import checkpoint_files as files
from transformer.training.checkpoint_files import CheckpointManifest, DamagedError, SavedState

KEY_DIGITS = 16  # of a key, in a path; the manifest holds the whole key


@dataclass(frozen=True, order=True)
class Place:
    """One checkpoint's place in its trial; the newest has the latest step, and among equals the latest attempt."""

    step: int
    attempt: int

    def __str__(self) -> str:
        return f"a{self.attempt}/step-{self.step}"


Found = tuple[Place, CheckpointManifest]
StateCheck = Callable[[SavedState], None]
"""Raises DamagedError for a state that does not fit its use."""


def any_state(state: SavedState) -> None:
    """Accepts every state."""


class CheckpointFolder:
    """The checkpoints of the trial ``key`` below ``url``.

    ``passed_over`` holds one line per checkpoint that was found and skipped. An unreachable filesystem raises its
    error, since a start from scratch would throw away finished training.
    """

    def __init__(self, url: str, key: str) -> None:
        self.filesystem, home = fsspec.core.url_to_fs(url)
        own = f"/{key[:KEY_DIGITS]}"
        self.home_url, self.home = url.rstrip("/"), home.rstrip("/")
        self.url, self.root, self.key = self.home_url + own, self.home + own, key
        self.passed_over: list[str] = []

    def finished(self, attempts: range, up_to: int = sys.maxsize) -> Iterator[Found]:
        """This trial's checkpoints that have a manifest, newest first, up to this step."""
        for place in sorted((place for place in self.places(attempts) if place.step <= up_to), reverse=True):
            try:
                manifest = self.manifest(place)
            except DamagedError as damage:
                self.pass_over(f"{self.url}/{place}: {damage}")
                continue
            if manifest:
                yield place, manifest

    def places(self, attempts: range) -> Iterator[Place]:
        """The places of all checkpoints here, finished or not, of any trial."""
        self.filesystem.invalidate_cache()  # other processes write here, too
        for attempt in self.attempts():
            if attempt in attempts:
                yield from (Place(step, attempt) for step in self._numbers(f"{self.root}/a{attempt}", "step-"))

    def attempts(self) -> list[int]:
        return self._numbers(self.root, "a")

    def manifest(self, place: Place) -> CheckpointManifest | None:
        """The manifest, or None if there is none. Raises DamagedError, also for another checkpoint's manifest."""
        manifest = files.read_manifest(self.filesystem, self.path(place))
        if manifest and manifest.key != self.key:
            raise OtherTrialError(f"belongs to {_trial(manifest.key)} and is skipped")
        if manifest and manifest.step != place.step:
            raise DamagedError(f"manifest.json is from step {manifest.step}")
        return manifest

    def read(self, place: Place, manifest: CheckpointManifest, check: StateCheck = any_state) -> SavedState | None:
        """The state, or None if it is damaged or does not fit."""
        try:
            state = files.load(self.filesystem, self.path(place), manifest)
            if state.get("step") != place.step:
                raise DamagedError(f"state.pt is from step {state.get('step')!r}")
            check(state)
            return state
        except DamagedError as damage:
            self.pass_over(f"{self.url}/{place}: {damage}")
            return None

    def is_whole(self, place: Place, manifest: CheckpointManifest) -> bool:
        """Whether size and checksum match; the file is read in parts."""
        try:
            files.check(self.filesystem, self.path(place), manifest)
        except DamagedError as damage:
            self.pass_over(f"{self.url}/{place}: {damage}")
            return False
        return True

    def belongs_to_another(self, place: Place) -> bool:
        try:
            self.manifest(place)
        except OtherTrialError:
            return True
        except DamagedError:
            return False
        return False

    def remove(self, place: Place) -> None:
        files.remove(self.filesystem, self.path(place))

    def remove_leftovers(self, attempts: range, kept: Iterable[Place]) -> None:
        """Remove temporary files of interrupted writes, and empty folders of attempts."""
        for place in kept:
            for path in self._listed(self.path(place)):
                if path.endswith(files.TEMPORARY):
                    with unless_in_use():
                        self.filesystem.rm(path)
        self.filesystem.invalidate_cache()
        for attempt in self.attempts():
            folder = f"{self.root}/a{attempt}"
            if attempt in attempts and not self._listed(folder):
                with unless_in_use():
                    self.filesystem.rmdir(folder)

    def pass_over_others(self) -> None:
        """Add one line about the checkpoints of other trials here, if any."""
        self.filesystem.invalidate_cache()
        names = sorted(path.rsplit("/", 1)[-1] for path in self._listed(self.home))
        folders = [name for name in names if re.fullmatch(f"[0-9a-f]{{{KEY_DIGITS}}}", name)]
        strange = [name for name in folders if f"{self.home}/{name}" != self.root]
        others = [_trial(name) for name in strange if self._numbers(f"{self.home}/{name}", "a")]
        if others:
            self.pass_over(f"{self.home_url}: skipped the checkpoints of {', '.join(others)}")

    def pass_over(self, line: str) -> None:
        if line not in self.passed_over:
            self.passed_over.append(line)

    def path(self, place: Place) -> str:
        return f"{self.root}/{place}"

    def _numbers(self, folder: str, prefix: str) -> list[int]:
        """The numbers of the entries ``<prefix><number>``."""
        found = [re.fullmatch(rf"{prefix}(\d+)", path.rsplit("/", 1)[-1]) for path in self._listed(folder)]
        return [int(match[1]) for match in found if match]

    def _listed(self, folder: str) -> list[str]:
        """The paths of the folder's entries; [] if there is no such folder."""
        try:
            return [path.rstrip("/") for path in self.filesystem.ls(folder, detail=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []


class OtherTrialError(DamagedError):
    """A checkpoint that holds another trial's key."""


def _trial(key: str) -> str:
    return f"trial {key[:KEY_DIGITS]}"
