"""The texts behind a set's samples: what the task prepared, and what each of the two trials made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.planning.moved import moved
from sweeps.planning.task_of import source_of_study
from sweeps.schema import RefusedError
from sweeps.worker.prepared import check_whole, data_place
from tracking.damage import DamagedFileError, decoded, read_whole
from tracking.statistics.compared import Differing, SampleCompared, Side
from tracking.study import Study, Trial

Lines = Mapping[str, Sequence[str]]


def with_texts(found: Differing, sides: tuple[Side, Side], data: Path) -> Differing:
    """The same samples with their texts, by what each is called. ``note`` says why there are none."""
    if found.trials is None or not found.samples:
        return found
    (first, second), (ours, theirs) = sides, found.trials
    prepared, note = prepared_texts(first.study, ours, found.set_name, data)
    outputs = _outputs(_name(first, ours), first.study, ours, found.set_name)
    outputs |= _outputs(_name(second, theirs), second.study, theirs, found.set_name)
    lines = {**prepared, **outputs}
    noun = first.study.task.sample
    if not lines:
        note = (
            f"{note or f'the task {first.study.task.name} keeps no texts'}; a {noun} is named by its place in the set"
        )
    return replace(found, samples=[_with_texts(sample, lines) for sample in found.samples], note=note)


def _with_texts(sample: SampleCompared, lines: Lines) -> SampleCompared:
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


def prepared_texts(study: Study, trial: Trial, set_name: str, data: Path) -> tuple[Lines, str]:
    """Sources, references and the like; none with the reason."""
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
