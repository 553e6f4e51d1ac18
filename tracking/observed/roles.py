"""What each column of a source is for: a setting, a score, the seed, or where a run comes from.

What a person names is taken as it is. Everything else is guessed from names and values, and the
guesses are kept, so that they can be shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tracking.observed.source_table import (
    ImportFault,
    ImportRefusedError,
    SourceTable,
    is_number,
    whole_number,
)
from tracking.observed.words_of_columns import (
    BEST_WORDS,
    CODE,
    CODE_NAMES,
    COSTS,
    DATA,
    DEVICES,
    DIGESTS,
    ENDS,
    HYPERPARAMETERS,
    IDENTITIES,
    LAST_WORDS,
    MACHINE,
    NAMES,
    NOT_MEASURED,
    PACKAGE_FOLDERS,
    PACKAGES,
    ROW_WORDS,
    STARTS,
    STATES,
    STEPS_REACHED,
    TAGGED_WORDS,
    TRAINING,
    direction,
    is_called,
    last_part,
    metric_name,
    plain_name,
    set_of,
    words_of,
)

UNNAMED_SET = "unnamed"
"""The set of a metric whose name tells none."""
MOST_GUESSED = 3
MANY_VALUES = 0.8
"""The share of runs with a value of their own, from which numbers were measured and not set."""
FEWEST_RUNS = 4
"""Fewer runs don't show whether each has a value of its own."""
OURS = "tags.trial.key"
"""A tag that runs of allelse have."""
FINAL = "final/"
"""Before the name of a metric, as runs of allelse have their scores."""
Role = Literal[
    *("setting", "name", "state", "start", "end", "cost", "seed", "metric", "measured"),
    *("code", "package", "data", "device", "steps", "row", "words", "unused"),
]


@dataclass(frozen=True)
class MetricColumn:
    """A column that the table shows. ``better``: "up" or "down"."""

    column: str
    name: str
    better: Literal["up", "down"]
    set: str


@dataclass(frozen=True)
class Asked:
    """What a person typed. ``base``: settings of base by column, or the name of its row as
    ``{"": name}``. ``metrics``: NAME, NAME:up or NAME:down:SET."""

    base: Mapping[str, str] = field(default_factory=dict)
    row: str | None = None
    seed: str | None = None
    metrics: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roles:
    """``of`` has the role of every column. ``guessed`` names what no person typed."""

    of: Mapping[str, Role]
    metrics: tuple[MetricColumn, ...]
    seed: str | None
    row: str | None
    guessed: tuple[str, ...] = ()

    def columns(self, *roles: Role) -> list[str]:
        return [column for column, role in self.of.items() if role in roles]

    def first(self, role: Role) -> str | None:
        return next(iter(self.columns(role)), None)


def roles_of(table: SourceTable, asked: Asked) -> Roles:
    """Raises ImportRefusedError with every column that does not exist, and every metric whose
    direction is unknown."""
    faults = list[ImportFault]()
    row = _named_column(table, "--row", asked.row, faults) or _row_of_ours(table)
    seed = _named_column(table, "--seed", asked.seed, faults)
    ignored = [_named_column(table, "--ignore", name, faults) for name in asked.ignored]
    metrics = _typed_metrics(table, asked.metrics, faults)
    taken = {row: "row", seed: "seed", **{name: "unused" for name in ignored if name}}
    taken |= {metric.column: "metric" for metric in metrics}
    roles: dict[str, Role] = {}
    for column in table.columns:
        roles[column] = taken.get(column) or _role(table, column)  # type: ignore[assignment]
    guessed = list[str]()
    if seed is None and (seed := _guessed_seed(roles)) is not None:
        roles[seed] = "seed"
        guessed.append("seed")
    if not asked.metrics:
        metrics = _guessed_metrics(table, roles)
        roles |= {metric.column: "metric" for metric in metrics}
        guessed.append("metrics")
    if not metrics and not faults:
        faults.append(_no_metric(table, roles))
    if faults:
        raise ImportRefusedError(faults)
    return Roles(_single_roles(roles), tuple(metrics), seed, row, tuple(guessed))


def _single_roles(roles: Mapping[str, Role]) -> dict[str, Role]:
    """One column names the runs, one has their state, and so on: the best one, the others are
    unused. Of two settings with one name in different folders, both stay."""
    single: dict[str, Role] = dict(roles)
    for role, names in (("name", NAMES), ("state", STATES), ("start", STARTS), ("end", ENDS)):
        columns = [column for column, of in roles.items() if of == role]
        columns.sort(key=lambda column: _place(column, names))
        single |= dict.fromkeys(columns[1:], "unused")
    seeds = [column for column, of in roles.items() if of == "seed"]
    return single | dict.fromkeys(seeds[1:], "unused")


def _place(column: str, names: Sequence[str]) -> int:
    """That of the column's name among these."""
    matching = (place for place, name in enumerate(names) if is_called(column, (name,)))
    return next(matching, len(names))


def _named_column(
    table: SourceTable, option: str, typed: str | None, faults: list[ImportFault]
) -> str | None:
    """The column that a person typed, with or without the folder before its name."""
    if typed is None:
        return None
    matching = matching_columns(table, typed)
    if len(matching) == 1:
        return matching[0]
    faults.append(column_fault(table, option, typed, matching))
    return None


def matching_columns(table: SourceTable, typed: str) -> list[str]:
    """Itself, or the columns that have it as their name without a folder."""
    if typed in table.columns:
        return [typed]
    named = [column for column in table.columns if plain_name(column) == typed]
    named = named or [column for column in table.columns if plain_name(column) == FINAL + typed]
    named = named or [column for column in table.columns if last_part(column) == typed]
    return named or [column for column in table.columns if column.lower() == typed.lower()]


def column_fault(
    table: SourceTable, option: str, typed: str, matching: Sequence[str] = ()
) -> ImportFault:
    if matching:
        fault = f"is {typed}, which may be {' or '.join(matching)}"
        return ImportFault(option, fault, "must be the whole name of a column")
    from difflib import get_close_matches

    names = [plain_name(column) for column in table.columns]
    near = next(iter(get_close_matches(typed, names, 1, 0.5)), None)
    fault = f'names "{typed}", which is no column of {table.source}'
    shown = names if len(names) <= 30 else [*names[:30], f"{len(names) - 30} more"]
    return ImportFault(option, fault, f"columns are {', '.join(shown)}", near)


def _row_of_ours(table: SourceTable) -> str | None:
    """Runs of allelse name their rows."""
    return "tags.row" if {OURS, "tags.row"} <= {*table.columns} else None


def _typed_metrics(
    table: SourceTable, texts: Sequence[str], faults: list[ImportFault]
) -> list[MetricColumn]:
    metrics = list[MetricColumn]()
    for text in texts:
        name, typed_direction, typed_set = _parts(text, table)
        column = _named_column(table, "--metric", name, faults)
        if column is None:
            continue
        better = typed_direction or direction(column)
        if better not in ("up", "down"):
            fault = f"is {text}, and its name does not tell whether more is better"
            allowed = "must be NAME:up or NAME:down, such as bleu:up or loss:down"
            faults.append(ImportFault("--metric", fault, allowed, f"{name}:up"))
            continue
        if not any(is_number(value) for value in table.values(column)):
            fault = f"is {name}, which has no number in any run"
            faults.append(ImportFault("--metric", fault, "must be a column with scores"))
            continue
        set_name = typed_set or set_of(column) or UNNAMED_SET
        metrics.append(MetricColumn(column, metric_name(column), _checked(better), set_name))
    return _with_own_names(metrics)


def _checked(better: str) -> Literal["up", "down"]:
    return "up" if better == "up" else "down"


def _parts(text: str, table: SourceTable) -> tuple[str, str, str]:
    """Name, direction and set, as NAME:up:test. The name itself may hold a colon."""
    if matching_columns(table, text):
        return text, "", ""
    name, _, end = text.rpartition(":")
    if end in ("up", "down"):
        return name, end, ""
    before, _, middle = name.rpartition(":")
    return (before, middle, end) if middle in ("up", "down") else (text.partition(":")[0], "?", "")


def _with_own_names(metrics: Sequence[MetricColumn]) -> list[MetricColumn]:
    """Metrics of one name in different folders have these in their names."""
    names = [metric.name for metric in metrics]
    return [
        metric
        if names.count(metric.name) == 1
        else MetricColumn(metric.column, plain_name(metric.column), metric.better, metric.set)
        for metric in metrics
    ]


def _role(table: SourceTable, column: str) -> Role:
    """Of a column that nobody named."""
    if column.startswith("metrics."):
        is_step = is_called(column, (*STEPS_REACHED, "steps"))
        return "steps" if is_step else _cost_or(column, "measured")
    by_name = _attribute(column) or _origin(column)
    if by_name is not None:
        return by_name
    if column.startswith("tags."):
        return "unused"
    if _is_measured(table, column):
        return "measured"
    return "unused" if _names_each_run(table, column) else "setting"


def _cost_or(column: str, role: Role) -> Role:
    costs = [name for names in COSTS.values() for name in names]
    return "cost" if is_called(column, tuple(costs)) else role


def _attribute(column: str) -> Role | None:
    """What a tracker keeps of a run itself."""
    roles: Sequence[tuple[Role, Sequence[str]]] = (
        ("name", NAMES),
        ("state", STATES),
        ("start", STARTS),
        ("end", ENDS),
        ("steps", STEPS_REACHED),
        ("device", DEVICES),
    )
    matching = (role for role, names in roles if is_called(column, tuple(names)))
    role = next(matching, None) or _cost_or(column, "unused")
    if role != "unused":
        return role
    if _is_of_row(column):
        return "words"
    if is_called(column, IDENTITIES) or is_called(column, MACHINE):
        return "unused"
    return None


def _is_of_row(column: str) -> bool:
    is_tag = column.startswith("tags.") and last_part(column) in TAGGED_WORDS
    return is_tag or column.lower() in ROW_WORDS


def _origin(column: str) -> Role | None:
    """Code, packages and data that a run was made with."""
    words = words_of(column)
    has_digest = not DIGESTS.isdisjoint(words)
    if not DATA.isdisjoint(words) and has_digest:
        return "data"
    if is_called(column, CODE_NAMES) or (not CODE.isdisjoint(words) and "model" not in words):
        return "code"
    folder = plain_name(column).partition(".")[0].lower()
    is_version = "version" in words or "versions" in words
    if folder in PACKAGE_FOLDERS and "." in plain_name(column):
        return "package"
    if not PACKAGES.isdisjoint(words) and (is_version or len(words) == 1):
        return "package"
    return None


def _is_measured(table: SourceTable, column: str) -> bool:
    """Whether its numbers came out of a run: its name is a metric's, or each run has another."""
    values = table.values(column)
    numbers = [value for value in values if is_number(value)]
    if not numbers or len(numbers) < len(values):
        return False
    has_fractions = any(whole_number(value) is None for value in numbers)
    words = words_of(column)
    if direction(column) is not None and has_fractions:
        return True
    if set_of(column) is not None and ("/" in column or "_" in column) and has_fractions:
        return NOT_MEASURED.isdisjoint(words)
    is_own = len({*numbers}) >= MANY_VALUES * len(table.lines) and len(numbers) >= FEWEST_RUNS
    return is_own and has_fractions and HYPERPARAMETERS.isdisjoint(words)


def _names_each_run(table: SourceTable, column: str) -> bool:
    """Whether it is a text that no two runs share, such as a path."""
    values = table.values(column)
    are_texts = bool(values) and all(isinstance(value, str) for value in values)
    return are_texts and len({*values}) == len(values) >= FEWEST_RUNS


def _guessed_seed(roles: Mapping[str, Role]) -> str | None:
    """The column with the shortest name that ends in seed."""
    columns = [
        column
        for column, role in roles.items()
        if role in ("setting", "unused") and words_of(last_part(column))[-1:] == ["seed"]
    ]
    return min(columns, key=lambda column: (len(plain_name(column)), column), default=None)


def _guessed_metrics(table: SourceTable, roles: Mapping[str, Role]) -> list[MetricColumn]:
    """Scores on a test set, without them those on another set that nothing was trained on."""
    columns = [
        column
        for column, role in roles.items()
        if role == "measured" and direction(column) is not None and not is_companion(column)
    ]
    ranks = {column: _rank(column) for column in columns}
    best = min(ranks.values(), default=0)
    chosen = [column for column in columns if ranks[column] == best][:MOST_GUESSED]
    return _with_own_names(
        [
            MetricColumn(
                column,
                metric_name(column),
                _checked(direction(column) or "up"),
                set_of(column) or UNNAMED_SET,
            )
            for column in chosen
        ]
    )


def is_companion(column: str) -> bool:
    """Whether the column is the best or the last value of another one."""
    words = {*words_of(column)}
    return not words.isdisjoint(BEST_WORDS) or not words.isdisjoint(LAST_WORDS - {"final"})


def _rank(column: str) -> int:
    """0 for the likeliest column of final scores."""
    name = set_of(column)
    if name == "test" or "final" in words_of(column):
        return 0
    if name is None:
        return 1
    return 3 if name in TRAINING else 2


def _no_metric(table: SourceTable, roles: Mapping[str, Role]) -> ImportFault:
    numbers = [
        plain_name(column)
        for column in table.columns
        if roles[column] in ("measured", "setting")
        and all(is_number(value) for value in table.values(column))
    ]
    fault = "is missing, and no column is called like a score"
    example = f"--metric {numbers[-1]}:up" if numbers else None
    allowed = "must be NAME:up or NAME:down"
    if numbers:
        allowed += f"; columns of numbers are {', '.join(numbers[:20])}"
    return ImportFault("--metric", fault, allowed, example)
