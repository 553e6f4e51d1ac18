"""The verb ``import``: runs that exist already, as an observed study."""

import re
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sweeps.config.tasks import OURS
from sweeps.console import OUT, next_verb, print_json, print_line, typed_line
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.known_studies import known_study
from sweeps.planning.studies.study_overrides import by_name, names_study, placed
from sweeps.problems import Problem, RefusedError, refusal
from sweeps.verbs.command import Json, OverrideList, guarded
from tracking.observed.record import ObservedRecord, read_record
from tracking.observed.source_table import ImportRefusedError
from tracking.study import Study
from tracking.words import listed, plural

if TYPE_CHECKING:
    from tracking.observed.observation import Observation

MLFLOW = "mlflow:"
MOST_COLUMNS = 12
"""Of columns that are only listed."""
INDENT = (0, 0, 0, 2)
TWICE = (0, 0, 0, 4)
DIRECTIONS = {"up": "higher is better", "down": "lower is better"}
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A CSV file, or an MLflow store such as mlflow:sqlite:///mlflow.db."
    ),
]
Base = Annotated[
    list[str] | None,
    typer.Option(
        "--base",
        metavar="KEY=VALUE",
        help="The runs of base: a setting, or the name of a row or run.",
    ),
]
RowColumn = Annotated[
    str | None,
    typer.Option(
        "--row", metavar="COLUMN", help="The column that names rows, instead of their settings."
    ),
]
SeedColumn = Annotated[
    str | None, typer.Option("--seed", metavar="COLUMN", help="The column with the seed.")
]
MetricColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME:up|down[:SET]",
        help="A score, whether higher is better, and its set. Repeat it for several.",
    ),
]
Experiment = Annotated[
    str | None, typer.Option("--experiment", metavar="NAME", help="The experiment in MLflow.")
]
Ignored = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="COLUMN", help="A column that isn't a setting. Repeat it for several."
    ),
]


@partial(guarded, effect="imported")
def import_runs(
    source: Source,
    overrides: OverrideList = None,
    base: Base = None,
    row: RowColumn = None,
    seed: SeedColumn = None,
    metrics: MetricColumns = None,
    experiment: Experiment = None,
    ignored: Ignored = None,
    as_json: Json = False,
) -> None:
    """Make a study from existing runs, and list doubts about them.

    Rows are the settings that differ from base. sweep.name=NAME names the study.

    Repeat the command when the source has more runs.
    """
    from tracking.observed.observation import observed, read_source
    from tracking.observed.roles import Asked

    _refuse_without_mlflow(source)
    asked = Asked(_conditions(base or []), row, seed, tuple(metrics or []), tuple(ignored or []))
    try:
        table = read_source(source, experiment)
        folder = _folder(table.name, overrides)
        _refuse_another(folder, table.source)
        observation = observed(table, asked)
        study, trash = _written(folder, observation)
    except ImportRefusedError as refused:
        raise RefusedError(
            Problem(fault.key, fault.fault, fault.allowed, fault.nearest)
            for fault in refused.faults
        ) from None
    record = read_record(study.folder)
    assert record is not None
    notes = [*observation.notes]
    if trash is not None:
        notes.append(f"The earlier import moved to the trash: {trash}")
    if as_json:
        print_json(_json(study, record) | {"notes": notes})
        return
    _print(study, record, observation, notes)
    next_verb("table", [by_name(study.folder), *placed(study.folder)])


def _refuse_without_mlflow(source: str) -> None:
    if source.startswith(MLFLOW) and find_spec("mlflow") is None:
        fault = "is an MLflow store, and the package mlflow is not installed"
        raise refusal("SOURCE", fault, "type pip install mlflow")


def _conditions(texts: Sequence[str]) -> dict[str, str]:
    """By column; a name without a column is that of a row, or of a run."""
    pairs = [text.partition("=") for text in texts]
    return {key if mark else "": value if mark else key for key, mark, value in pairs}


def _folder(source_name: str, overrides: list[str] | None) -> Path:
    """Where the study will lie: by ``sweep.name``, or by the name of its source."""
    from sweeps.planning.studies.named_study import settings_to_read

    settings = settings_to_read(overrides)
    if names_study(overrides):
        return settings.study_folder
    return Path(settings.paths.runs) / _plain(source_name)


def _plain(name: str) -> str:
    """Only letters, digits and _ . -."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-._") or "runs"


def _refuse_another(folder: Path, source: str) -> None:
    """Raises RefusedError if the name belongs to another study than an import of this source."""
    if not folder.exists():
        return
    study = known_study(folder)
    record = read_record(folder) if study is not None else None
    if record is not None and record.source == source:
        return
    kind = "a study" if record is None else f"a study of {record.source}"
    if study is None:
        kind = "a folder without a study"
    fault = f"is {folder.name}, and {folder.parent} has {kind} of that name"
    raise refusal("sweep.name", fault, "choose another one: sweep.name=NAME")


def _written(folder: Path, observation: "Observation") -> tuple[Study, Path | None]:
    """The study, whole or not at all. An earlier import moves to the trash, to the second path, and
    its identity stays, by which trackers know it."""
    from sweeps.planning.studies.trash import new_folder
    from tracking.observed.observed_study import card_of, write_observed
    from tracking.study import read_study

    name = f"{_plain(folder.name)}-runs" if folder.name in OURS else _plain(folder.name)
    card_of(observation, name)
    earlier = known_study(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    trash: Path | None = None
    temporary.chmod(0o755)  # mkdtemp's 0700 would hide the study from colleagues
    try:
        new = temporary / folder.name
        write_observed(new, observation, name, typed_line(), earlier)
        if earlier is not None:
            trash = new_folder(folder)
            trash.parent.mkdir(exist_ok=True)
            folder.rename(trash)
        new.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return read_study(folder), trash


def _json(study: Study, record: ObservedRecord) -> dict[str, Any]:
    rows = []
    for row in study.rows:
        seeds = [trial.seed for trial in study.trials if trial.row == row["row"]]
        rows.append({"row": row["row"], "change": row["change"], "seeds": seeds})
    shown = {name: getattr(record, name) for name in ("source", "base", "rows_by", "seed")}
    lists = {
        name: list(getattr(record, name))
        for name in ("guessed", "metrics", "settings", "unused", "follow_seed", "left_out")
    }
    doubts = [
        {
            "kind": doubt.kind,
            "text": doubt.text,
            "runs": list(doubt.runs),
            "rows": list(doubt.rows),
        }
        for doubt in record.doubts
    ]
    return {"study": study.name, "folder": str(study.folder), "observed": True} | {
        **shown,
        "rows": rows,
        **lists,
        "runs": record.runs,
        "doubts": doubts,
    }


def _print(
    study: Study, record: ObservedRecord, observation: "Observation", notes: Sequence[str]
) -> None:
    runs = len(observation.table.lines)
    columns = len(observation.table.columns)
    print_line(OUT, f"Read {runs} {plural('run', runs)} of {columns} columns from {record.source}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, words in _facts(study, record):
        grid.add_row(name, Text(words))
    OUT.print(Padding(grid, INDENT, expand=False))
    for note in notes:
        OUT.print(Padding(Text(f"{note}."), INDENT, expand=False))
    _print_doubts(record)
    OUT.print(f"Wrote [bold]{escape(str(study.folder))}[/], observed: not run by allelse")
    number = len(record.doubts)
    if number:
        report = command("report", by_name(study.folder), *placed(study.folder))
        print_line(OUT, f"`{report}` lists its doubts, too.", "dim")


def _facts(study: Study, record: ObservedRecord) -> Iterator[tuple[str, str]]:
    """How the columns were read, each with what was guessed."""
    guessed = {name: " (guessed)" if name in record.guessed else "" for name in GUESSES}
    yield "base", f"{record.base}{guessed['base']}"
    changes = [row["change"] for row in study.rows]
    by = (
        f"by the column {record.rows_by}{guessed['rows']}"
        if record.rows_by
        else "by their settings"
    )
    yield "rows", f"{len(changes)} {by}: {'; '.join(changes)}"
    seed = "no column: runs are numbered" if record.seed is None else f"column {record.seed}"
    seeds = len(study.seeds)
    yield "seeds", f"{seed}{guessed['seed']}, {seeds} {plural('value', seeds)}"
    metrics = [
        f"{metric['name']}, {DIRECTIONS[metric['better']]}{_set_words(metric['set'])}"
        for metric in record.metrics
    ]
    yield "metrics", f"{'; '.join(metrics)}{guessed['metrics']}"
    if record.left_out:
        yield "left out", _left_out_words(record)
    if record.follow_seed:
        yield "no setting", f"{_columns(record.follow_seed)}: the seed decides"
    if record.unused:
        yield "not used", _columns(record.unused)


GUESSES = ("base", "rows", "seed", "metrics")


def _set_words(set_name: str) -> str:
    from tracking.observed.metric_columns import UNNAMED_SET

    return "" if set_name == UNNAMED_SET else f", on {set_name}"


def _left_out_words(record: ObservedRecord) -> str:
    reasons: dict[str, int] = {}
    for run in record.left_out:
        reasons[run["why"]] = reasons.get(run["why"], 0) + 1
    number = len(record.left_out)
    words = listed([f"{count} {why}" for why, count in reasons.items()])
    return f"{number} {plural('run', number)}: {words}"


def _columns(names: Sequence[str]) -> str:
    shown = names[:MOST_COLUMNS]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _print_doubts(record: ObservedRecord) -> None:
    """The doubts, by kind."""
    number = len(record.doubts)
    if not number:
        OUT.print("\nFound no doubts about these runs.\n")
        return
    OUT.print(f"\n[bold yellow]{number} {plural('doubt', number)} about these runs[/]")
    for title in dict.fromkeys(doubt.title for doubt in record.doubts):
        OUT.print(Padding(Text(title, style="bold"), INDENT, expand=False))
        for doubt in record.doubts:
            if doubt.title == title:
                OUT.print(Padding(Text(doubt.text), TWICE, expand=False))
                if doubt.other_runs:
                    OUT.print(Padding(Text(doubt.other_runs, style="dim"), TWICE, expand=False))
    OUT.print()
