"""How a task writes states that are not plain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.processes.storage import own_temporary
from sweeps.task import Task


@dataclass(frozen=True)
class OwnFormat:
    """How a task writes states that are not plain, and reads them."""

    save: Callable[[Any, Path], None]
    load: Callable[[Path], Any]

    @staticmethod
    def of(task: Task[Any]) -> "OwnFormat | None":
        """None for a task whose states are plain."""
        return OwnFormat(task.save, task.load) if task.save and task.load else None

    def files(self, state: Any) -> dict[str, bytes]:
        """What ``save`` writes, by path. Raises what ``save`` raises."""
        with own_temporary() as temporary:
            self.save(state, temporary)
            paths = sorted(path for path in temporary.rglob("*") if path.is_file())
            return {path.relative_to(temporary).as_posix(): path.read_bytes() for path in paths}

    def state(self, content: Mapping[str, bytes]) -> Any:
        """What ``load`` reads from these files. Raises what ``load`` raises."""
        with own_temporary() as temporary:
            for name, part in content.items():
                path = temporary / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(part)
            return self.load(temporary)
