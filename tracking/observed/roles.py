"""What each column of a source is for: a setting, a score, the seed, or where a run comes from.

What a person names is taken as it is. Everything else is guessed from names and values, and the
guesses are kept, so that they can be shown.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from tracking.observed.columns import (
    CHOSEN_IDENTITIES,
    CODE,
    CODE_NAMES,
    COSTS,
    DATA,
    DEVICES,
    DIGESTS,
    ENDS,
    IDENTITIES,
    MACHINE,
    NAMES,
    PACKAGE_FOLDERS,
    PACKAGES,
    ROW_TEXTS,
    ROW_WORDS,
    STARTS,
    STATES,
    STEPS_REACHED,
    TAGGED_WORDS,
    is_called,
    is_measured,
    is_own,
    is_shared_text,
    last_part,
    measured_settings,
    names_each_run,
    plain_name,
    settings_called_like_identities,
    settings_called_like_scores,
    varies,
    words_of,
)
from tracking.observed.metric_columns import (
    MetricColumn,
    guessed_metrics,
    named_column,
    no_metric,
    typed_metrics,
)
from tracking.observed.source_table import (
    ImportFault,
    ImportRefusedError,
    SourceTable,
)

OURS = "tags.trial.key"
"""A tag that runs of allelse have."""
Role = Literal[
    "setting",
    "name",
    "state",
    "start",
    "end",
    "cost",
    "seed",
    "metric",
    "measured",
    "code",
    "package",
    "data",
    "device",
    "steps",
    "row",
    "words",
    "unused",
]


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
    row = named_column(table, "--row", asked.row, faults) or _row_of_ours(table)
    seed = named_column(table, "--seed", asked.seed, faults)
    ignored = [named_column(table, "--ignore", name, faults) for name in asked.ignored]
    metrics = typed_metrics(table, asked.metrics, faults)
    named_roles: dict[str | None, Role] = dict.fromkeys(ignored, "unused")
    named_roles |= {row: "row", seed: "seed"}
    for metric in metrics:
        named_roles[metric.column] = "metric"
    roles: dict[str, Role] = {}
    for column in table.columns:
        roles[column] = named_roles.get(column) or _role(table, column)
    guessed = list[str]()
    if seed is None and (seed := _guessed_seed(roles)) is not None:
        roles[seed] = "seed"
        guessed.append("seed")
    for column in settings_called_like_scores(table, roles, seed):
        roles[column] = "setting"
    for column in measured_settings(table, roles, seed):
        roles[column] = "measured"
    if row is None:
        for column in settings_called_like_identities(table, roles, seed):
            roles[column] = "setting"
    if not asked.metrics:
        metrics = guessed_metrics(table, roles)
        for metric in metrics:
            roles[metric.column] = "metric"
        guessed.append("metrics")
    if row is None and (row := _guessed_row(table, roles, seed, ignored)) is not None:
        roles[row] = "row"
        guessed.append("rows")
    if not metrics and not faults:
        faults.append(no_metric(table, roles))
    if faults:
        raise ImportRefusedError(faults)
    return Roles(_single_roles(roles), tuple(metrics), seed, row, tuple(guessed))


def _single_roles(roles: Mapping[str, Role]) -> dict[str, Role]:
    """One column names the runs, one has their state, and so on: the best one, the others are
    unused."""
    single: dict[str, Role] = dict(roles)
    for role, names in (("name", NAMES), ("state", STATES), ("start", STARTS), ("end", ENDS)):
        columns = [column for column, of in roles.items() if of == role]
        best = min(columns, key=partial(_place, names=names), default=None)
        for column in columns:
            if column != best:
                single[column] = "unused"
    return single


def _place(column: str, names: Sequence[str]) -> int:
    """That of the column's name among these."""
    matching = (place for place, name in enumerate(names) if is_called(column, (name,)))
    return next(matching, len(names))


def _row_of_ours(table: SourceTable) -> str | None:
    """Runs of allelse name their rows."""
    return "tags.row" if {OURS, "tags.row"} <= {*table.columns} else None


def _guessed_row(
    table: SourceTable,
    roles: Mapping[str, Role],
    seed: str | None,
    ignored: Sequence[str | None],
) -> str | None:
    """If no setting varies: a name, a group or tags, as a text that several runs share."""
    settings = [column for column, role in roles.items() if role == "setting"]
    if any(varies(table, column, seed) for column in settings):
        return None
    columns = [
        column
        for column in roles
        if is_called(column, ROW_TEXTS) and column not in ignored and is_shared_text(table, column)
    ]
    return min(columns, key=partial(_place, names=ROW_TEXTS), default=None)


def _role(table: SourceTable, column: str) -> Role:
    """Of a column that nobody named."""
    if column.startswith("metrics."):
        is_step = is_called(column, {*STEPS_REACHED, "steps"})
        return "steps" if is_step else _cost_or(column, "measured")
    is_param = column.startswith("params.")
    by_name = (_unused_param(column) if is_param else _attribute(column)) or _origin(column)
    if by_name is not None:
        return by_name
    if column.startswith("tags."):
        return "unused"
    if is_measured(table, column):
        return "measured"
    is_number_of_run = words_of(column)[-1:] in (["id"], ["ids"]) and is_own(table, column)
    return "unused" if is_number_of_run or names_each_run(table, column) else "setting"


def _unused_param(column: str) -> Role | None:
    """A param of MLflow is a setting, even if it is called like a cost, unless it is a path or the
    like."""
    return "unused" if is_called(column, IDENTITIES - CHOSEN_IDENTITIES) else None


def _cost_or(column: str, role: Role) -> Role:
    is_cost = any(is_called(column, names) for names in COSTS.values())
    return "cost" if is_cost else role


def _attribute(column: str) -> Role | None:
    """What a tracker keeps of a run itself."""
    roles: Sequence[tuple[Role, Collection[str]]] = (
        ("name", NAMES),
        ("state", STATES),
        ("start", STARTS),
        ("end", ENDS),
        ("steps", STEPS_REACHED),
        ("device", DEVICES),
    )
    matching = (role for role, names in roles if is_called(column, names))
    role = next(matching, None) or _cost_or(column, "unused")
    if role != "unused":
        return role
    if _is_of_row(column):
        return "words"
    if is_called(column, IDENTITIES | MACHINE):
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


def _guessed_seed(roles: Mapping[str, Role]) -> str | None:
    """The column with the shortest name that ends in seed."""
    columns = [
        column
        for column, role in roles.items()
        if role in ("setting", "unused") and words_of(last_part(column))[-1:] == ["seed"]
    ]
    return min(columns, key=lambda column: (len(plain_name(column)), column), default=None)
