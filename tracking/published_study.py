"""A study as it is published: its finished trials without checkpoints, in small files and without
text of a corpus.

Everything that reads a study reads a published one. Of its outputs it has ten lines per trial, at
the same places. Journals and statistics are gzipped, and statistics are packed by columns.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracking.files import read_object, read_whole, to_json, write_atomic
from tracking.observed.record import OBSERVED_FILE
from tracking.packed_file import packed_text, zipped
from tracking.study import STUDY_FILE, Study, StudyTrial
from tracking.study_lock import LOCK_FILE
from tracking.trial import TrialFolder, statistics_name

MARK = "published.json"
"""The file by which a published study is known. It says what was left out."""
EXCERPT_LINES = 10
FILES_OF_TRIAL = ("config.yaml", "attempts.jsonl", "log.txt", "result.json", "provenance.json")


@dataclass(frozen=True)
class Publication:
    """What was written: the names of trials that are new or changed, and how many are finished."""

    changed: tuple[str, ...]
    finished: int


def is_published(study: Path) -> bool:
    """Whether nothing is added to the folder. One that was copied back to train on has a journal
    that is not zipped."""
    return (study / MARK).is_file() and not any(study.glob("*/journal.jsonl"))


def copy_finished(study: Study, folder: Path) -> Publication:
    """Copy the finished trials to ``folder``. What is there already stays, and equal files are not
    written again."""
    finished = [standing.trial for standing in study.standings() if standing.result is not None]
    for name in (STUDY_FILE, LOCK_FILE, OBSERVED_FILE):
        content = read_whole(study.folder / name)
        if content is not None:
            _write(folder / name, content)
    sets = study.task.sets_without_artifacts
    changed = [
        trial.name for trial in finished if _publish_trial(study, trial, folder / trial.name, sets)
    ]
    mark = {"lines_of_outputs": EXCERPT_LINES, "left_out": ["checkpoints", "code", *sets]}
    _write(folder / MARK, f"{to_json(mark)}\n".encode())
    return Publication(tuple(changed), len(finished))


def is_another(study: Study, folder: Path) -> bool:
    """Whether the folder holds a study that does not have this one's identity."""
    record = read_object(folder / STUDY_FILE)
    return record is not None and record.get("identity") != study.identity


def size_of(folder: Path) -> int:
    """In bytes, of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _publish_trial(
    study: Study, trial: StudyTrial, target: Path, left_out: tuple[str, ...]
) -> bool:
    """Returns whether any file was written."""
    source = study.trial_folder(trial)
    contents = dict(_plain_files(source))
    for set_name in (source.result() or {"scores": {}})["scores"]:
        if set_name not in left_out:
            contents |= _of_set(source, set_name)
    on = study.task.headline.set
    for artifact in study.task.artifacts:
        if lines := _excerpt(source.artifact_lines(artifact, on)):
            contents[f"{artifact}/{on}.jsonl"] = lines.encode()
    written = [_write(target / name, content) for name, content in contents.items()]
    return any(written)


def _plain_files(source: TrialFolder) -> Iterator[tuple[str, bytes]]:
    for name in FILES_OF_TRIAL:
        if (content := read_whole(source.path / name)) is not None:
            yield name, content
    if (journal := read_whole(source.journal_path)) is not None:
        yield f"{source.journal_path.name}.gz", zipped(journal.decode())


def _of_set(source: TrialFolder, set_name: str) -> dict[str, bytes]:
    """Raises DamagedFileError."""
    statistics = source.statistics(set_name)
    if statistics is None:
        return {}
    return {f"{statistics_name(set_name)}.gz": zipped(packed_text(*statistics))}


def _excerpt(lines: dict[int, str]) -> str:
    """Some lines, evenly spaced, each with its place: the same places for all trials."""
    places = sorted(lines)
    if len(places) > EXCERPT_LINES:
        places = [places[at * len(places) // EXCERPT_LINES] for at in range(EXCERPT_LINES)]
    return "".join(f"{to_json({'place': place, 'text': lines[place]})}\n" for place in places)


def _write(path: Path, content: bytes) -> bool:
    """Unless the file holds it already. Other versions of zlib make other bytes of one content."""
    if _content(path) == _content_of(path, content):
        return False
    write_atomic(path, content)
    return True


def _content(path: Path) -> bytes | None:
    if not path.exists():
        return None
    return _content_of(path, path.read_bytes())


def _content_of(path: Path, content: bytes) -> bytes:
    return gzip.decompress(content) if path.suffix == ".gz" else content
