"""Doubts about rows: what they change beyond their name, and runs of one row that are unlike."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from tracking.observed.columns import DATA, LENGTHS, last_part, word_set, words_of
from tracking.observed.doubt import Doubt, DoubtKind
from tracking.observed.rows import BASE, ObservedRow, ObservedRows
from tracking.observed.runs import ObservedRun, names_of
from tracking.observed.source_table import Value, is_number, value_text
from tracking.words import listed, shortened

GENERAL = word_set("size num number rate use max min type n the of per model train dim")
"""Words of settings that say nothing by themselves."""
FEWEST_LETTERS = 3
"""Of a word that may be shortened, such as drop for dropout."""
BATCH = "batch"
NOT_LENGTHS = word_set("warmup size every interval decay per accumulation gradient log")
"""With these words a number of steps is another setting."""
Values = Mapping[str, Value]


def hidden_differences(rows: ObservedRows, are_named: bool) -> Iterator[Doubt]:
    """Rows that change settings that neither their name nor their runs' names mention."""
    stray_rows = [] if are_named else [stray.name for stray, _ in strays(rows)]
    for row in rows.rows[1:]:
        if len(row.changed) < 2 or row.name in stray_rows:
            continue
        names = [f"{row.name} {row.change}"] if are_named else [run.name for run in row.runs]
        if not are_named and any(run.is_unnamed for run in row.runs):
            continue
        unsaid = _unsaid(row, row.changed, names)
        hidden = _without_lengths(unsaid)
        is_any_said = len(unsaid) < len(row.changed)
        if not hidden or not (is_any_said or are_named):
            continue
        subject = row.change if are_named else f"Runs named like {names[0]}"
        if is_any_said:
            verb = "also has" if are_named else "also have"
            words = _changes(rows, row, hidden)
        else:
            verb = "changes several settings, but its name mentions none of them:"
            words = _changes(rows, row, row.changed)
        text = f"{subject} {verb} {words}."
        yield Doubt("hidden-difference", text, names_of(row.runs), (row.name,))


def labeled_rows(rows: ObservedRows) -> Iterator[Doubt]:
    """Of inferred rows: those that change more beside a label, such as model wide, than rows with
    another label do."""
    for label in rows.labels:
        labeled = [row for row in rows.rows[1:] if label in row.changed]
        values = [row.settings[label] for row in labeled]
        is_label = len(labeled) > 1 and len({*values}) == len(values)
        if not is_label or not all(isinstance(value, str) for value in values):
            continue
        numbers = [len(row.changed) - 1 for row in labeled]
        usual = Counter(numbers).most_common(1)[0][0]
        for row, number in zip(labeled, numbers, strict=True):
            name = value_text(row.settings[label])
            others = [column for column in row.changed if column != label]
            hidden = _without_lengths(_unsaid(row, others, [name]))
            if hidden and number > usual:
                text = f"{rows.labels[label]} {name} also has {_changes(rows, row, hidden)}."
                yield Doubt("hidden-difference", text, names_of(row.runs), (row.name,))


def _unsaid(row: ObservedRow, columns: Iterable[str], names: Sequence[str]) -> list[str]:
    """The settings that not all of these names mention."""
    unsaid = []
    for column in columns:
        value = row.settings[column]
        if not all(_says(name, column, value) for name in names):
            unsaid.append(column)
    return unsaid


def _without_lengths(columns: Iterable[str]) -> list[str]:
    return [column for column in columns if not _is_length(column)]


def _changes(rows: ObservedRows, row: ObservedRow, columns: Iterable[str]) -> str:
    """Such as "batch_size 64, not 32"."""
    changes = []
    for column in columns:
        new = shortened(value_text(row.settings[column]))
        old = shortened(value_text(rows.base.settings[column]))
        changes.append(f"{rows.labels[column]} {new}, not {old}")
    return listed(changes)


def _says(name: str, column: str, value: Value) -> bool:
    """Whether a name speaks of this setting: by its words, their first letters, or its value."""
    tokens = re.findall(r"[a-z]+|\d+(?:\.\d+)?(?:e-?\d+)?", name.lower())
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    words = words_of(last_part(column))
    whole = "".join(words)
    initials = "".join(word[0] for word in words)
    if whole in tokens or (len(whole) > FEWEST_LETTERS and whole in plain):
        return True
    if len(words) > 1 and initials in tokens:
        return True
    own_words = [word for word in words if word not in GENERAL]
    if any(_is_short_for(token, word) for token in tokens for word in own_words):
        return True
    return _is_value(tokens, plain, value)


def _is_short_for(token: str, word: str) -> bool:
    return token == word or (len(token) >= FEWEST_LETTERS and word.startswith(token))


def _is_value(tokens: Sequence[str], plain: str, value: Value) -> bool:
    if isinstance(value, str):
        text = re.sub(r"[^a-z0-9]", "", value.lower())
        return text in tokens or (len(text) >= FEWEST_LETTERS and text in plain)
    if not is_number(value) or value in (0, 1):
        return False
    numbers = [float(token) for token in tokens if token[0].isdigit()]
    return value in numbers


def unlike_settings(rows: ObservedRows, are_named: bool) -> Iterator[Doubt]:
    """Runs of one row whose settings differ from those of its other seeds."""
    if are_named:
        for row in rows.rows:
            yield from _unlike_in_row(rows, row)
    else:
        for stray, home in strays(rows):
            yield _stray(rows, stray, home)


def _unlike_in_row(rows: ObservedRows, row: ObservedRow) -> Iterator[Doubt]:
    for column, usual in row.settings.items():
        others = [run for run in row.every_run if run.settings[column] != usual]
        if others:
            values = [value_text(run.settings[column]) for run in others]
            text = _outliers_text(row, rows.labels[column], others, values, value_text(usual))
            yield Doubt(_kind_of(column), text, names_of(others), (row.name,))


def _outliers_text(
    row: ObservedRow, label: str, runs: Sequence[ObservedRun], values: Sequence[str], usual: str
) -> str:
    """Such as "wide has dropout 0.2 in wide-s3, but 0.1 in its other runs."."""
    distinct_values = listed([*dict.fromkeys(values)])
    names = listed(names_of(runs))
    return f"{row.change} has {label} {distinct_values} in {names}, but {usual} in its other runs."


def _kind_of(column: str) -> DoubtKind:
    words = words_of(last_part(column))
    if not DATA.isdisjoint(words):
        return "unlike-data"
    return "unequal-steps" if _is_length(column) else "unlike-settings"


def _is_length(column: str) -> bool:
    """Whether the setting says how long a run trains."""
    words = {*words_of(last_part(column))}
    return not LENGTHS.isdisjoint(words) and NOT_LENGTHS.isdisjoint(words)


def strays(rows: ObservedRows) -> list[tuple[ObservedRow, ObservedRow]]:
    """Inferred rows that are probably seeds of another row: each has exactly seeds that the other
    row lacks, and differs from it in one setting. With that row."""
    usual = {*usual_seeds(rows)}
    missing_seeds = [(row, usual - {*row.seeds}) for row in rows.rows]
    incomplete = [(row, missing) for row, missing in missing_seeds if missing]
    pairs = []
    for stray in rows.rows[1:]:
        homes = [row for row, missing in incomplete if _is_home(row, missing, stray)]
        if homes:
            pairs.append((stray, max(homes, key=lambda row: len(row.runs))))
    return pairs


def _is_home(row: ObservedRow, missing: Set[int], stray: ObservedRow) -> bool:
    fits = {*stray.seeds} <= missing and len(stray.runs) < len(row.runs)
    return fits and len(differing(row, stray)) == 1


def differing(row: ObservedRow, another: ObservedRow) -> list[str]:
    return [column for column, value in row.settings.items() if another.settings[column] != value]


def _stray(rows: ObservedRows, stray: ObservedRow, home: ObservedRow) -> Doubt:
    (column,) = differing(home, stray)
    names = names_of(stray.runs)
    label = rows.labels[column]
    value = value_text(stray.settings[column])
    usual = value_text(home.settings[column])
    text = (
        f"{listed(names)} has the seed that {home.change} lacks, but {label} {value}, not {usual}."
    )
    return Doubt(_kind_of(column), text, names, (home.name, stray.name))


def usual_seeds(rows: ObservedRows) -> list[int]:
    """Those that more than half of the rows have; of two rows, those that either has."""
    counts = Counter(seed for row in rows.rows for seed in row.seeds)
    number_of_rows = len(rows.rows)
    least = 1 if number_of_rows == 2 else number_of_rows // 2 + 1
    usual = sorted(seed for seed in counts if counts[seed] >= least)
    are_shared = any(counts[seed] > 1 for seed in usual)
    return usual if are_shared or number_of_rows == 1 else []


def unlike_origins(rows: ObservedRows) -> Iterator[Doubt]:
    """Runs made with other code, packages or data than the others of their row, or than base."""
    kinds: Sequence[tuple[DoubtKind, Callable[[ObservedRun], Values]]] = (
        ("unlike-code", lambda run: run.code),
        ("unlike-packages", lambda run: run.packages),
        ("unlike-data", lambda run: run.data),
    )
    for kind, values_of in kinds:
        for column in _columns(rows, values_of):
            yield from _unlike_values(rows, kind, column, values_of)


def unequal_steps(rows: ObservedRows) -> Iterator[Doubt]:
    """Rows that change their length beside something else, and runs that ended at another step
    than the others of their row, or than base."""

    def steps_of(run: ObservedRun) -> Values:
        return run.steps

    rows_with_doubts = set[str]()
    for row in rows.rows[1:]:
        lengths = [column for column in row.changed if _is_length(column)]
        if lengths and len(lengths) < len(row.changed):
            rows_with_doubts.add(row.name)
            words = _changes(rows, row, lengths)
            text = f"{row.change} was trained with {words}, in addition to its other changes."
            yield Doubt("unequal-steps", text, names_of(row.runs), (row.name,))
    for column in _columns(rows, steps_of):
        for doubt in _unlike_values(rows, "unequal-steps", column, steps_of):
            if doubt.rows[0] not in rows_with_doubts:
                rows_with_doubts.add(doubt.rows[0])
                yield doubt


def _columns(rows: ObservedRows, values_of: Callable[[ObservedRun], Values]) -> list[str]:
    names = [name for row in rows.rows for run in row.every_run for name in values_of(run)]
    return list(dict.fromkeys(names))


def _unlike_values(
    rows: ObservedRows,
    kind: DoubtKind,
    column: str,
    values_of: Callable[[ObservedRun], Values],
) -> Iterator[Doubt]:
    """Of each row the runs with another value than most of it; then rows with another value than
    base, unless that is what they change."""
    usual_values = {row.name: _usual(row, column, values_of) for row in rows.rows}
    label = last_part(column)
    for row in rows.rows:
        usual = usual_values[row.name]
        others = [run for run in row.every_run if values_of(run).get(column) not in (None, usual)]
        if others:
            values = [_short(values_of(run)[column]) for run in others]
            text = _outliers_text(row, label, others, values, _short(usual))
            yield Doubt(kind, text, names_of(others), (row.name,))
    base = usual_values[BASE]
    rows_by_value: dict[Value, list[ObservedRow]] = {}
    for row in rows.rows[1:]:
        value = usual_values[row.name]
        if None not in (value, base) and value != base and not _explains(row, kind):
            rows_by_value.setdefault(value, []).append(row)
    for value, unlike_rows in rows_by_value.items():
        changes = listed([row.change for row in unlike_rows])
        verb = "has" if len(unlike_rows) == 1 else "have"
        text = f"{changes} {verb} {label} {_short(value)}, but base {_short(base)}."
        runs = [run for row in unlike_rows for run in row.runs]
        yield Doubt(kind, text, names_of(runs), tuple(row.name for row in unlike_rows))


def _usual(row: ObservedRow, column: str, values_of: Callable[[ObservedRun], Values]) -> Value:
    values = [values_of(run)[column] for run in row.every_run if column in values_of(run)]
    return Counter(values).most_common(1)[0][0] if values else None


def _explains(row: ObservedRow, kind: DoubtKind) -> bool:
    """Whether what the row changes makes such a difference by itself: its data, or its length."""
    words = {word for column in row.changed for word in words_of(last_part(column))}
    if kind == "unlike-data":
        return not DATA.isdisjoint(words)
    return kind == "unequal-steps" and not ({*LENGTHS, BATCH}).isdisjoint(words)


def _short(value: Value) -> str:
    """A hash by its beginning."""
    text = value_text(value)
    return text[:12] if re.fullmatch(r"[0-9a-f]{32,}", text) else shortened(text)
