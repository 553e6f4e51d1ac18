"""A published study: its finished trials without checkpoints, in small files, without the text of a
corpus.

Every command that reads a study reads a published one. It has ten lines of each trial's outputs, at
the same places. Journals and statistics are gzipped, and statistics are packed by columns.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracking.files import read_object, read_whole, to_json, write_atomic
from tracking.json_lines.packed_file import packed_text, zipped
from tracking.observed.record import OBSERVED_FILE
from tracking.study import STUDY_FILE, Study, StudyTrial
from tracking.study_lock import LOCK_FILE
from tracking.trial import TrialFolder, statistics_name

MARK = "published.json"
"""The file that marks a published study. It says what was left out."""
EXCERPT_LINES = 10
FILES_OF_TRIAL = ("config.yaml", "attempts.jsonl", "log.txt", "result.json", "provenance.json")


@dataclass(frozen=True)
class Publication:
    """What was written: the names of trials that are new or changed, and how many are finished."""

    changed: tuple[str, ...]
    finished: int


def is_published(study: Path) -> bool:
    """Whether the folder is only read.

    A study that was copied back to train on has a plain journal.
    """
    return (study / MARK).is_file() and not any(study.glob("*/journal.jsonl"))


def copy_finished(study: Study, folder: Path) -> Publication:
    """Copy the finished trials to ``folder``.

    Existing files stay, and equal files are not written again.
    """
    finished = [standing.trial for standing in study.standings() if standing.result is not None]
    for name in (STUDY_FILE, LOCK_FILE, OBSERVED_FILE):
        content = read_whole(study.folder / name)
        if content is not None:
            _write(folder / name, content)
    changed = []
    for trial in finished:
        if _publish_trial(study, trial, folder / trial.name):
            changed.append(trial.name)
    left_out = ["checkpoints", "code", *study.task.sets_without_artifacts]
    mark = {"lines_of_outputs": EXCERPT_LINES, "left_out": left_out}
    _write(folder / MARK, f"{to_json(mark)}\n".encode())
    return Publication(tuple(changed), len(finished))


def is_another(study: Study, folder: Path) -> bool:
    """Whether the folder holds a study with a different identity."""
    record = read_object(folder / STUDY_FILE)
    return record is not None and record.get("identity") != study.identity


def size_of(folder: Path) -> int:
    """The bytes of all files below the folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _publish_trial(study: Study, trial: StudyTrial, target: Path) -> bool:
    """Returns whether any file was written. Raises DamagedFileError."""
    folder = study.trial_folder(trial)
    contents = dict(_plain_files(folder))
    result = folder.result()
    for set_name in result["scores"] if result else ():
        if set_name not in study.task.sets_without_artifacts:
            contents |= _statistics_file(folder, set_name)
    headline_set = study.task.headline.set
    for artifact in study.task.artifacts:
        excerpt = _excerpt(folder.artifact_lines(artifact, headline_set))
        if excerpt:
            contents[f"{artifact}/{headline_set}.jsonl"] = excerpt.encode()
    for name, text in folder.pictures().items():
        contents[name] = text.encode()
    written = [_write(target / name, content) for name, content in contents.items()]
    return any(written)


def _plain_files(folder: TrialFolder) -> Iterator[tuple[str, bytes]]:
    for name in FILES_OF_TRIAL:
        content = read_whole(folder.path / name)
        if content is not None:
            yield name, content
    journal = read_whole(folder.journal_path)
    if journal is not None:
        yield f"{folder.journal_path.name}.gz", zipped(journal.decode())


def _statistics_file(folder: TrialFolder, set_name: str) -> dict[str, bytes]:
    statistics = folder.statistics(set_name)
    if statistics is None:
        return {}
    head, samples = statistics
    return {f"{statistics_name(set_name)}.gz": zipped(packed_text(head, samples))}


def _excerpt(lines: dict[int, str]) -> str:
    """Some lines, evenly spaced, each with its place: the same places for all trials."""
    places = sorted(lines)
    if len(places) > EXCERPT_LINES:
        indices = [number * len(places) // EXCERPT_LINES for number in range(EXCERPT_LINES)]
        places = [places[index] for index in indices]
    excerpt = ""
    for number in places:
        excerpt += to_json({"place": number, "text": lines[number]}) + "\n"
    return excerpt


def _write(path: Path, content: bytes) -> bool:
    """Write the file unless it holds this content. Versions of zlib differ in their bytes, so this
    compares unzipped content."""
    if path.exists() and _unzipped(path, path.read_bytes()) == _unzipped(path, content):
        return False
    write_atomic(path, content)
    return True


def _unzipped(path: Path, content: bytes) -> bytes:
    return gzip.decompress(content) if path.suffix == ".gz" else content
