"""The texts of a set: what a task prepares, such as sources and references, and what its trials
wrote."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.problems import RefusedError
from sweeps.task import Task
from tracking.files import DamagedFileError, unless_damaged
from tracking.statistics.comparison import Differing, SampleCompared, Side
from tracking.study import Study, StudyTrial
from tracking.trial import TrialFolder

if TYPE_CHECKING:
    from sweeps.config.settings import Settings


def with_texts(found: Differing, sides: tuple[Side, Side], data: Path) -> Differing:
    """The same samples with their texts, by what each is called. ``note`` says why there are
    none."""
    if found.trials is None or not found.samples:
        return found
    prepared, note = _prepared_texts(sides[0].study, found.trials[0], found.set_name, data)
    lines: dict[str, Mapping[int, str]] = {
        name: dict(enumerate(of, 1)) for name, of in prepared.items()
    }
    for side, trial in zip(sides, found.trials, strict=True):
        name = f"{side.label}-s{trial.seed}" if side.label.endswith(trial.row) else side.label
        lines |= _outputs(name, side.study, trial, found.set_name)
    if not any(lines.values()):
        task = sides[0].study.task
        note = f"{note or f'the task {task.name} keeps no texts'}; a {task.sample} is named by its place in the set"
    return replace(
        found, samples=[_sample_with_texts(sample, lines) for sample in found.samples], note=note
    )


def _sample_with_texts(
    sample: SampleCompared, lines: Mapping[str, Mapping[int, str]]
) -> SampleCompared:
    texts = {name: of[sample.place] for name, of in lines.items() if sample.place in of}
    return replace(sample, texts=texts)


def _outputs(
    name: str, study: Study, trial: StudyTrial, set_name: str
) -> dict[str, dict[int, str]]:
    """Of the task's artifacts, lines by the place of their sample."""
    folder = study.trial_folder(trial)
    several = len(study.task.artifacts) > 1
    return {
        f"{name} {artifact}" if several else name: folder.artifact_lines(artifact, set_name)
        for artifact in study.task.artifacts
    }


def data_folder(
    task: Task[Any], stored: Mapping[str, Any], data: Path, folder: TrialFolder
) -> Path:
    """``paths.data`` of a trial, by its config.yaml: ``data``, unless only the recorded folder has
    its prepared data.

    The recorded one may have moved along with the study's.
    """
    from sweeps.planning.study_rows.study_record import moved  # these import Hydra
    from sweeps.worker.prepared import data_place

    recorded = Path(moved(stored["paths"]["data"], stored["paths"]["runs"], folder.path.parents[1]))
    made_of = stored["data_fingerprint"], code_of(folder)
    return next(
        (place for place in (data, recorded) if data_place(task, place, *made_of).is_dir()), data
    )


def code_of(folder: TrialFolder) -> str:
    """The hash of the user's code with which the trial was trained; "" if there is none, or if it
    is unknown."""
    return str(unless_damaged(folder.provenance, {}).get("code") or "")


def _prepared_texts(
    study: Study, trial: StudyTrial, set_name: str, data: Path
) -> tuple[dict[str, Sequence[str]], str]:
    """Sources, references and the like; none with the reason."""
    from sweeps.planning.study_rows.command_task import source_of_study
    from sweeps.worker.prepared import check_whole, data_place

    try:
        task = source_of_study(study, Path.cwd()).task
        folder = study.trial_folder(trial)
        config = (task.texts and folder.config()) or {}
        if task.texts is None or not config:
            return {}, ""
        fingerprint = config["data_fingerprint"]
        place = data_place(
            task, data_folder(task, config, data, folder), fingerprint, code_of(folder)
        )
        if not place.is_dir():
            return {}, f"its sources are not shown: {place} is gone"
        if task.prepare is not None:
            check_whole(place, fingerprint)
        return dict(task.texts(place, set_name)), ""
    except (RefusedError, DamagedFileError) as error:
        return {}, f"its sources are not shown: {error}"


def texts_of(study: Study, settings: "Settings") -> dict[str, list[str]]:
    """What the task shows of the headline's set, such as sources and references. Empty where rows
    write no texts."""
    for trial in study.trials if study.task.artifacts else ():
        with suppress(OSError, ValueError):
            texts, _ = _prepared_texts(
                study, trial, study.task.headline.set, Path(settings.paths.data)
            )
            if texts:
                return {name: list(lines) for name, lines in texts.items()}
    return {}
