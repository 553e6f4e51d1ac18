"""Where `allelse report` may write, and the texts of a study's samples."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sweeps.config.settings import Settings
from sweeps.schema import Problem, RefusedError
from sweeps.verbs.texts import prepared_texts
from tracking.study import Study

PAGES = (".html", ".htm")


def refuse_places(output: Path | None, figures: Path | None = None, no_figures: bool = False) -> None:
    """Raises RefusedError with everything that is wrong with the places to write to."""
    both = Problem("--no-figures", "is typed with --figures, which writes them", "leave one of the two out")
    problems = [
        *([both] if figures and no_figures else ()),
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
    """What the task shows of the headline's set, such as sources and references. Empty where rows write no texts."""
    for trial in study.trials if study.task.artifacts else ():
        with suppress(OSError, ValueError):
            texts, _ = prepared_texts(study, trial, study.task.headline.set, Path(settings.paths.data))
            if texts:
                return {name: list(lines) for name, lines in texts.items()}
    return {}
