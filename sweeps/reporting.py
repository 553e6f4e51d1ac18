"""Where `ablate report` may write, and what rows of a translation read and should write."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sweeps.planning.settings import Settings
from sweeps.schema import Problem, RefusedError
from tracking.damage import DamagedFileError
from tracking.study import Study
from tracking.translation_card import TRANSLATION

PAGES = (".html", ".htm")


def refuse_places(output: Path | None, figures: Path | None) -> None:
    """Raises RefusedError with everything that is wrong with the places to write to."""
    problems = [
        *(_page_problems(output) if output else ()),
        *(_folder_problems("--figures", figures) if figures else ()),
    ]
    if problems:
        raise RefusedError(problems)


def _page_problems(output: Path) -> Iterator[Problem]:
    if output.suffix.lower() not in PAGES:
        nearest = f"--output {output.with_suffix('.html') if output.name else 'report.html'}"
        yield Problem("--output", f"is {output}", "must be a file that ends in .html", nearest)
    elif output.is_dir():
        yield Problem(
            "--output", f"is {output}, a folder", "must be a file that ends in .html", f"--output {output}/report.html"
        )
    else:
        yield from _folder_problems("--output", output.parent)


def _folder_problems(option: str, folder: Path) -> Iterator[Problem]:
    """The nearest existing folder above must be one in which files can be made."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        yield Problem(option, f"lies in {there}, which is a file", "must lie in a folder")
    elif not os.access(there, os.W_OK | os.X_OK):
        yield Problem(option, f"lies in {there}, which cannot be written to", "choose another place")


def texts_of(study: Study, settings: Settings) -> dict[str, list[str]]:
    """Source and reference of the headline's set, from the prepared text of a finished trial. Empty without it."""
    if study.task.name != TRANSLATION.name:
        return {}
    from sweeps.trained.saved_trial import read_trial

    for trial in study.trials:
        with suppress(RefusedError, DamagedFileError, OSError, ValueError):
            texts = read_trial(study.folder / trial.name, settings).kept_texts(study.task.headline.set)
            if texts is not None:
                return dict(zip(("source", "reference"), texts, strict=True))
    return {}
