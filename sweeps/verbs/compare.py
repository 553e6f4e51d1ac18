"""The verb ``compare``: two sides as they are named, and the texts behind their samples."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.console import OUT, next_verb, print_json
from sweeps.planning.naming import looking, must_finish, study_names
from sweeps.schema import Problem, RefusedError
from sweeps.verbs.command import Json, guarded, names_and_overrides, print_notices
from sweeps.verbs.names import Checked, Named, given, meant, rows_of, unknown
from tracking.card import Metric
from tracking.files import DamagedFileError, decoded, read_whole
from tracking.statistics.comparison import Differing, SampleCompared, Side
from tracking.statistics.family import Family
from tracking.statistics.findings import find
from tracking.statistics.rows import table
from tracking.study import Study, Trial, study_of_metrics

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

SIDES_KEY = "A B"
ALLOWED = "must be a trial, a row, STUDY/TRIAL, STUDY/ROW, a study, or the folder of a study or a trial"

Names = Annotated[list[str], typer.Argument(metavar="A B [KEY=VALUE …]", help="Two trials, rows or studies.")]
OfSet = Annotated[str | None, typer.Option("--set", help="Scores of this set; by default each metric's own.")]
OfMetric = Annotated[str | None, typer.Option("--metric", help="Only this metric, such as the table's first.")]


@guarded
def compare(arguments: Names, set_name: OfSet = None, metric: OfMetric = None, as_json: Json = False) -> None:
    """Compare two trials, rows or studies: settings, tests over seeds and samples, the samples that differ most."""
    names, overrides = names_and_overrides(arguments)
    sides = _named_sides(names, overrides)
    metrics = _chosen_metrics(sides, metric, set_name)
    from sweeps.verbs import shown_comparison as shown
    from tracking.statistics.comparison import compared, differing, tested_pairs

    together = tested_pairs(sides.pairs, metrics, set_name) if sides.of_studies else {}
    found = [compared(*pair, metrics, set_name, _families(*pair, metrics, set_name), together) for pair in sides.pairs]
    samples = differing(*sides.pairs[0], _by_output(metrics), set_name)
    samples = _with_texts(samples, sides.pairs[0], sides.data)
    if as_json:
        print_json(shown.to_json(found, samples, sides.only))
        return
    print_notices(sides.notices)
    for part in shown.shown(found, samples, sides.only if sides.of_studies else None):
        OUT.print(part)
    for line in shown.notes(found):
        OUT.print(line, style="dim", soft_wrap=True)
    next_verb("table", looking(sides.first.study.folder, overrides))


@dataclass(frozen=True)
class Sides:
    """Pairs to compare: one of two trials or rows, or one for each row that both studies have finished."""

    first: Named
    second: Named
    pairs: list[tuple[Side, Side]]
    data: Path  # paths.data
    notices: tuple[str, ...]

    @property
    def of_studies(self) -> bool:
        return self.first.row is None

    @property
    def only(self) -> tuple[list[str], list[str]]:
        """The rows of each study that are left out: one of the two studies has no finished trial of them."""
        if not self.of_studies:
            return [], []
        shared = {first.trials[0].row for first, _ in self.pairs}
        found = [[row for row in rows_of(each.study) if row not in shared] for each in (self.first, self.second)]
        return found[0], found[1]


def _named_sides(names: Sequence[str], overrides: list[str]) -> Sides:
    """The finished trials that the two names mean. Raises RefusedError with every problem."""
    from sweeps.planning.named_study import study_to_read  # imports Hydra, which `--help` does not need

    if len(names) != 2:
        several = f"has {len(names)} names: {', '.join(names)}"
        found = "is missing" if not names else f"is only {names[0]}" if len(names) == 1 else several
        raise RefusedError([Problem(SIDES_KEY, found, "must be two trials, two rows or two studies")])
    taken = study_to_read(overrides)
    runs = Path(taken.settings.paths.runs)
    first, second = (meant(name, taken.study, runs) for name in names)
    if first is None or second is None:
        unmeant = dict.fromkeys(name for name, found in zip(names, (first, second), strict=True) if found is None)
        raise RefusedError(_unknown(name, taken.study, runs) for name in unmeant)
    if problems := list(_mismatches(first, second)):
        raise RefusedError(problems)
    pairs = _row_pairs(first, second) if first.row is None else [(_side(first), _side(second))]
    if problems := list(_unfinished(first, second, pairs)):
        raise RefusedError(problems)
    of_taken = any(each.study.folder == taken.study.folder and each.row is not None for each in (first, second))
    data = Path(taken.settings.paths.data)
    return Sides(first, second, pairs, data, taken.notices if of_taken else ())


def _unknown(name: str, here: Study, runs: Path) -> Problem:
    """With the rows of its study, if the name holds one that is known."""
    of = meant(name.rpartition("/")[0], None, runs) if "/" in name else None
    return unknown(SIDES_KEY, name, of.study if of else here, "rows", ALLOWED, study_names(runs))


def _mismatches(first: Named, second: Named) -> Iterable[Problem]:
    """Why the two cannot be compared, whatever they hold."""
    same = first.study.folder == second.study.folder
    if same and first.trials == second.trials:
        yield Problem(SIDES_KEY, f"are the same: {first.name}", "must be two different trials, rows or studies")
    elif (first.row is None) != (second.row is None):
        whole, part = (first, second) if first.row is None else (second, first)
        found = f"are a whole study, {whole.name}, and a row or trial, {part.name}"
        yield Problem(SIDES_KEY, found, "compare two studies, or write STUDY/ROW", f"{whole.name}/{part.row}")
    elif first.study.task.name != second.study.task.name:
        found = f"belong to different tasks, {first.study.task.name} and {second.study.task.name}"
        yield Problem(SIDES_KEY, found, "must belong to one task: metrics differ between tasks")


def _row_pairs(first: Named, second: Named) -> list[tuple[Side, Side]]:
    alike = first.study.name == second.study.name
    names = [each.name if alike else each.study.name for each in (first, second)]
    rows = [row for row in rows_of(first.study) if row in rows_of(second.study)]
    pairs = [(_row_side(first, names[0], row), _row_side(second, names[1], row)) for row in rows]
    return [(one, other) for one, other in pairs if one.trials and other.trials]


def _row_side(named: Named, study_name: str, row: str) -> Side:
    return Side.of(f"{study_name}/{row}", named.study, [trial for trial in named.trials if trial.row == row])


def _side(named: Named) -> Side:
    return Side.of(named.name, named.study, named.trials)


def _unfinished(first: Named, second: Named, pairs: Sequence[tuple[Side, Side]]) -> Iterable[Problem]:
    if not pairs:
        found = f"{first.name} and {second.name} have no finished row in common"
        yield Problem(SIDES_KEY, found, must_finish(first.study.folder))
    for side, named in ((side, named) for pair in pairs for side, named in zip(pair, (first, second), strict=True)):
        if not side.trials:
            states = {named.study.trial_folder(trial).state(trial.key) for trial in named.trials}
            words = sorted("not trained yet" if state == "missing" else state for state in states)
            yield Problem(SIDES_KEY, f"{named.name} is {' and '.join(words)}", must_finish(named.study.folder))


def _chosen_metrics(sides: Sides, name: str | None, set_name: str | None) -> list[Metric]:
    """The metrics to compare: the named one, those of the table for two studies, otherwise all. Raises RefusedError."""
    card, checked = sides.first.study.task, Checked()
    results = (result for pair in sides.pairs for side in pair for result in side.results.values())
    sets = list(dict.fromkeys(name for result in results for name in result["scores"]))
    named = checked.known("--metric", given(name), [metric.name for metric in card.metrics], "metric of the study")
    checked.known("--set", given(set_name), sets, "set with scores")
    checked.refuse()
    usual = [metric.name for metric in card.metrics if metric.tabled or not sides.of_studies]
    return [metric for metric in card.metrics if metric.name in (named or usual)]


def _families(first: Side, second: Side, metrics: Sequence[Metric], set_name: str | None) -> Mapping[str, Family]:
    """The tests of the study to which both rows belong, with the first as reference, by metric; {} for other pairs."""
    reference, row = first.trials[0].row, second.trials[0].row
    if first.study.folder != second.study.folder or reference == row or not (first.is_row and second.is_row):
        return {}
    study = study_of_metrics(first.study, [metric.name for metric in metrics], set_name)
    return find(study, table(study, reference), reference).families


def _by_output(metrics: Sequence[Metric]) -> list[Metric]:
    """Those of the table first, and among them those that every setting for scoring changes: they score outputs."""
    return sorted(metrics, key=lambda metric: (not metric.tabled, metric.changed_by is not None))


TextLines = Mapping[str, Sequence[str]]


def _with_texts(found: Differing, sides: tuple[Side, Side], data: Path) -> Differing:
    """The same samples with their texts, by what each is called. ``note`` says why there are none."""
    if found.trials is None or not found.samples:
        return found
    (first, second), (ours, theirs) = sides, found.trials
    prepared, note = _prepared_texts(first.study, ours, found.set_name, data)
    outputs = _outputs(_name(first, ours), first.study, ours, found.set_name)
    outputs |= _outputs(_name(second, theirs), second.study, theirs, found.set_name)
    lines = {**prepared, **outputs}
    noun = first.study.task.sample
    if not lines:
        note = (
            f"{note or f'the task {first.study.task.name} keeps no texts'}; a {noun} is named by its place in the set"
        )
    return replace(found, samples=[_sample_with_texts(sample, lines) for sample in found.samples], note=note)


def _sample_with_texts(sample: SampleCompared, lines: TextLines) -> SampleCompared:
    texts = {name: of[sample.place - 1] for name, of in lines.items() if len(of) >= sample.place}
    return replace(sample, texts=texts)


def _name(side: Side, trial: Trial) -> str:
    return f"{side.label}-s{trial.seed}" if side.label.endswith(trial.row) else side.label


def _outputs(name: str, study: Study, trial: Trial, set_name: str) -> dict[str, list[str]]:
    """Of the task's artifacts, one line per sample."""
    found: dict[str, list[str]] = {}
    for artifact in study.task.artifacts:
        path = study.trial_folder(trial).artifact_path(artifact, set_name)
        try:
            content = read_whole(path)
            lines = decoded(path, content).split("\n")[:-1] if content is not None else []
        except DamagedFileError:
            lines = []
        label = name if len(study.task.artifacts) == 1 else f"{name} {artifact}"
        found |= {label: lines} if lines else {}
    return found


def _prepared_texts(study: Study, trial: Trial, set_name: str, data: Path) -> tuple[TextLines, str]:
    """Sources, references and the like; none with the reason."""
    from sweeps.planning.composition import moved
    from sweeps.planning.naming import source_of_study  # these import Hydra
    from sweeps.worker.prepared import check_whole, data_place

    try:
        task = source_of_study(study, Path.cwd()).task
        config = (task.texts and study.trial_folder(trial).trained_config()) or {}
        if task.texts is None or not config:
            return {}, ""
        recorded = Path(moved(config["paths"]["data"], config["paths"]["runs"], study.folder.parent))
        fingerprint = config["data_fingerprint"]
        places = [data_place(task, folder, fingerprint) for folder in (data, recorded)]
        place = next((place for place in places if place.is_dir()), None)
        if place is None:
            return {}, f"its sources are not shown: {places[-1]} is gone"
        if task.prepare is not None:
            check_whole(place, fingerprint)
        return task.texts(place, set_name), ""
    except (RefusedError, DamagedFileError) as error:
        return {}, f"its sources are not shown: {error}"


def texts_of(study: Study, settings: "Settings") -> dict[str, list[str]]:
    """What the task shows of the headline's set, such as sources and references. Empty where rows write no texts."""
    for trial in study.trials if study.task.artifacts else ():
        with suppress(OSError, ValueError):
            texts, _ = _prepared_texts(study, trial, study.task.headline.set, Path(settings.paths.data))
            if texts:
                return {name: list(lines) for name, lines in texts.items()}
    return {}
