"""Where the configuration files of a task lie, in the order in which Hydra searches them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import sweeps
from sweeps.config.tasks import OURS, TaskSource
from sweeps.schema import nearest
from sweeps.task import Problem

TASKS = "task"
"""The folder of ``conf/`` for tasks of one's own: each has a folder there, and all share its files."""
SHARED = "shared"
"""The folder of ``conf/`` for what all tasks share: cluster, tracking, sweep."""
CONFIG, BASE = "config", "base"


def shipped_folder(package: Path) -> Path:
    """The shipped ``conf/``: inside the package in a wheel, next to it in a checkout, also an editable one."""
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


SHIPPED = shipped_folder(Path(sweeps.__file__).resolve().parent)


@dataclass(frozen=True)
class Folders:
    """The folders of a task for a command in the folder ``here``, which may have a ``conf/`` of the user's."""

    here: Path
    source: TaskSource

    @property
    def place(self) -> Path:
        """The task's folder below a ``conf/``."""
        ours = OURS.get(self.source.task.name)
        return Path(ours.folder) if ours else Path(TASKS, self.source.task.name)

    @cached_property
    def own(self) -> Path | None:
        """The user's ``./conf``; None if it is missing or is the shipped folder."""
        folder = (self.here / "conf").resolve()
        return folder if folder.is_dir() and folder != SHIPPED else None

    @cached_property
    def searched(self) -> tuple[Path, ...]:
        """The task's own folder, that around it, and what all tasks share; each the shipped one first.

        Hydra takes ``config`` from the first of all, which is a shipped one.
        """
        found = [conf / folder for folder in self._around for conf in (SHIPPED, self.own) if conf]
        first = next(folder for folder in found if (folder / f"{CONFIG}.yaml").is_file() and not self.is_own(folder))
        return tuple(folder for folder in dict.fromkeys([first, *found]) if folder.is_dir())

    @property
    def _around(self) -> tuple[Path, ...]:
        return (self.place, *self.place.parents[:-1], Path(SHARED))

    def find(self, path: str) -> Path | None:
        """The file that Hydra reads for ``group/option`` or ``config``."""
        return next((file for folder in self.searched if (file := folder / f"{path}.yaml").is_file()), None)

    def options(self, group: str) -> list[str]:
        """The names that ``group=`` takes."""
        files = (file for folder in self.searched for file in folder.glob(f"{group}/*.yaml") if file.is_file())
        return sorted({file.stem for file in files})

    def is_own(self, file: Path) -> bool:
        """Whether the file or folder is the user's."""
        return not file.is_relative_to(SHIPPED)

    def written_to(self, path: str) -> str:
        """Where the user writes a file of the task, as messages name it."""
        return f"conf/{self.place / path}.yaml"

    def show(self, file: Path) -> str:
        """The file relative to the user's folder or to the shipped one."""
        for root in (self.here.resolve(), self.here, SHIPPED.parent):
            if file.is_relative_to(root):
                return str(file.relative_to(root))
        return str(file)

    def unknown_option(self, group: str, name: str, place: str | None = None) -> Problem | None:
        """The refusal of a name for which there is no file."""
        options = self.options(group)
        if name in options:
            return None
        if misplaced := self.misplaced(group, name):
            found = f'is "{name}", but its file is {self.show(misplaced)}'
            return Problem(group, found, f"move or rename it to {self.written_to(f'{group}/{name}')}", None, place)
        found = f'is "{name}", but {Path(self.written_to(f"{group}/{name}")).parent}/ has no such file'
        return Problem(group, found, f"must be one of {', '.join(options)}", nearest(Path(name).stem, options), place)

    def shadowing(self, path: str) -> list[Problem]:
        """The problem of a user's file with the name of a shipped one, unless they are the same."""
        if self.own is None:
            return []
        places = [Path(folder, f"{path}.yaml") for folder in self._around]
        both = [(self.own / place, SHIPPED / place) for place in places]
        found = [own for own, shipped in both if shipped.is_file() and own.exists() and _differs(own, shipped)]
        allowed = "rename it, or make it identical to the shipped file"
        return [Problem(f"{path}.yaml", "shadows a shipped file", allowed, None, self.show(own)) for own in found]

    def misplaced(self, group: str, name: str) -> Path | None:
        """A file that was probably meant for this option: x.yml, X.YAML, or one outside the task's folder."""
        wanted = {f"{name}{ending}".casefold() for ending in (".yaml", ".yml")}
        folders = dict.fromkeys(self.here / "conf" / folder for folder in (self.place / group, Path(group)))
        files = (file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir()) if file.is_file())
        return next((file for file in files if file.name.casefold() in wanted), None)

    @property
    def ignored(self) -> str | None:
        """The user's ``conf/config.yaml``, which nothing reads: it may belong to another program."""
        file = self.own / f"{CONFIG}.yaml" if self.own else None
        same = file and self.place == Path() and not _differs(file, SHIPPED / file.name)
        return self.show(file) if file and file.is_file() and not same else None


def _differs(file: Path, shipped: Path) -> bool:
    return not file.is_file() or file.read_bytes() != shipped.read_bytes()
