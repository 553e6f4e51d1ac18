"""What the rows wrote, side by side: the artifacts of the headline's set, line by line, equal ones together."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracking.report.drawing import Entry
from tracking.statistics.rows import BASE
from tracking.study import Study, Trial

SHOWN = 8
LONGEST = 2000  # letters of a text that has no lines in common with others
Texts = Mapping[str, Sequence[str]]
"""Lines of the set by what they are, such as source and reference. The last one is what outputs are compared with."""


@dataclass(frozen=True)
class Output:
    """The lines that one row wrote, with its first finished seed."""

    entry: Entry
    seed: int
    lines: list[str]


def samples(study: Study, entries: Sequence[Entry], texts: Texts) -> dict[str, dict[str, Any]]:
    """By artifact; an artifact that no finished trial has is left out."""
    set_name = study.task.headline.set
    found = {artifact: _outputs(study, entries, artifact, set_name) for artifact in study.task.artifacts}
    return {artifact: _shown(outputs, texts, set_name) for artifact, outputs in found.items() if outputs}


def _outputs(study: Study, entries: Sequence[Entry], artifact: str, set_name: str) -> list[Output]:
    by_row: dict[str, list[Trial]] = {}
    for trial in study.trials:
        by_row.setdefault(trial.row, []).append(trial)
    found = [(entry, _first(study, by_row[entry.row], artifact, set_name)) for entry in entries]
    return [Output(entry, *first) for entry, first in found if first is not None]


def _first(study: Study, trials: Sequence[Trial], artifact: str, set_name: str) -> tuple[int, list[str]] | None:
    for trial in trials:
        folder = study.trial_folder(trial)
        path: Path = folder.artifact_path(artifact, set_name)
        if folder.finished_result(trial.key) is not None and path.is_file():
            return trial.seed, path.read_text("utf-8", errors="replace").splitlines()
    return None


def _shown(outputs: Sequence[Output], texts: Texts, set_name: str) -> dict[str, Any]:
    """Some lines of all rows, or the whole texts where rows did not write the same number of lines."""
    if len({len(output.lines) for output in outputs}) > 1:
        return {"note": "", "samples": [], "whole": [(output, _cut("\n".join(output.lines))) for output in outputs]}
    texts = {name: lines for name, lines in texts.items() if len(lines) == len(outputs[0].lines)}
    chosen = _chosen(outputs)
    seeds = ", ".join(map(str, sorted({output.seed for output in outputs})))
    words = f"{len(chosen)} of {len(outputs[0].lines)} lines of {set_name}, evenly spaced among those on which rows"
    compared = list(texts)[-1] if texts else BASE
    marks = f"Marked: words that the {compared} does not have there. Struck: words left out."
    note = f"{words} differ; seed {seeds}. {marks}"
    return {"note": note, "samples": [_sample(outputs, texts, place) for place in chosen], "whole": []}


def _cut(text: str) -> str:
    return f"{text[:LONGEST]}…" if len(text) > LONGEST else text


def _chosen(outputs: Sequence[Output]) -> list[int]:
    count = len(outputs[0].lines)
    differing = [place for place in range(count) if len({output.lines[place] for output in outputs}) > 1]
    places = differing or list(range(count))
    return [places[number * len(places) // SHOWN] for number in range(SHOWN)] if len(places) > SHOWN else places


def _sample(outputs: Sequence[Output], texts: Texts, place: int) -> dict[str, Any]:
    """``wrote``: each line with the rows that wrote it."""
    given = {name: lines[place] for name, lines in texts.items()}
    base = next((output for output in outputs if output.entry.row == BASE), outputs[0])
    compared = [*given.values(), base.lines[place]][max(0, len(given) - 1)]
    wrote: dict[str, list[Entry]] = {}
    for output in outputs:
        wrote.setdefault(output.lines[place], []).append(output.entry)
    return {
        "line": place + 1,
        "given": given,
        "wrote": [(marked(text, compared), rows) for text, rows in wrote.items()],
    }


def marked(text: str, compared: str) -> list[tuple[str, str]]:
    """The words of a text in parts: "equal" to the other text, not there in it, or, of its words, "delete"d."""
    ours, theirs = text.split(), compared.split()
    changes = difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes() if ours else []
    return [
        (kind, " ".join(theirs[first:last] if kind == "delete" else ours[start:end]))
        for kind, first, last, start, end in changes
    ]
