"""One trial's folder: its attempts, its journal, its result, its texts; and what each of its files
must hold.

Only the process of the sweep (or of `train`) writes here. Others may read at any moment.
"""

import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any, Literal, TypeVar

from tracking.attempts import ATTEMPT, AttemptRecord, Attempts, Lineage, Process
from tracking.card import COSTS, DEVICE_COSTS, Card
from tracking.files import (
    NEWEST,
    DamagedFileError,
    Form,
    Lines,
    UnreadableError,
    append_line,
    kept_name,
    misfit,
    read_object,
    read_whole,
    read_yaml,
    replace_last_line,
    set_aside,
    to_json,
    unless_damaged,
    unless_lost,
    write_atomic,
)
from tracking.journal import REPORT, Journal, JournalLine, PastReport, journal_line
from tracking.packed_file import sample_count, unpacked
from tracking.provenance import Provenance, with_scoring
from tracking.source_trial import SourceTrial
from tracking.uri import without_password
from tracking.weights import WEIGHTS

CONFIG: Form = {
    **{"key": str, "data_fingerprint": str},
    "paths": {"runs": str, "data": str, "checkpoints": str | None},
}
RESULT: Form = {
    **{"key": str, "seed": int, "attempt": int, "step": int},
    **{"steps": int | None, "diverged": int | None},
    **dict.fromkeys((*COSTS, *DEVICE_COSTS), float | None),
    "sustained": (NoneType, {"source": str}),
    WEIGHTS: dict | None,
}
HEAD: Form = {"key": str, "step": int}
"""What the files must hold, besides the groups and the metrics of the study's task. ``HEAD``: a
set's statistics."""
EXCERPT: Form = {"place": int, "text": str}
"""A line of an artifact of which a published study has some."""
OTHER_FOLDERS = ("checkpoints", "statistics")
"""Folders of a trial whose files have a form of their own."""
TrialState = Literal[
    "missing", "interrupted", "running", "failed", "finished", "to score again", "damaged"
]
T = TypeVar("T")


class Reader:
    """Reads files of a trial one by one, and keeps the first fault of each."""

    def __init__(self) -> None:
        self.faults: dict[Path, DamagedFileError] = {}

    def __call__(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DamagedFileError as error:
            self.faults.setdefault(error.path, error)
            return None


class TrialFolder:
    """`<study>/<row>-s<seed>`; the first write creates it. Methods that read a file raise
    DamagedFileError if the file is unusable, or UnreadableError. ``card`` is the task of its study,
    which decides what the files must hold."""

    def __init__(self, path: Path, card: Card) -> None:
        self.path = path
        self.card = card
        self.config_path = path / "config.yaml"
        self.provenance_path = path / "provenance.json"
        self.attempts_path = path / "attempts.jsonl"
        self.attempts = Attempts(self.attempts_path)
        self.journal_path = path / "journal.jsonl"
        self.result_path = path / "result.json"
        self.error_path = path / "error.txt"
        self.log_path = path / "log.txt"

    def checkpoints_url(self, elsewhere: str | None) -> str:
        """The folder of its attempts' checkpoints. ``elsewhere`` is ``paths.checkpoints``: any
        fsspec URL."""
        return (
            f"{elsewhere}/{self.path.parent.name}/{self.path.name}"
            if elsewhere
            else str(self.path / "checkpoints")
        )

    def artifact_path(self, artifact: str, set_name: str) -> Path:
        return self.path / artifact / f"{set_name}.txt"

    def artifact_lines(self, artifact: str, set_name: str) -> dict[int, str]:
        """By the place of the sample, from 1 on. They may hold any separator other than a line
        feed.

        A published study has some of them, and a trial without the file has none."""
        path = self.artifact_path(artifact, set_name)
        if not path.is_file():
            lines = unless_damaged(Lines(path.with_suffix(".jsonl"), EXCERPT).good, [])
            return {line["place"]: line["text"] for line in lines}
        return dict(enumerate(path.read_bytes().decode("utf-8", "replace").split("\n")[:-1], 1))

    def statistics_path(self, set_name: str) -> Path:
        return self.path / statistics_name(set_name)

    def lineage(self, codes: Sequence[str] = ()) -> Lineage | None:
        """That of its attempts; None before the first. ``codes`` are those of its study."""
        attempts = self.attempts.all()
        names = [attempt.lineage for attempt in attempts] or self._lineages_below()
        if not names:
            return None
        return Lineage(names[-1], {attempt.number: attempt.run for attempt in attempts}, codes)

    def _lineages_below(self) -> list[str]:
        """As folders of checkpoints have them: they outlive a lost record of attempts."""
        return sorted(
            path.name.partition("-")[2] for path in self.path.glob("checkpoints/*") if path.is_dir()
        )

    def begin_attempt(
        self, number: int, process: Process, lineage: str = "", run: str = ""
    ) -> None:
        """Begin attempt ``number``. It is recorded before the last error is removed, so that a
        crash loses neither."""
        self.attempts.begin(number, process, lineage, run)
        self.error_path.unlink(missing_ok=True)

    def source(self) -> SourceTrial | None:
        """The trial of another study from which it was taken; None if it was not, or if the file is
        damaged."""
        return unless_damaged(self.attempts.source, None)

    def newest_attempt(self) -> AttemptRecord | None:
        """The last one; None without any, and if their file is damaged."""
        return unless_damaged(self.attempts.newest, None)

    def report(
        self,
        attempt: int,
        step: int,
        metrics: dict[str, float],
        ts: float | None = None,
        checkpoint: int | None = None,
        synced: bool = True,
    ) -> bool:
        """Append to the journal, with fsync if ``synced``. A fenced report returns False and writes
        nothing.

        Reports are fenced if a newer attempt exists, or if the journal is past their step, or has
        it from an earlier attempt that finished. Reports of one step are one line, in which the
        later value of a metric stands.
        """
        newest = self.attempts.newest()
        last = Journal(self.journal_path, NEWEST).newest
        if newest is None or newest.number != attempt or (last and last.step > step):
            return False
        if last and last.step == step and last.attempt != attempt and self.result() is not None:
            return False
        ts = time.time() if ts is None else ts
        if last and last.step == step:
            checkpoint = last.checkpoint if checkpoint is None else checkpoint
            merged = journal_line(ts, attempt, step, last.metrics | metrics, checkpoint)
            replace_last_line(self.journal_path, to_json(merged))
        else:
            line = journal_line(ts, attempt, step, metrics, checkpoint)
            append_line(self.journal_path, to_json(line), fsync=synced)
        return True

    def restore(self, attempt: int, step: int, history: Iterable[PastReport]) -> None:
        """Before training resumes after `step`: keep the journal's lines up to it, and fill in the
        missing ones.

        `history` holds the last reports up to `step`, which may be missing here after a crash.
        """
        lines = {
            at: journal_line(ts, attempt, at, metrics, checkpoint)
            for ts, at, metrics, checkpoint in history
        }
        lines |= {
            line["step"]: line for line in Lines(self.journal_path, REPORT) if line["step"] <= step
        }
        if lines or self.journal_path.exists():
            write_atomic(
                self.journal_path, "".join(to_json(lines[at]) + "\n" for at in sorted(lines))
            )

    def journal(self) -> list[JournalLine]:
        """Every report, steps strictly increasing. ``Journal`` has the same without parsing all of
        them."""
        return list(Journal(self.journal_path))

    def write_artifact(self, name: str, text: str) -> None:
        """Write a text of the trial at this path in its folder. Damaged statistics are set aside,
        not replaced."""
        path = self.path / name
        folder = self.path / "statistics"
        if path.is_relative_to(folder):
            set_name = str(path.relative_to(folder).with_suffix(""))
            if unless_lost(lambda: self.statistics(set_name), None) is None and path.exists():
                set_aside(path)
        write_atomic(path, text)

    def statistics(self, set_name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """A set's head and samples, as in ``statistics_text``; None without a file."""
        lines = self._samples(set_name)
        return None if lines is None else unpacked(lines)

    def evaluated(self) -> dict[str, dict[str, Any]]:
        """The evaluated sets with the first line of their statistics. A set without its artifacts,
        or with a damaged file, is left out, so that it is evaluated again."""
        kept = [name for name in self._statistics_names() if self._has_artifacts(name)]
        found = {name: unless_damaged(partial(self._samples, name), None) for name in kept}
        return {name: lines[0] for name, lines in found.items() if lines is not None}

    def scored_heads(
        self, key: str, step: int, settings: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Those of ``evaluated`` that are of the weights with this key after this step, scored with
        these settings."""
        wanted = (key, step, settings)
        heads = self.evaluated().items()
        return {
            name: head
            for name, head in heads
            if (head["key"], head["step"], head["scores"]["decode"]) == wanted
        }

    def write_result(self, result: dict[str, Any]) -> None:
        """Write `result.json`; a number that is not finite becomes null."""
        write_atomic(self.result_path, to_json(result) + "\n")

    def result(self) -> dict[str, Any] | None:
        """The content of ``write_result``; None without a file."""
        return read_object(self.result_path, RESULT | {"scores": {...: scores_form(self.card)}})

    def samples_of(self, set_name: str) -> int | None:
        """How many samples of this set have scores; None if their file is missing."""
        lines = unless_damaged(lambda: Lines(self.statistics_path(set_name)), None)
        return (
            None
            if lines is None or lines.is_missing
            else unless_damaged(lambda: sample_count(lines), 0)
        )

    def finished_result(self, key: str) -> dict[str, Any] | None:
        """The result of the trial with this key; None if it is not finished, or its result is
        damaged."""
        result = unless_damaged(self.result, None)
        return result if result is not None and result["key"] == key else None

    def config(self) -> dict[str, Any] | None:
        """``config.yaml``; None without it."""
        config: dict[str, Any] | None = read_yaml(self.config_path)
        if config is None and not self.config_path.exists():
            return None
        if wrong := misfit(config, CONFIG | dict.fromkeys(self.card.groups, dict)):
            raise DamagedFileError(self.config_path, wrong)
        return config

    def key(self) -> str | None:
        """The trial key in ``config.yaml``, read without the rest."""
        key = read_yaml(self.config_path, "key")
        return None if key is None else str(key)

    def provenance(self) -> dict[str, Any]:
        """The content of ``provenance.json``, see ``tracking.provenance``; {} before the worker
        group has started."""
        content = read_object(self.provenance_path)
        if content is not None and "commit" not in content:
            raise DamagedFileError(self.provenance_path, "must have a commit")
        return content or {}

    def scored_again(self, process: Provenance, on: str) -> None:
        """Keep by what this set was scored outside of an attempt."""
        content = with_scoring(self.provenance(), process, on)
        write_atomic(self.provenance_path, to_json({"commit": None} | content) + "\n")

    def write_error(self, text: str) -> None:
        write_atomic(self.error_path, without_password(text))

    def write_loss(self, attempt: int, text: str) -> None:
        """Why this attempt lost its workers, with the last lines of one that died; the trial itself
        may yet finish."""
        write_atomic(self.path / f"lost-a{attempt}.txt", without_password(text))

    def error(self) -> str | None:
        """Why the trial failed; None if it did not."""
        content = read_whole(self.error_path)
        return (
            None if content is None else without_password(content.decode("utf-8", errors="replace"))
        )

    def cause(self) -> str | None:
        """The first line of ``error``."""
        error = unless_damaged(self.error, None)
        return (
            None
            if error is None
            else next(iter(error.strip().splitlines()), "no cause was written")
        )

    def state(self, key: str | None = None) -> TrialState:
        """The trial's state. With `key`, a result of another key does not count as finished.

        A damaged trial cannot resume before a repair; ``damage`` names the files.
        """
        return self.standing(key)[0]

    def standing(self, key: str | None = None) -> tuple[TrialState, dict[str, Any] | None]:
        """The state, and the result of a finished trial: from one read, since the trial may finish
        at any moment."""
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
        newest = self.attempts.newest()
        if newest is not None and newest.lives():
            return "running"
        self.newest_report()
        self.config()
        return "missing" if newest is None else "interrupted"

    def damage(self) -> list[DamagedFileError]:
        """Every damaged file of the folder, with its first fault."""
        read = Reader()
        history = (self.attempts.all, self.journal, self.newest_report)
        for each in (self.result, *history, self.config, self.provenance, self.error):
            read(each)
        for name in self._statistics_names():
            read(partial(self.statistics, name))
        return list(read.faults.values())

    def repair(self, error: DamagedFileError) -> str:
        """Keep the damaged file as `<name>.damaged`; good lines of its journal and its attempts
        stay in place.

        Only the process with the trial's lock may do so. Returns the action, as words that follow
        the file's name. Raises UnreadableError, and changes nothing, if this file or one that the
        repair needs is unreadable.
        """
        if isinstance(error, UnreadableError):
            raise error
        path = error.path
        forms = {self.journal_path: REPORT, self.attempts_path: ATTEMPT}
        highest = self._highest_attempt() if path == self.attempts_path else 0
        if path in forms and path.is_file():
            done = _keep_good_lines(Lines(path, forms[path]))
        else:
            done = f"kept as {set_aside(path).name}" if path.exists() else "was lost"
        newest = self.attempts.newest() if highest else None
        if highest > (
            newest.number if newest else 0
        ):  # attempts are fenced by their number: none is used twice
            lineage = self.lineage() or Lineage(uuid.uuid4().hex)
            self.attempts.begin(highest, Process("unknown", 0), lineage.name)
            self.attempts.end(highest, "lost: attempts.jsonl was damaged")
        return done

    def _highest_attempt(self) -> int:
        """The highest number that an attempt can have had: each lost line may have begun one."""
        files = {self.attempts_path: ATTEMPT, self.journal_path: REPORT}
        whole = [unless_lost(partial(Lines, path, form), None) for path, form in files.items()]
        places = (
            re.fullmatch(r"a(\d+)", path.name) for path in self.path.glob("checkpoints/**/a*")
        )
        numbers = [line.get("attempt", 0) for lines in whole if lines for line in lines.good()]
        numbers += [int(of[1]) for of in places if of]
        lost = len(whole[0]) - len(whole[0].good()) if whole[0] else 0
        return max(numbers, default=0) + lost

    def newest_report(self) -> JournalLine | None:
        """The last one, read from the journal's end."""
        newest = Journal(self.journal_path, NEWEST).newest
        if newest is not None and not self.attempts.all():  # an attempt precedes its reports
            cause = "is empty" if self.attempts_path.exists() else "is missing"
            raise DamagedFileError(self.attempts_path, f"{cause}, but journal.jsonl has reports")
        return newest

    def _statistics_names(self) -> list[str]:
        root = self.path / "statistics"
        paths = [
            *root.rglob("*.jsonl"),
            *(path.with_suffix("") for path in root.rglob("*.jsonl.gz")),
        ]
        return [str(path.relative_to(root).with_suffix("")) for path in sorted(set(paths))]

    def _samples(self, set_name: str) -> Lines | None:
        """A set's statistics as lines; the head is checked."""
        lines = Lines(self.statistics_path(set_name))
        if lines.torn or (not lines and lines.path.exists()):
            raise DamagedFileError(
                lines.path, "its last line is cut off" if lines.torn else "is empty"
            )
        if lines and (wrong := misfit(lines[0], HEAD | {"scores": scores_form(self.card)})):
            raise DamagedFileError(lines.path, wrong, 1)
        return lines or None

    def _has_artifacts(self, set_name: str) -> bool:
        """``set_name`` may end in settings, such as dev@beam8."""
        if set_name.partition("@")[0] in self.card.sets_without_artifacts:
            return True
        return all(
            self.artifact_path(artifact, set_name).is_file() for artifact in self.card.artifacts
        )


def _keep_good_lines(lines: Lines) -> str:
    copy = kept_name(lines.path)
    good = lines.good()
    shutil.copyfile(
        lines.path, copy
    )  # no rename: after a crash before the next line the damage must still be found
    write_atomic(lines.path, "".join(to_json(line) + "\n" for line in good))
    return f"kept as {copy.name}; {len(good)} of {len(lines)} lines are good and stay"


def recorded_runs(study: Path) -> list[str]:
    """Every ``paths.runs`` with which a trial of the study began: several if the study was moved in
    between."""
    places = (
        unless_damaged(partial(read_yaml, path, "paths"), None)
        for path in sorted(study.glob("*/config.yaml"))
    )
    found = [of.get("runs") for of in places if isinstance(of, dict)]
    return list(dict.fromkeys(runs for runs in found if isinstance(runs, str)))


def is_artifact_name(name: str) -> bool:
    """Whether a task may keep a text at this path in the trial's folder: below a folder, so over
    none of our files."""
    parts = PurePosixPath(name).parts
    plain = name.isprintable() and not any(part.startswith((".", "/")) for part in parts)
    return plain and len(parts) > 1 and parts[0] not in OTHER_FOLDERS


def statistics_name(set_name: str) -> str:
    """The path in the trial's folder."""
    return f"statistics/{set_name}.jsonl"


def statistics_text(head: dict[str, Any], samples: Iterable[dict[str, Any]]) -> str:
    """The head with the scores in the first line, then each sample's part of them, in the set's
    order."""
    return "".join(to_json(line) + "\n" for line in (head, *samples))


def scores_form(card: Card) -> Form:
    """What one set's scores must hold. A metric is None where it was not finite."""
    return {"decode": dict} | dict.fromkeys((metric.name for metric in card.metrics), float | None)
