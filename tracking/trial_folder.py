"""One trial's folder: its attempts, its journal, its result.

Only the process of the sweep (or of `train`) writes here. Others may read at any moment.
"""

import errno
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tracking.shapes as shapes
from tracking.artifacts import statistics_name, statistics_text
from tracking.card import Card
from tracking.damage import DamagedFileError, read_whole, set_aside, unless_damaged, unless_lost
from tracking.files import append_line, read_object, to_json, write_atomic
from tracking.journal import Journal, JournalLine, PastReport, journal_line
from tracking.lines import NEWEST, Lines
from tracking.liveness import Attempt, Process
from tracking.trial_config import group_of, read_config
from tracking.uri import without_password

TrialState = Literal["missing", "interrupted", "running", "failed", "finished", "damaged"]


class TrialFolder:
    """`<study>/<row>-s<seed>`; the first write creates it. Methods that read a file raise DamagedFileError if the
    file is unusable, or UnreadableError. ``card`` is the task of its study, which decides what the files must hold."""

    def __init__(self, path: Path, card: Card) -> None:
        self.path, self.card = path, card
        self.config_path = path / "config.yaml"
        self.provenance_path = path / "provenance.json"
        self.attempts_path = path / "attempts.jsonl"
        self.journal_path = path / "journal.jsonl"
        self.result_path = path / "result.json"
        self.error_path = path / "error.txt"
        self.log_path = path / "log.txt"

    def checkpoints_url(self, elsewhere: str | None) -> str:
        """The folder of its attempts' checkpoints. ``elsewhere`` is ``paths.checkpoints``: any fsspec URL."""
        return f"{elsewhere}/{self.path.parent.name}/{self.path.name}" if elsewhere else str(self.path / "checkpoints")

    def artifact_path(self, artifact: str, set_name: str) -> Path:
        return self.path / artifact / f"{set_name}.txt"

    def statistics_path(self, set_name: str) -> Path:
        return self.path / statistics_name(set_name)

    def begin_attempt(self, number: int, process: Process) -> None:
        """Record with fsync that attempt `number`, from 1, begins. An earlier open attempt is closed as lost.

        After an error it may be repeated. Raises OSError if another process has begun it, or a later one.
        """
        last = self._newest()
        if last and last.number >= number:
            self._check_own(last, process)
        if last and last.ended is None and last.number < number:
            self.end_attempt(last.number, "lost")
        if last is None or last.number < number:
            line = {"attempt": number, "ts": time.time(), **asdict(process)}
            append_line(self.attempts_path, to_json(line), fsync=True)
        self.error_path.unlink(missing_ok=True)  # after the line, so that a crash in between leaves the cause readable

    def end_attempt(self, attempt: int, reason: str) -> None:
        """Record its end. The reason: finished, failed, interrupted, lost or worker lost, then free text."""
        line = {"attempt": attempt, "ts": time.time(), "end": True, "reason": without_password(reason)}
        append_line(self.attempts_path, to_json(line), fsync=True)

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        found: dict[int, Attempt] = {}
        for line in Lines(self.attempts_path, shapes.attempt_line):
            number = line["attempt"]
            if not line.get("end"):
                process = Process(line["host"], line["pid"], str(line.get("birth", "")))
                found[number] = Attempt(number, line["ts"], process)
            elif number in found:
                found[number] = replace(found[number], ended=line["ts"], reason=line["reason"])
        return list(found.values())

    def newest_attempt(self) -> Attempt | None:
        """The last one; None without any, and if their file is damaged."""
        found: list[Attempt] = unless_damaged(self.attempts, [])
        return found[-1] if found else None

    def check_begun(self, number: int) -> Attempt:
        """The newest attempt.

        Raises OSError unless the given one is recorded. It was, so the folder's storage is away or was emptied.
        """
        newest = self._newest()
        if newest is None or newest.number < number:
            raise OSError(errno.ESTALE, f"the record of attempt {number} is gone", str(self.attempts_path))
        return newest

    def check_running(self, number: int, process: Process) -> None:
        """Raises OSError also if another process has begun an attempt since, as it can where locks fail."""
        self._check_own(self.check_begun(number), process)

    def _check_own(self, attempt: Attempt, process: Process) -> None:
        if attempt.process != process:
            other = f"{attempt.process} has begun attempt {attempt.number}"
            raise OSError(None, f"{other}, so this process ends: let one sweep at a time run a trial", str(self.path))

    def report(
        self,
        attempt: int,
        step: int,
        metrics: dict[str, float],
        ts: float | None = None,
        checkpoint: int | None = None,
        synced: bool = True,
    ) -> bool:
        """Append to the journal, with fsync if ``synced``. A fenced report returns False and writes nothing.

        Reports are fenced if a newer attempt exists, or if the journal has reached their step: steps strictly
        increase.
        """
        newest, last = self._newest(), Journal(self.journal_path, NEWEST).newest
        if newest is None or newest.number != attempt or (last and last.step >= step):
            return False
        line = journal_line(time.time() if ts is None else ts, attempt, step, metrics, checkpoint)
        append_line(self.journal_path, to_json(line), fsync=synced)
        return True

    def restore(self, attempt: int, step: int, history: Iterable[PastReport]) -> None:
        """Before training resumes after `step`: keep the journal's lines up to it, and fill in the missing ones.

        `history` holds the last reports up to `step`, which may be missing here after a crash.
        """
        lines = {at: journal_line(ts, attempt, at, metrics, checkpoint) for ts, at, metrics, checkpoint in history}
        lines |= {line["step"]: line for line in Lines(self.journal_path, shapes.journal_line) if line["step"] <= step}
        if lines or self.journal_path.exists():
            write_atomic(self.journal_path, "".join(to_json(lines[at]) + "\n" for at in sorted(lines)))

    def journal(self) -> list[JournalLine]:
        """Every report, steps strictly increasing. ``Journal`` has the same without parsing all of them."""
        return list(Journal(self.journal_path))

    def write_statistics(self, set_name: str, head: dict[str, Any], sentences: list[dict[str, Any]]) -> None:
        self.write_artifact(statistics_name(set_name), statistics_text(head, sentences))

    def write_artifact(self, name: str, text: str) -> None:
        """Write a text of the trial at this path in its folder. Damaged statistics are set aside, not replaced."""
        path, folder = self.path / name, self.path / "statistics"
        if path.is_relative_to(folder):
            set_name = str(path.relative_to(folder).with_suffix(""))
            if unless_lost(lambda: self.statistics(set_name), None) is None and path.exists():
                set_aside(path)
        write_atomic(path, text)

    def statistics(self, set_name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """The content of ``write_statistics``; None without a file."""
        found = self._samples(set_name)
        return None if found is None else (found[0], [*found][1:])

    def evaluated(self) -> dict[str, dict[str, Any]]:
        """The evaluated sets with the first line of their statistics. A set without its artifacts, or with a damaged
        file, is left out, so that it is evaluated again."""
        kept = [name for name in self._statistics_names() if self._has_artifacts(name)]
        found = {name: unless_damaged(partial(self._samples, name), None) for name in kept}
        return {name: lines[0] for name, lines in found.items() if lines is not None}

    def write_result(self, result: dict[str, Any]) -> None:
        """Write `result.json`; a number that is not finite becomes null."""
        write_atomic(self.result_path, to_json(result) + "\n")

    def result(self) -> dict[str, Any] | None:
        """The content of ``write_result``; None without a file."""
        content = read_object(self.result_path)
        if content is not None and (wrong := shapes.result(content, self.card)):
            raise DamagedFileError(self.result_path, wrong)
        return content

    def samples_of(self, set_name: str) -> int | None:
        """How many samples of this set have scores; None if their file is missing."""
        content = unless_damaged(lambda: read_whole(self.statistics_path(set_name)), None)
        return None if content is None else max(0, content.count(b"\n") - 1)

    def finished_result(self, key: str) -> dict[str, Any] | None:
        """The result of the trial with this key; None if it is not finished, or its result is damaged."""
        result = unless_damaged(self.result, None)
        return result if result is not None and result["key"] == key else None

    def config(self) -> dict[str, Any] | None:
        """``config.yaml``; None without it."""
        return read_config(self.config_path, self.card)

    def key(self) -> str | None:
        """The trial key in ``config.yaml``, where a sweep writes it."""
        key = group_of(self.config_path, "key")
        return None if key is None else str(key)

    def trained_config(self) -> dict[str, Any] | None:
        """The same, checked for the trial's key, which a sweep writes."""
        config = self.config()
        if config is not None and "key" not in config:
            raise DamagedFileError(self.config_path, "must have key and data_fingerprint")
        return config

    def provenance(self) -> dict[str, Any]:
        """The content of ``provenance.json``, see ``tracking.provenance``; {} before the worker group has started."""
        content = read_object(self.provenance_path)
        if content is not None and "commit" not in content:
            raise DamagedFileError(self.provenance_path, "must have a commit")
        return content or {}

    def write_error(self, text: str) -> None:
        write_atomic(self.error_path, without_password(text))

    def write_loss(self, attempt: int, text: str) -> None:
        """Why this attempt lost its workers, with the last lines of one that died; the trial itself may yet finish."""
        write_atomic(self.path / f"lost-a{attempt}.txt", without_password(text))

    def error(self) -> str | None:
        """Why the trial failed; None if it did not."""
        content = read_whole(self.error_path)
        return None if content is None else without_password(content.decode("utf-8", errors="replace"))

    def cause(self) -> str | None:
        """The first line of ``error``."""
        error = unless_damaged(self.error, None)
        return None if error is None else next(iter(error.strip().splitlines()), "no cause was written")

    def state(self, key: str | None = None) -> TrialState:
        """The trial's state. With `key`, a result of another key does not count as finished.

        A damaged trial cannot resume before a repair; ``damage`` names the files.
        """
        return self.standing(key)[0]

    def standing(self, key: str | None = None) -> tuple[TrialState, dict[str, Any] | None]:
        """The state, and the result of a finished trial: from one read, since the trial may finish at any moment."""
        try:
            result = self.result()
            if result is not None and key in (None, result["key"]):
                return "finished", result
            return self._unfinished(), None
        except DamagedFileError:
            return "damaged", None

    def _unfinished(self) -> TrialState:
        if self.error() is not None:
            return "failed"
        newest = self._newest()
        if newest is not None and newest.lives():
            return "running"
        self.newest_report()
        self.config()
        return "missing" if newest is None else "interrupted"

    def damage(self) -> list[DamagedFileError]:
        """Every damaged file of the folder, with its first fault."""
        found: list[DamagedFileError] = []
        statistics: list[Callable[[], Any]] = [partial(self.statistics, name) for name in self._statistics_names()]
        history = (self.attempts, self.journal, self.newest_report)
        readers: list[Callable[[], Any]] = [self.result, *history, self.trained_config, self.provenance, self.error]
        for read in (*readers, *statistics):
            try:
                read()
            except DamagedFileError as error:
                found.append(error)
        return list({error.path: error for error in reversed(found)}.values())[::-1]

    def newest_report(self) -> JournalLine | None:
        """The last one, read from the journal's end."""
        newest = Journal(self.journal_path, NEWEST).newest
        if newest is not None and not self.attempts():  # an attempt precedes its reports
            cause = "is empty" if self.attempts_path.exists() else "is missing"
            raise DamagedFileError(self.attempts_path, f"{cause}, but journal.jsonl has reports")
        return newest

    def _statistics_names(self) -> list[str]:
        root = self.path / "statistics"
        return [str(path.relative_to(root).with_suffix("")) for path in sorted(root.rglob("*.jsonl"))]

    def _samples(self, set_name: str) -> Lines | None:
        """The file of ``write_statistics``: its head, which is checked, and a line per sample; None without a file."""
        lines = Lines(self.statistics_path(set_name))
        if lines.torn or (not lines and lines.path.exists()):
            raise DamagedFileError(lines.path, "its last line is cut off" if lines.torn else "is empty")
        if lines and (wrong := shapes.statistics_head(lines[0], self.card)):
            raise DamagedFileError(lines.path, wrong, 1)
        return lines or None

    def _has_artifacts(self, set_name: str) -> bool:
        return all(self.artifact_path(artifact, set_name).is_file() for artifact in self.card.artifacts)

    def _newest(self) -> Attempt | None:
        return max(self.attempts(), key=lambda attempt: attempt.number, default=None)
