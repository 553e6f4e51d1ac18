"""What the rows wrote, side by side: the artifacts of the headline's set, line by line, equal ones together."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracking.report.elements import Html, element, join
from tracking.report.row_entries import Entry
from tracking.rows import BASE
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


def samples_sections(study: Study, entries: Sequence[Entry], texts: Texts) -> dict[str, list[Html]]:
    """By artifact; an artifact that no finished trial has is left out."""
    set_name = study.task.headline.set
    found = {artifact: _outputs(study, entries, artifact, set_name) for artifact in study.task.artifacts}
    return {artifact: _section(outputs, texts, set_name) for artifact, outputs in found.items() if outputs}


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


def _section(outputs: Sequence[Output], texts: Texts, set_name: str) -> list[Html]:
    if len({len(output.lines) for output in outputs}) > 1:
        return [_whole(output) for output in outputs]
    texts = {name: lines for name, lines in texts.items() if len(lines) == len(outputs[0].lines)}
    chosen = _chosen(outputs)
    seeds = ", ".join(map(str, sorted({output.seed for output in outputs})))
    words = f"{len(chosen)} of {len(outputs[0].lines)} lines of {set_name}, evenly spaced among those on which rows"
    compared = list(texts)[-1] if texts else BASE
    marks = f"Marked: words that the {compared} does not have there. Struck: words left out."
    note = f"{words} differ; seed {seeds}. {marks}"
    return [element("p", note, class_="note"), *(_sample(outputs, texts, place) for place in chosen)]


def _chosen(outputs: Sequence[Output]) -> list[int]:
    count = len(outputs[0].lines)
    differing = [place for place in range(count) if len({output.lines[place] for output in outputs}) > 1]
    places = differing or list(range(count))
    return [places[number * len(places) // SHOWN] for number in range(SHOWN)] if len(places) > SHOWN else places


def _sample(outputs: Sequence[Output], texts: Texts, place: int) -> Html:
    given = [
        element("div", element("dt", name), element("dd", lines[place]), class_="given")
        for name, lines in texts.items()
    ]
    compared = list(texts.values())[-1][place] if texts else _of_base(outputs, place)
    wrote: dict[str, list[Entry]] = {}
    for output in outputs:
        wrote.setdefault(output.lines[place], []).append(output.entry)
    lines = [
        element("div", element("dt", *_names(rows)), element("dd", *marked(text, compared)), class_=_class(rows))
        for text, rows in wrote.items()
    ]
    return element("article", element("h3", f"Line {place + 1}"), element("dl", *given, *lines), class_="sample")


def _of_base(outputs: Sequence[Output], place: int) -> str:
    return next((output for output in outputs if output.entry.row == BASE), outputs[0]).lines[place]


def _names(rows: Sequence[Entry]) -> list[Html]:
    return [element("span", entry.full, class_=f"row row-{entry.place} chip", title=entry.row) for entry in rows]


def _class(rows: Sequence[Entry]) -> str:
    """A line of one row goes with its row; one of several stays."""
    return f"wrote row row-{rows[0].place}" if len(rows) == 1 else "wrote"


def marked(text: str, compared: str) -> list[Html]:
    """The words of a text. Those that the other text does not have there are marked, those that are left out struck."""
    ours, theirs = text.split(), compared.split()
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    parts: list[Html] = []
    for kind, first, last, start, end in matcher.get_opcodes():
        words = " ".join(theirs[first:last] if kind == "delete" else ours[start:end])
        tag = {"equal": "", "delete": "del"}.get(kind, "mark")
        parts.append(element(tag, words) if tag else join([words]))
    return [join(parts, " ")] if ours else [element("em", "nothing")]


def _whole(output: Output) -> Html:
    text = "\n".join(output.lines)
    cut = f"{text[:LONGEST]}…" if len(text) > LONGEST else text
    name = element("summary", f"{output.entry.full}, seed {output.seed}")
    return element("details", name, element("pre", cut), class_=f"row row-{output.entry.place}")
