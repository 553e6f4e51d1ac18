"""``observed.json``: the mark of an observed study. It says where its runs come from, how they were
read, and the doubts about them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracking.files import DamagedFileError, Form, read_object, to_json, write_atomic
from tracking.observed.doubt import TITLES, Doubt
from tracking.words import count_of, grouped

OBSERVED_FILE = "observed.json"
FORM: Form = {
    **{"source": str, "ts": str, "base": str, "rows_by": str | None, "seed": str | None},
    **{"guessed": [str], "settings": [str], "unused": [str], "follow_seed": [str]},
    "metrics": [{"column": str, "name": str, "better": str, "set": str}],
    "runs": {...: str},
    "left_out": [{"run": str, "why": str}],
    "doubts": [{"kind": str, "text": str, "runs": [str], "rows": [str]}],
}


@dataclass(frozen=True)
class ObservedRecord:
    """How runs of a source became a study. ``base``: in words. ``rows_by``: the column that names
    rows; None if they were inferred from ``settings``. ``unused``: columns that nothing was taken
    from, ``follow_seed`` those that the seed decides. ``runs``: the source's name of each trial.
    ``repeated``: runs of a seed that their row had already."""

    source: str
    ts: str  # UTC, of the import
    base: str
    rows_by: str | None
    seed: str | None
    guessed: tuple[str, ...]  # of base, seed, metrics: what no person said
    metrics: tuple[dict[str, str], ...]
    settings: tuple[str, ...]
    unused: tuple[str, ...]
    follow_seed: tuple[str, ...]
    runs: dict[str, str]
    left_out: tuple[dict[str, str], ...]
    doubts: tuple[Doubt, ...]
    repeated: tuple[str, ...] = ()

    @property
    def known_runs(self) -> set[str]:
        """Every run of the source, by its name there."""
        return {*self.runs.values(), *self.repeated, *(run["run"] for run in self.left_out)}


def is_observed(study: Path) -> bool:
    """Whether allelse did not run the trials of the study in this folder."""
    return (study / OBSERVED_FILE).is_file()


def write_record(study: Path, record: ObservedRecord) -> None:
    write_atomic(study / OBSERVED_FILE, to_json(asdict(record)) + "\n")


def read_record(study: Path) -> ObservedRecord | None:
    """None for a study that allelse ran. Raises DamagedFileError."""
    content = read_object(study / OBSERVED_FILE, FORM)
    if content is None:
        return None
    fields: dict[str, Any] = {name: content[name] for name in FORM}
    fields = {name: tuple(of) if isinstance(of, list) else of for name, of in fields.items()}
    fields["doubts"] = tuple(map(_doubt, content["doubts"]))
    return ObservedRecord(**fields, repeated=tuple(content.get("repeated", ())))


def _doubt(content: dict[str, Any]) -> Doubt:
    return Doubt(content["kind"], content["text"], tuple(content["runs"]), tuple(content["rows"]))


def observed_line(study: Path) -> str:
    """What every output says of an observed study; "" of one that allelse ran."""
    try:
        record = read_record(study)
    except DamagedFileError as error:
        return f"Observed: not run by allelse. {error.note}."
    if record is None:
        return ""
    number = len(record.doubts)
    line = f"Observed: not run by allelse, but imported from {record.source}."
    if number == 0:
        return f"{line} Found no doubts about its runs."
    verb = "is" if number == 1 else "are"
    return f"{line} {count_of(number, 'doubt')} {verb} listed in its report."


def doubts_by_title(study: Path) -> list[tuple[str, list[Doubt]]]:
    """For the report, each kind with its doubts; [] of a study that allelse ran."""
    record = read_record(study)
    doubts = record.doubts if record else ()
    return [*grouped((TITLES.get(doubt.kind, doubt.kind), doubt) for doubt in doubts).items()]
