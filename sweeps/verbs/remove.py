"""The verbs that move something to the trash: ``drop``, ``rm``. Without --yes they only show what."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_verb
from sweeps.planning.naming import looking, names_study
from sweeps.schema import Problem, RefusedError
from sweeps.verbs.command import guarded

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Move them. Without it, only show what would be moved.")]
Rows = Annotated[list[str], typer.Argument(metavar="ROW|TRIAL… [KEY=VALUE …]", help="Rows or trials, then overrides.")]
Studies = Annotated[list[str], typer.Argument(metavar="STUDY… [KEY=VALUE …]", help="Studies, then overrides.")]


@guarded
def drop(arguments: Rows, yes: Yes = False) -> None:
    """Remove rows or trials from a study. Their folders move to the trash, from which they can be moved back."""
    from sweeps.planning.named_study import study_to_change
    from sweeps.verbs import removal as dropping
    from sweeps.verbs.removal import refuse_running

    names, overrides = _sorted(arguments)
    if not names:
        raise RefusedError([Problem("ROW", "is missing", "must name a row or a trial of the study")])
    study = study_to_change(overrides).study
    removal = dropping.dropping(study, names)
    sizes, elsewhere = removal.sizes(), removal.left_elsewhere()
    refuse_running(removal.trials)
    if not yes:
        _preview(study.folder.parent, {trial.path.name: sizes.get(trial.path.name, 0) for trial in removal.trials})
        _remain(elsewhere)
        return next_verb("drop", [*arguments, "--yes"])
    place = dropping.drop(study, names, ["allelse", "drop", *arguments, "--yes"])
    _moved(place, sum(sizes.values()), f"mv {_quoted(place)}/* {_quoted(study.folder)}/")
    _remain(elsewhere)
    return next_verb("table", looking(study.folder, overrides))


@guarded
def rm(arguments: Studies, yes: Yes = False) -> None:
    """Remove whole studies. Their folders move to the trash, from which they can be moved back."""
    from sweeps.planning.compose import settings_to_read
    from sweeps.verbs.removal import refuse_running, remove, removing

    names, overrides = _sorted(arguments)
    settings = settings_to_read(overrides)
    if not names and not names_study(overrides):
        raise RefusedError([Problem("STUDY", "is missing", "`allelse studies` lists them")])
    removals = removing(Path(settings.paths.runs), names or [settings.study_folder.name])
    refuse_running([trial for removal in removals for trial in removal.trials])
    if not yes:
        _preview(removals[0].study.parent, {name: size for each in removals for name, size in each.sizes().items()})
        _remain([address for removal in removals for address in removal.left_elsewhere()])
        return next_verb("rm", [*arguments, "--yes"])
    for number, removal in enumerate(removals):
        (size,), elsewhere = removal.sizes().values(), removal.left_elsewhere()
        try:
            place = remove(removal)
        except RefusedError as error:  # a process took it up a moment ago
            raise RefusedError(error.problems, "The other studies were not moved." if number else "") from None
        _moved(place, size, f"mv {_quoted(place)} {_quoted(removal.study)}")
        _remain(elsewhere)
    return next_verb("studies", [override for override in overrides if override.startswith("paths.")])


def _sorted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names, and overrides: those with ``=``."""
    return [text for text in arguments if "=" not in text], [text for text in arguments if "=" in text]


def _preview(runs: Path, sizes: dict[str, int]) -> None:
    from sweeps.removing.trash import trash
    from tracking.words import size

    OUT.print(f"Would move {size(sum(sizes.values()))} to {escape(_shown(trash(runs)))}/:", soft_wrap=True)
    for name, count in sizes.items():
        OUT.print(f"  {escape(name)}, {size(count)}", soft_wrap=True)


def _moved(place: Path, count: int, restore: str) -> None:
    from tracking.words import size

    OUT.print(f"Moved {size(count)} to {escape(_shown(place))}/", soft_wrap=True)
    OUT.print(f"To restore: [bold]{escape(restore)}[/]", soft_wrap=True)


def _remain(elsewhere: Sequence[str]) -> None:
    """What is left where it is."""
    for address in elsewhere:
        OUT.print(f"Checkpoints stay at {escape(address)}", soft_wrap=True)
    OUT.print("MLflow keeps their runs.", style="dim")


def _shown(path: Path) -> str:
    """Relative to the current folder if it lies below."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _quoted(path: Path) -> str:
    return shlex.quote(_shown(path))
