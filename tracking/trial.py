"""A trial's folder: its attempts, journal, result and texts; and what each of its files must hold.

Only the process of the sweep (or of `train`) writes here. Others may read at any moment.
"""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any, Literal

from tracking.attempts import AttemptRecord, Attempts, Lineage, Process
from tracking.card import COSTS, DEVICE_COSTS, Card
from tracking.files import (
    DamagedFileError,
    Form,
    Reader,
    misfit,
    read_object,
    read_whole,
    read_yaml,
    readable_texts,
    set_aside,
    to_json,
    unless_damaged,
    unless_lost,
    write_atomic,
)
from tracking.json_lines.journal import Journal, JournalLine, journal_line
from tracking.json_lines.lines import NEWEST, Lines, append_line, replace_last_line
from tracking.json_lines.packed_file import sample_count, unpacked
from tracking.provenance import Provenance, SourceTrial, with_scoring
from tracking.uri import without_password
from tracking.weights import WEIGHTS

CONFIG: Form = {
    "key": str,
    "data_fingerprint": str,
    "paths": {"runs": str, "data": str, "checkpoints": str | None},
}
RESULT: Form = {
    "key": str,
    "seed": int,
    "attempt": int,
    "step": int,
    "steps": int | None,
    "diverged": int | None,
    **dict.fromkeys((*COSTS, *DEVICE_COSTS), float | None),
    "sustained": (NoneType, {"source": str}),
    WEIGHTS: dict | None,
}
HEAD: Form = {"key": str, "step": int}
"""What the files must have in addition to the task's groups and metrics. ``HEAD``: the first line
of a set's statistics."""
EXCERPT: Form = {"place": int, "text": str}
"""A line of an artifact in a published study, which keeps only some lines."""
PICTURES = "pictures"
"""The folder of a trial whose SVG files the report and MLflow show."""
OTHER_FOLDERS = ("checkpoints", "statistics")
"""Folders of a trial that hold no artifacts."""
TrialState = Literal[
    "missing", "interrupted", "running", "failed", "finished", "to score again", "damaged"
]


class TrialFolder:
    """`<study>/<row>-s<seed>`; the first write creates it. ``card`` describes the task of its
    study, which decides what the files must hold.

    Methods that read a file raise DamagedFileError if the file is unusable, or UnreadableError."""

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
        """The folder of its checkpoints. ``elsewhere`` is ``paths.checkpoints``: any fsspec URL."""
        if elsewhere:
            return f"{elsewhere}/{self.path.parent.name}/{self.path.name}"
        return str(self.path / "checkpoints")

    def artifact_path(self, artifact: str, set_name: str) -> Path:
        return self.path / artifact / f"{set_name}.txt"

    def artifact_lines(self, artifact: str, set_name: str) -> dict[int, str]:
        """By the place of the sample, from 1. Only a line feed ends a line.

        A published study has some of the lines, and a trial without the file has none."""
        path = self.artifact_path(artifact, set_name)
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            return dict(enumerate(text.split("\n")[:-1], 1))
        excerpt = unless_damaged(Lines(path.with_suffix(".jsonl"), EXCERPT).good, [])
        return {line["place"]: line["text"] for line in excerpt}

    def pictures(self) -> dict[str, str]:
        """The SVG files that its work wrote to ``pictures/``, by path."""
        return readable_texts(self.path, f"{PICTURES}/*.svg")

    def statistics_path(self, set_name: str) -> Path:
        return self.path / statistics_name(set_name)

    def lineage(self, codes: Sequence[str] = ()) -> Lineage | None:
        """The lineage of its attempts; None before the first. ``codes`` are those of its study."""
        attempts = self.attempts.all()
        names = [attempt.lineage for attempt in attempts] or self._checkpoint_lineages()
        if not names:
            return None
        runs = {attempt.number: attempt.run for attempt in attempts}
        return Lineage(names[-1], runs, codes)

    def _checkpoint_lineages(self) -> list[str]:
        """From the names of checkpoint folders, which outlive a lost record of attempts."""
        folders = [path for path in self.path.glob("checkpoints/*") if path.is_dir()]
        return sorted(folder.name.partition("-")[2] for folder in folders)

    def begin_attempt(
        self, number: int, process: Process, lineage: str = "", run: str = ""
    ) -> None:
        """Begin attempt ``number``.

        Records it before it removes the last error, so that a crash loses neither.
        """
        self.attempts.begin(number, process, lineage, run)
        self.error_path.unlink(missing_ok=True)

    def source(self) -> SourceTrial | None:
        """The trial of another study that it was taken from; None if it was trained here, or if the
        file is damaged."""
        return unless_damaged(self.attempts.source, None)

    def newest_attempt(self) -> AttemptRecord | None:
        """The last attempt; None without one, or if the file is damaged."""
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
        """Append to the journal, with fsync if ``synced``. Returns False and writes nothing if the
        report is fenced.

        Reports are fenced if a newer attempt exists, if the journal is past their step, or if an
        earlier attempt reported the step and finished. Reports of one step share one line, which
        has the latest value of each metric.
        """
        newest = self.attempts.newest()
        last = Journal(self.journal_path, NEWEST).newest
        if newest is None or newest.number != attempt:
            return False
        if last and self._is_past(last, attempt, step):
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

    def _is_past(self, last: JournalLine, attempt: int, step: int) -> bool:
        """Whether the journal, with this last line, can't take another report of the step."""
        if last.step != step:
            return last.step > step
        return last.attempt != attempt and self.result() is not None

    def journal(self) -> list[JournalLine]:
        """Every report, steps strictly increasing.

        ``Journal`` parses only those that you ask for.
        """
        return list(Journal(self.journal_path))

    def write_artifact(self, name: str, text: str) -> None:
        """Write a text at this path in the folder. Sets damaged statistics aside."""
        path = self.path / name
        folder = self.path / "statistics"
        if path.is_relative_to(folder):
            set_name = str(path.relative_to(folder).with_suffix(""))
            statistics = unless_lost(partial(self.statistics, set_name), None)
            if statistics is None and path.exists():
                set_aside(path)
        write_atomic(path, text)

    def statistics(self, set_name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """A set's head and samples, as in ``statistics_text``; None without a file."""
        lines = self._samples(set_name)
        return None if lines is None else unpacked(lines)

    def evaluated(self) -> dict[str, dict[str, Any]]:
        """The evaluated sets with the first line of their statistics. Without a set whose artifacts
        are missing or whose file is damaged, so that it is evaluated again."""
        heads = {}
        for name in self._statistics_names():
            if not self._has_artifacts(name):
                continue
            lines = unless_damaged(partial(self._samples, name), None)
            if lines is not None:
                heads[name] = lines[0]
        return heads

    def scored_heads(
        self, key: str, step: int, settings: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """The heads of ``evaluated`` for the weights of this key and step, with these settings."""
        heads = {}
        for name, head in self.evaluated().items():
            weights = (head["key"], head["step"])
            if weights == (key, step) and head["scores"]["decode"] == settings:
                heads[name] = head
        return heads

    def write_result(self, result: dict[str, Any]) -> None:
        """Write `result.json`; a number that is not finite becomes null."""
        write_atomic(self.result_path, to_json(result) + "\n")

    def result(self) -> dict[str, Any] | None:
        """The content of ``write_result``; None without a file."""
        return read_object(self.result_path, RESULT | {"scores": {...: scores_form(self.card)}})

    def samples_of(self, set_name: str) -> int | None:
        """How many samples of this set have scores; None if their file is missing."""
        lines = unless_damaged(lambda: Lines(self.statistics_path(set_name)), None)
        if lines is None or lines.is_missing:
            return None
        return unless_damaged(partial(sample_count, lines), 0)

    def finished_result(self, key: str) -> dict[str, Any] | None:
        """The finished trial's result if it has this key; None also if it is damaged."""
        result = unless_damaged(self.result, None)
        if result is None or result["key"] != key:
            return None
        return result

    def config(self) -> dict[str, Any] | None:
        """``config.yaml``; None without it."""
        config: dict[str, Any] | None = read_yaml(self.config_path)
        if config is None and not self.config_path.exists():
            return None
        fault = misfit(config, CONFIG | dict.fromkeys(self.card.groups, dict))
        if fault:
            raise DamagedFileError(self.config_path, fault)
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
        """Record the process that scored this set outside of an attempt."""
        content = with_scoring(self.provenance(), process, on)
        write_atomic(self.provenance_path, to_json({"commit": None} | content) + "\n")

    def write_error(self, text: str) -> None:
        write_atomic(self.error_path, without_password(text))

    def write_loss(self, attempt: int, text: str) -> None:
        """Why this attempt lost its workers, with a dead worker's last lines.

        The trial may still finish.
        """
        write_atomic(self.path / f"lost-a{attempt}.txt", without_password(text))

    def error(self) -> str | None:
        """Why the trial failed; None if it did not."""
        content = read_whole(self.error_path)
        if content is None:
            return None
        return without_password(content.decode("utf-8", errors="replace"))

    def cause(self) -> str | None:
        """The first line of ``error``."""
        error = unless_damaged(self.error, None)
        if error is None:
            return None
        return next(iter(error.strip().splitlines()), "no cause was written")

    def state(self, key: str | None = None) -> TrialState:
        """The trial's state. With `key`, a result of a different key doesn't count as finished.

        A damaged trial can't resume before a repair; ``damage`` names the files.
        """
        return self.standing(key)[0]

    def standing(self, key: str | None = None) -> tuple[TrialState, dict[str, Any] | None]:
        """The state, and a finished trial's result: from one read, since it may finish now."""
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
        read(self.result)
        read(self.attempts.all)
        read(self.journal)
        read(self.newest_report)
        read(self.config)
        read(self.provenance)
        read(self.error)
        for name in self._statistics_names():
            read(partial(self.statistics, name))
        return list(read.faults.values())

    def newest_report(self) -> JournalLine | None:
        """The last report, read from the journal's end."""
        newest = Journal(self.journal_path, NEWEST).newest
        if newest is not None and not self.attempts.all():  # an attempt precedes its reports
            cause = "is empty" if self.attempts_path.exists() else "is missing"
            raise DamagedFileError(self.attempts_path, f"{cause}, but journal.jsonl has reports")
        return newest

    def _statistics_names(self) -> list[str]:
        root = self.path / "statistics"
        paths = set(root.rglob("*.jsonl"))
        paths |= {path.with_suffix("") for path in root.rglob("*.jsonl.gz")}
        return [str(path.relative_to(root).with_suffix("")) for path in sorted(paths)]

    def _samples(self, set_name: str) -> Lines | None:
        """A set's statistics as lines, with a checked head; None without a file."""
        lines = Lines(self.statistics_path(set_name))
        if lines.torn:
            raise DamagedFileError(lines.path, "its last line is cut off")
        if not lines:
            if lines.path.exists():
                raise DamagedFileError(lines.path, "is empty")
            return None
        fault = misfit(lines[0], HEAD | {"scores": scores_form(self.card)})
        if fault:
            raise DamagedFileError(lines.path, fault, 1)
        return lines

    def _has_artifacts(self, set_name: str) -> bool:
        """``set_name`` may end in settings, such as dev@beam8."""
        if set_name.partition("@")[0] in self.card.sets_without_artifacts:
            return True
        return all(
            self.artifact_path(artifact, set_name).is_file() for artifact in self.card.artifacts
        )


def is_artifact_name(name: str) -> bool:
    """Whether a task may keep a text at this path: in a folder, so that our files are safe."""
    parts = PurePosixPath(name).parts
    is_plain = name.isprintable() and not any(part.startswith((".", "/")) for part in parts)
    return is_plain and len(parts) > 1 and parts[0] not in OTHER_FOLDERS


def statistics_name(set_name: str) -> str:
    """The path in the trial's folder."""
    return f"statistics/{set_name}.jsonl"


def statistics_text(head: dict[str, Any], samples: Iterable[dict[str, Any]]) -> str:
    """The head with the scores as first line, then a line per sample in the set's order."""
    return "".join(to_json(line) + "\n" for line in (head, *samples))


def scores_form(card: Card) -> Form:
    """What one set's scores must hold. A metric is None if it was not finite."""
    return {"decode": dict} | dict.fromkeys((metric.name for metric in card.metrics), float | None)
