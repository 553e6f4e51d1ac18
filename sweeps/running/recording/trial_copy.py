"""Copies a finished trial of another study into this one, with its numbers, texts and weights.

The copy is made in a temporary folder and renamed. So a process that is killed meanwhile leaves
both studies whole, and the same command begins the copy again. A checkpoint file is never changed
in its place: both studies may have the same one as a hard link, and each may remove its own. On an
object store the server copies.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from rich.console import Console

from sweeps.checkpoints.files import TEMPORARY
from sweeps.checkpoints.folders import WORK_FILES, root_name
from sweeps.checkpoints.manifest import MANIFEST, CheckpointId, DamagedCheckpointError, Manifest
from sweeps.checkpoints.reader import CheckpointReader
from sweeps.console import print_line
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.shared_trials import without_sources
from sweeps.planning.source_trial import Source
from sweeps.problems import refusal
from sweeps.processes.storage import give_sign_of_life
from sweeps.running.recording.recorder import write_config
from tracking.activity.log import append_log, utc
from tracking.code import CODE_FOLDER, code_place, read_code, write_code
from tracking.files import read_whole, sync_folder, to_json, write_atomic
from tracking.provenance import SOURCE, attempts
from tracking.trial import TrialFolder

PREFIX = ".taking-"
"""Before a trial's name: a copy that is not whole yet."""
NOT_COPIED = (
    "config.yaml",
    "result.json",
    "provenance.json",
    "attempts.jsonl",
    "error.txt",
    "checkpoints",
)
"""Files that are written for this study instead of copied."""


def with_whole_sources(plan: Plan, console: Console) -> Plan:
    """The plan without the sources whose checkpoints turn out to be damaged: these trials are
    trained."""
    damaged = set[str]()
    for name, source in plan.sources.items():
        try:
            _check(source)
        except DamagedCheckpointError as damage:
            damaged.add(name)
            line = f"{name} is trained: the checkpoints of {source.record} are damaged ({damage})"
            print_line(console, line, "yellow")
    return without_sources(plan, damaged)


def take_trials(plan: Plan, console: Console) -> Plan:
    """Copy the trials that are taken; they must be locked. Returns the plan of what is left to do.

    Raises RefusedError if a source is gone or has changed since the plan was made, OSError.
    """
    names: dict[str, list[str]] = {}
    for planned in plan.to_take:
        if not planned.folder.attempts_path.exists():
            source = replace(plan.sources[planned.name])  # reads its result again
            _take(planned, source)
            names.setdefault(source.study.name, []).append(planned.name)
    for study, trials in names.items():
        print_line(console, f"Taken from {study}, not trained: {', '.join(trials)}")
    return replace(plan, sources={})


def _take(planned: PlannedTrial, source: Source) -> None:
    folder = planned.folder.path
    temporary = TrialFolder(folder.with_name(f"{PREFIX}{folder.name}"), planned.folder.card)
    shutil.rmtree(temporary.path, ignore_errors=True)  # of a process that was killed
    state = _state(source)
    try:
        if source.is_scored and not (
            planned.is_scored(dict(source.result)) and source.has_whole_scores
        ):
            raise FileNotFoundError  # it was or is being scored again with other settings
        _copy_code(source, folder.parent)
        _copy_files(source.folder.path, temporary.path)
        _copy_checkpoints(planned, source, temporary)
        _write_records(planned, source, temporary)
        if _state(source) != state:
            raise FileNotFoundError
        _rename(temporary.path, folder)
    except (FileNotFoundError, DamagedCheckpointError) as error:
        fault = f"can't be taken from {source.record}, which has just changed or been removed"
        raise refusal(planned.name, fault, "run the command again") from error
    finally:
        shutil.rmtree(temporary.path, ignore_errors=True)


def _state(source: Source) -> tuple[bytes | None, ...]:
    """The content of the files that change when the source is scored again or removed."""
    folder = source.folder
    return tuple(
        read_whole(path)
        for path in (folder.result_path, folder.attempts_path, folder.provenance_path)
    )


def _check(source: Source) -> None:
    """Raises DamagedCheckpointError unless all its checkpoints are whole."""
    checkpoints = source.reader()
    for checkpoint in checkpoints.finished():
        whole_manifest(checkpoints, checkpoint)


def _copy_files(folder: Path, target: Path) -> None:
    """Copy texts, statistics, journal and log. Damaged files were set aside under a different
    name."""
    for path in _files(folder):
        write_atomic(target / path.relative_to(folder), path.read_bytes())


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inner.parts)
        if (
            path.is_file()
            and inner.parts[0] not in NOT_COPIED
            and not is_hidden
            and not _is_set_aside(path)
        ):
            yield path


def _is_set_aside(path: Path) -> bool:
    """Whether it is a damaged file: ``<name>.damaged``, ``<name>.damaged-2`` …"""
    return any(suffix.startswith(".damaged") for suffix in path.suffixes)


def _copy_checkpoints(planned: PlannedTrial, source: Source, temporary: TrialFolder) -> None:
    """Copy the checkpoints to the study's own URL for them, if it has one; otherwise into the
    temporary folder."""
    elsewhere = planned.settings.paths.checkpoints
    target_url = planned.checkpoints if elsewhere else temporary.checkpoints_url(None)
    CheckpointCopy(source.reader(), target_url).run()


def _write_records(planned: PlannedTrial, source: Source, temporary: TrialFolder) -> None:
    """The result last."""
    record = source.record
    result = {**source.result, "row": planned.trial.row, "seed": planned.trial.seed}
    provenance = source.folder.provenance() | {SOURCE: asdict(record)}
    write_config(planned, temporary)
    write_atomic(temporary.provenance_path, to_json({"commit": None} | provenance) + "\n")
    write_atomic(temporary.attempts_path, source.folder.attempts_path.read_bytes())
    temporary.attempts.take_from(record)
    append_log(temporary.log_path, f"--- taken from {record}, {utc()}\n")
    temporary.write_result(result)


def _copy_code(source: Source, study: Path) -> None:
    """The user's code that trained it, and its uncommitted changes, unless the study has them."""
    for digest in source.codes():
        if not code_place(study, digest).is_dir():
            write_code(study, read_code(source.study.folder, digest))
    for record in attempts(source.folder.provenance()):
        name = str(record.get("diff") or "")
        if name.startswith(f"{CODE_FOLDER}/") and not (study / name).exists():
            _copy_diff(source.study.folder / name, study / name)


def _copy_diff(path: Path, target: Path) -> None:
    with suppress(FileNotFoundError):  # a person has removed it
        write_atomic(target, path.read_bytes())


def _rename(temporary: Path, folder: Path) -> None:
    """What the folder may hold is its configuration, which the copy has, too."""
    if folder.is_dir():
        (folder / "config.yaml").unlink(missing_ok=True)
        folder.rmdir()
    temporary.rename(folder)
    sync_folder(folder.parent)


class CheckpointCopy:
    """Copies the checkpoints of one study to the URL ``target_url`` of another, for the same trial
    key and lineage."""

    def __init__(self, source: CheckpointReader, target_url: str) -> None:
        self._source = source
        self._filesystem, home = fsspec.core.url_to_fs(target_url)
        self._root = f"{home.rstrip('/')}/{root_name(source.key, source.lineage.name)}"

    def run(self) -> None:
        """Copy every finished checkpoint, its manifest last: until then it counts as unfinished.

        Raises DamagedCheckpointError, OSError.
        """
        for checkpoint in self._source.finished():
            self._copy(checkpoint)
        self._copy_own_files()

    def _copy(self, checkpoint: CheckpointId) -> None:
        folder = self._source.folder(checkpoint)
        target = f"{self._root}/{checkpoint}"
        manifest = self._source.files.manifest(folder)
        if manifest is None:
            raise FileNotFoundError(folder)
        self._filesystem.makedirs(target, exist_ok=True)
        for name in (*manifest.files, MANIFEST):
            self._filesystem.makedirs(f"{target}/{name}".rpartition("/")[0], exist_ok=True)
            self._copy_file(f"{folder}/{name}", f"{target}/{name}")
            give_sign_of_life()

    def _copy_file(self, path: str, target: str) -> None:
        filesystem = self._source.files.filesystem
        if isinstance(filesystem, LocalFileSystem) and isinstance(
            self._filesystem, LocalFileSystem
        ):
            link_or_copy(Path(path), Path(target))
        elif filesystem == self._filesystem:
            filesystem.cp_file(path, target)
        else:
            self._filesystem.pipe_file(target, filesystem.cat_file(path))

    def _copy_own_files(self) -> None:
        """Copy the files that the trial itself wrote next to its checkpoints. They may change in
        place, so no links."""
        folder = Path(self._source.root, WORK_FILES)
        if (
            self._source.is_local
            and isinstance(self._filesystem, LocalFileSystem)
            and folder.is_dir()
        ):
            shutil.copytree(folder, Path(self._root, WORK_FILES), dirs_exist_ok=True)


def whole_manifest(checkpoints: CheckpointReader, checkpoint: CheckpointId) -> Manifest:
    """The manifest of a checkpoint, after reading all its files. Raises DamagedCheckpointError if
    one is damaged."""
    folder = checkpoints.folder(checkpoint)
    manifest = checkpoints.files.manifest(folder)
    if manifest is None:
        raise DamagedCheckpointError(f"{MANIFEST} is missing")
    parts: dict[str, Any] = checkpoints.files.parts(folder, manifest)
    assert parts.keys() == manifest.files.keys()
    return manifest


def link_or_copy(path: Path, target: Path) -> None:
    """A hard link, or a copy on the disk where the file system or the file's owner allows none."""
    temporary = Path(f"{target}{TEMPORARY}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
    temporary.replace(target)
