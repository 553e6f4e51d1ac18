"""The texts of a set: those that a task prepares, such as references, and those of its trials."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.problems import RefusedError
from sweeps.task import Task
from tracking.files import DamagedFileError, unless_damaged
from tracking.statistics.side_comparison import Differing, SampleCompared
from tracking.statistics.sides import Side
from tracking.study import Study, StudyTrial
from tracking.trial import TrialFolder
from tracking.words import trial_name

if TYPE_CHECKING:
    from sweeps.config.settings import Settings
    from sweeps.worker.prepared import TaskData


Lines = Mapping[int, str]
"""Lines of a text by the place of their sample, from 1."""


def with_texts(differing: Differing, sides: tuple[Side, Side], data: Path) -> Differing:
    """The same samples with their texts, by name. ``note`` says why there are none."""
    if differing.trials is None or not differing.samples:
        return differing
    set_name = differing.set_name
    study = sides[0].study
    prepared, note = _prepared_texts(study, differing.trials[0], set_name, data)
    texts: dict[str, Lines] = {name: dict(enumerate(text, 1)) for name, text in prepared.items()}
    for side, trial in zip(sides, differing.trials, strict=True):
        name = trial_name(side.label, trial.seed) if side.label.endswith(trial.row) else side.label
        texts |= _outputs(name, side.study, trial, set_name)
    if not any(texts.values()):
        reason = note or f"the task {study.task.name} keeps no texts"
        note = f"{reason}; a {study.task.sample} is named by its place in the set"
    samples = [_sample_with_texts(sample, texts) for sample in differing.samples]
    return replace(differing, samples=samples, note=note)


def _sample_with_texts(sample: SampleCompared, texts: Mapping[str, Lines]) -> SampleCompared:
    """The sample with its line of each text."""
    line_number = sample.place
    own_lines = {name: lines[line_number] for name, lines in texts.items() if line_number in lines}
    return replace(sample, texts=own_lines)


def _outputs(name: str, study: Study, trial: StudyTrial, set_name: str) -> dict[str, Lines]:
    """The lines of the trial's artifacts."""
    folder = study.trial_folder(trial)
    artifacts = study.task.artifacts
    outputs: dict[str, Lines] = {}
    for artifact in artifacts:
        label = f"{name} {artifact}" if len(artifacts) > 1 else name
        outputs[label] = folder.artifact_lines(artifact, set_name)
    return outputs


def data_of_trial(
    task: Task[Any], stored: Mapping[str, Any], data: Path, folder: TrialFolder
) -> "TaskData":
    """The data of a trial, whose config.yaml is ``stored``: below the folder ``data``, unless only
    the recorded folder has it prepared.

    The recorded folder may have moved with the studies.
    """
    from sweeps.planning.study_rows.study_record import moved  # these import Hydra
    from sweeps.worker.prepared import TaskData

    paths = stored["paths"]
    recorded = Path(moved(paths["data"], paths["runs"], folder.path.parents[1]))
    here = TaskData(task, data, stored["data_fingerprint"], code_of(folder))
    for task_data in (here, replace(here, place=recorded)):
        if task_data.folder.is_dir():
            return task_data
    return here


def code_of(folder: TrialFolder) -> str:
    """The hash of the user's code that trained the trial; "" if there is none or it is unknown."""
    return str(unless_damaged(folder.provenance, {}).get("code") or "")


def _prepared_texts(
    study: Study, trial: StudyTrial, set_name: str, data: Path
) -> tuple[dict[str, Sequence[str]], str]:
    """Sources, references and the like; or none, and the reason."""
    from sweeps.planning.study_rows.task_choice import source_of_study

    try:
        task = source_of_study(study, Path.cwd()).task
        folder = study.trial_folder(trial)
        config = None if task.texts is None else folder.config()
        if task.texts is None or not config:
            return {}, ""
        task_data = data_of_trial(task, config, data, folder)
        if not task_data.folder.is_dir():
            return {}, f"the sources are not shown, because {task_data.folder} does not exist"
        if task.prepare is not None:
            task_data.check_whole()
        return dict(task.texts(task_data.folder, set_name)), ""
    except (RefusedError, DamagedFileError) as error:
        return {}, f"the sources are not shown: {error}"


def texts_of(study: Study, settings: "Settings") -> dict[str, list[str]]:
    """The prepared texts of the headline's set, such as sources and references.

    Empty if rows write no texts.
    """
    if not study.task.artifacts:
        return {}
    data = Path(settings.paths.data)
    for trial in study.trials:
        with suppress(OSError, ValueError):
            texts, _ = _prepared_texts(study, trial, study.task.headline.set, data)
            if texts:
                return {name: list(lines) for name, lines in texts.items()}
    return {}
