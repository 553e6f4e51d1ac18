"""What the rows wrote, side by side: some lines of their outputs, with the words in which they
differ."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.report.drawing import Entry
from tracking.statistics.table_row import BASE
from tracking.study import Study
from tracking.words import grouped

SHOWN_SAMPLES = 8
SetTexts = Mapping[str, Sequence[str]]
"""Lines of a set by name, such as source and reference. Outputs are compared with the last one."""


@dataclass(frozen=True)
class Output:
    """The lines that one row wrote, with its first finished seed."""

    entry: Entry
    seed: int
    lines: Mapping[int, str]  # by the number of the sample, from 1 on


def output_samples(
    study: Study, entries: Sequence[Entry], texts: SetTexts
) -> dict[str, dict[str, Any]]:
    """By artifact; an artifact that no finished trial has is left out."""
    samples = dict[str, dict[str, Any]]()
    set_name = study.task.headline.set
    for artifact in study.task.artifacts:
        outputs = [_output(study, entry, artifact, set_name) for entry in entries]
        existing = [output for output in outputs if output is not None]
        if existing:
            samples[artifact] = _compared(existing, texts, set_name)
    return samples


def _output(study: Study, entry: Entry, artifact: str, set_name: str) -> Output | None:
    for trial in study.trials:
        if trial.row != entry.row.row:
            continue
        lines = study.trial_folder(trial).artifact_lines(artifact, set_name)
        if lines and study.standing(trial).result is not None:
            return Output(entry, trial.seed, lines)
    return None


def _compared(outputs: Sequence[Output], texts: SetTexts, set_name: str) -> dict[str, Any]:
    """Some of the lines that all rows have, evenly spaced among those on which rows differ."""
    numbers = set(outputs[0].lines)
    for output in outputs:
        numbers &= set(output.lines)
    shared = [number for number in outputs[0].lines if number in numbers]
    differing = []
    for number in shared:
        lines = {output.lines[number] for output in outputs}
        if len(lines) > 1:
            differing.append(number)
    chosen = _evenly_spaced(differing or shared)
    fitting_texts = {name: lines for name, lines in texts.items() if len(lines) == len(shared)}
    compared_with = [BASE, *fitting_texts][-1]
    seeds = ", ".join(map(str, sorted({output.seed for output in outputs})))
    note = (
        f"{len(chosen)} of {len(shared)} lines of {set_name}, "
        "evenly spaced among those on which rows differ; "
        f"seed {seeds}. "
        f"Marked: words added to the {compared_with}. Struck through: words left out."
    )
    samples = [_sample(outputs, fitting_texts, number) for number in chosen]
    return {"note": note, "samples": samples}


def _evenly_spaced(numbers: Sequence[int]) -> Sequence[int]:
    if len(numbers) <= SHOWN_SAMPLES:
        return numbers
    return [numbers[step * len(numbers) // SHOWN_SAMPLES] for step in range(SHOWN_SAMPLES)]


def _sample(outputs: Sequence[Output], texts: SetTexts, number: int) -> dict[str, Any]:
    """``texts``: lines of the set; ``outputs``: each line with the rows that wrote it."""
    base = next((output for output in outputs if output.entry.is_base), outputs[0])
    lines = {name: text[number - 1] for name, text in texts.items()}
    compared_with = [base.lines[number], *lines.values()][-1]
    entries_of_line = grouped((output.lines[number], output.entry) for output in outputs)
    marked_outputs = []
    for line, entries in entries_of_line.items():
        marked_outputs.append((_marked(line, compared_with), entries))
    return {"line": number, "texts": lines, "outputs": marked_outputs}


def _marked(line: str, compared_with: str) -> list[tuple[str, str]]:
    """The words of a line in parts: "equal" to the other line, "insert" or "replace" its words, or
    "delete" them."""
    words = line.split()
    if not words:
        return []
    other_words = compared_with.split()
    matcher = difflib.SequenceMatcher(None, other_words, words, autojunk=False)
    parts = list[tuple[str, str]]()
    for change, other_start, other_end, start, end in matcher.get_opcodes():
        part = other_words[other_start:other_end] if change == "delete" else words[start:end]
        parts.append((change, " ".join(part)))
    return parts
