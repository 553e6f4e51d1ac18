"""Where a composition contradicts the study's record: overrides, or files edited since."""

from collections.abc import Iterator

from sweeps.config.files import BASE
from sweeps.planning.studies.advice import other_study
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.planning.study_rows.request import HOW_TO_RESTORE
from sweeps.planning.study_rows.study_record import StudyRecord, decides_weights, values_of
from sweeps.planning.study_rows.task_choice import TASK_KEY
from sweeps.problems import COMMAND_LINE, Problem
from sweeps.trees import Values


def record_faults(composition: Composition, record: StudyRecord) -> list[Problem]:
    """A problem for each typed value or edited file that contradicts the record."""
    problems = [
        *_other_margin(composition, record),
        *_other_pairing(composition, record),
        *_other_references(composition, record),
        *_other_task(composition, record),
    ]
    if not record.study.begun:
        return problems
    base = values_of(composition.base)
    problems += _differences(composition, record, BASE, record.settings, base)
    if problems:  # every row would differ for the same reason
        return problems
    for row in composition.rows:
        if row.name in record.rows:
            recorded = base | record.rows[row.name].values
            values = values_of(row.settings)
            problems += _differences(composition, record, row.name, recorded, values)
    return problems


def _other_task(composition: Composition, record: StudyRecord) -> Iterator[Problem]:
    recorded_task = record.source.name
    task = composition.typed.values.get(TASK_KEY, recorded_task)
    if task != recorded_task:
        fault = f'is "{task}", but {record.study.name} is recorded with task={recorded_task}'
        yield _typed_otherwise(record, TASK_KEY, fault)


def _other_margin(composition: Composition, record: StudyRecord) -> Iterator[Problem]:
    """δ is stated before results can be seen."""
    study = record.study
    margin = composition.shared.sweep.margin
    if margin and margin != study.margins and (study.begun or study.margins):
        recorded = f"recorded with {study.margins}" if study.margins else "begun without one"
        fault = f"is {margin}, but {study.name} is {recorded}"
        yield _typed_otherwise(record, "sweep.margin", fault)


def _other_pairing(composition: Composition, record: StudyRecord) -> Iterator[Problem]:
    """How differences are tested is declared before results can be seen."""
    study = record.study
    paired = composition.shared.sweep.paired
    is_stated = paired or "sweep.paired" in composition.typed.values
    if is_stated and paired != study.paired and study.showed_results:
        recorded = "is recorded as paired" if study.paired else "was started without it"
        fault = f"is {str(paired).lower()}, but {study.name} {recorded} and has results"
        yield _typed_otherwise(record, "sweep.paired", fault)


def _other_references(composition: Composition, record: StudyRecord) -> Iterator[Problem]:
    """With which row a recorded row is compared is declared before results can be seen."""
    study = record.study
    if not study.showed_results:
        return
    for row, reference in composition.shared.sweep.references.items():
        recorded = study.references.get(row, BASE)
        if row in record.rows and reference != recorded:
            fault = f"compares {row} with {reference}, but {study.name} compares it with {recorded}"
            yield _typed_otherwise(record, "sweep.references", f"{fault} and has results")


def _differences(
    composition: Composition, record: StudyRecord, row: str, recorded: Values, values: Values
) -> list[Problem]:
    """A problem for each typed option that differs, and for each other key that differs."""
    keys = [
        key
        for key in recorded
        if key in values and recorded[key] != values[key] and _is_fixed(composition, key)
    ]
    scale_keys = [key for key in keys if key.startswith("scale.")]
    problems = dict[str, Problem]()
    for key in scale_keys or keys:  # another scale explains all differences
        in_row = "" if row == BASE else f" in row {row}"
        recorded_value = f"recorded with {recorded[key]}"
        fault = f"is {values[key]}{in_row}, but {record.study.name} is {recorded_value}"
        problem = _difference(composition, record, row, key, fault)
        problems[problem.key] = problem
    return list(problems.values())


def _difference(
    composition: Composition, record: StudyRecord, row: str, key: str, fault: str
) -> Problem:
    """The problem of the typed value, of the typed option, or of the edited file."""
    group = key.partition(".")[0]
    option = composition.typed.choices.get(group)
    recorded_option = {**composition.defaults, **record.options}.get(group)
    if key in composition.typed.values:
        return _typed_otherwise(record, key, fault)
    if option not in (None, recorded_option):
        recorded = f"{record.study.name} is recorded with {group}={recorded_option}"
        return _typed_otherwise(record, group, f'is "{option}", but {recorded}')
    return Problem(key, fault, HOW_TO_RESTORE, place=composition.place_of(key, row))


def _typed_otherwise(record: StudyRecord, key: str, fault: str) -> Problem:
    return Problem(key, fault, other_study(record.study.folder), place=COMMAND_LINE)


def _is_fixed(composition: Composition, key: str) -> bool:
    """Whether a study keeps the key: all that decides weights, and what only scores unless it was
    typed."""
    schema = composition.schema
    typed = composition.typed
    is_typed = key.partition(".")[0] in typed.choices or key in typed.values
    return decides_weights(schema, key) or (key in schema.scores and not is_typed)
