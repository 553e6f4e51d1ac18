"""`lock.json`, written before a study's first result, and how the study deviates from it."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracking.card import Metric
from tracking.files import DamagedFileError, Form, read_object, unless_damaged, write_atomic
from tracking.statistics.references import with_names
from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.table_row import BASE
from tracking.study import Study, seconds
from tracking.uri import without_password
from tracking.words import cell_text, grouped, listed, row_and_seed, trial_name

LOCK_FILE = "lock.json"
TRIAL: Form = {"row": str, "seed": int, "key": str}
RULE: Form = {"version": int, "negligible": float, "agrees_within": float | None, "text": str}
TESTS: Form = {
    "reference": str,
    "level": float,
    "paired": bool,
    "margins": {...: float},
    "rules": {...: RULE},
}
FORM: Form = {
    "ts": str,
    "digest": str,
    "settings": dict,
    "rows": {...: dict},
    "trials": [TRIAL],
    "metrics": {...: [str]},
    "tests": TESTS,
}
SHOWN_DIGITS = 12
"""Digits of the digest in a caption, of 64."""
MOST_NAMED = 4
"""Missing trials that a sentence names."""
WORDS_OF_TESTS = {
    "level": "level of the tests",
    "paired": "sweep.paired",
    "margins": "sweep.margin",
    "references": "sweep.references",
}
FOLLOWS = "Follows"
"""The first word of ``lock_line`` if the study follows its lock."""
EDITED = f"{LOCK_FILE} was edited after it was written: its digest is not that of its content."


@dataclass(frozen=True)
class Lock:
    """``settings`` are base's by dotted key, ``rows`` each row's settings that differ from base's.
    ``metrics`` are by set. ``tests`` say how differences are tested, and when a row agrees with the
    published one."""

    ts: str  # UTC
    settings: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    trials: list[dict[str, Any]]  # {"row", "seed", "key"}
    metrics: dict[str, list[str]]
    tests: dict[str, Any]
    digest: str = ""  # as the file states it

    @property
    def name(self) -> str:
        """Such as "lock of 2026-11-26 21:03 UTC, digest 0123456789ab"."""
        moment = datetime.fromtimestamp(seconds(self.ts) or 0.0, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"lock of {moment}, digest {self.digest[:SHOWN_DIGITS]}"

    @property
    def keys(self) -> dict[tuple[str, int], str]:
        """The trial key of each row and seed."""
        return {(trial["row"], trial["seed"]): trial["key"] for trial in self.trials}

    def content_digest(self) -> str:
        """SHA-256 (64 hex digits) of all fields but ``digest``."""
        content = {name: value for name, value in asdict(self).items() if name != "digest"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class Output:
    """What a command shows: trials of ``study``, and metrics compared with ``reference``."""

    study: Study
    metrics: Sequence[Metric]
    reference: str = BASE


def lock_of(study: Study, keys: Collection[str], metrics: Mapping[str, list[str]]) -> Lock:
    """The lock of a study as it is now, with the settings of these ``keys`` and the names of
    metrics by set."""
    settings, rows = _settings(study)
    names: dict[str, None] = {}
    for names_of_set in metrics.values():
        names |= dict.fromkeys(names_of_set)
    lock = Lock(
        ts=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=_only(settings, keys),
        rows={row: _only(values, keys) for row, values in rows.items()},
        trials=[{"row": trial.row, "seed": trial.seed, "key": trial.key} for trial in study.trials],
        metrics=dict(metrics),
        tests=_tests(study, names),
    )
    return replace(lock, digest=lock.content_digest())


def write_lock(folder: Path, lock: Lock) -> None:
    """Write `lock.json` atomically."""
    write_atomic(folder / LOCK_FILE, json.dumps(asdict(lock), indent=1, ensure_ascii=False) + "\n")


def read_lock(folder: Path) -> Lock | None:
    """The lock of the study in ``folder``; None without one. Raises DamagedFileError."""
    content = read_object(folder / LOCK_FILE, FORM)
    return None if content is None else Lock(**{name: content[name] for name in FORM})


def lock_line(study: Study, output: Output | None = None) -> str:
    """Whether the study, and an output of it, follow its lock, and which trials are missing. ""
    without a lock."""
    try:
        lock = read_lock(study.folder)
    except DamagedFileError as error:
        doubt = f"{error.note}; nobody can tell whether the study follows its lock."
        return f"{doubt} To mend it: {error.remedy}."
    if lock is None:
        return ""
    sentences = [*deviations(lock, study), *_output_deviations(lock, study, output)]
    verb = "Deviates from" if sentences else FOLLOWS
    sentences.insert(0, f"{verb} its {lock.name}.")
    return " ".join([*sentences, *_missing(lock, study)])


def deviations(lock: Lock, study: Study) -> Iterator[str]:
    """A sentence for each way in which the study deviates from the lock."""
    if lock.digest != lock.content_digest():
        yield EDITED
    renamed = _renamed_rows(lock, study)
    if renamed:
        changes = [f"{row} is {name} now" for row, name in renamed.items()]
        yield f"Rows renamed: {listed(changes)}."
    lock = _with_names(lock, renamed)
    yield from _trial_deviations(lock, study, renamed)
    yield from _setting_deviations(lock, study)
    yield from _test_deviations(lock, study)


def _trial_deviations(lock: Lock, study: Study, renamed: Mapping[str, str]) -> Iterator[str]:
    """Rows and seeds that were added or dropped. ``renamed``: today's names of renamed rows."""
    locked = lock.keys
    today = {(trial.row, trial.seed) for trial in study.trials}
    added = [pair for pair in today if pair not in locked]
    added_rows = {row for row, _ in added if row not in lock.rows}
    yield from _pair_sentences("added", added, added_rows)
    dropped_names = _dropped_names(study, renamed)
    dropped = [pair for pair in locked if pair not in today and trial_name(*pair) in dropped_names]
    dropped_rows = {row for row, _ in dropped} - {row for row, _ in today}
    yield from _pair_sentences("dropped", dropped, dropped_rows)


def _pair_sentences(
    verb: str, pairs: Collection[tuple[str, int]], complete_rows: Collection[str]
) -> Iterator[str]:
    """Sentences on rows and seeds. Of the complete rows, they leave out the seeds."""
    if complete_rows:
        yield f"Rows {verb}: {listed(sorted(complete_rows))}."
    seeds = sorted(pair for pair in pairs if pair[0] not in complete_rows)
    if seeds:
        yield f"Seeds {verb}: {_seed_words(seeds)}."


def _dropped_names(study: Study, renamed: Mapping[str, str]) -> set[str]:
    """All trials that were ever dropped, with today's names of their rows."""
    names = set()
    for command in study.asked:
        for name in command.get("dropped", ()):
            row, seed = row_and_seed(name)
            names.add(trial_name(renamed.get(row, row), seed))
    return names


def _setting_deviations(lock: Lock, study: Study) -> Iterator[str]:
    """Changed values, then trials whose key has changed although none of their settings has."""
    rows_of_change = _changed_settings(lock, study)
    if rows_of_change:
        changes = [
            f"{change} ({_row_words(rows, lock)})" for change, rows in rows_of_change.items()
        ]
        yield f"Settings changed: {'; '.join(changes)}."
    changed_rows = {row for rows in rows_of_change.values() for row in rows}
    locked_keys = lock.keys
    unexplained = []
    for trial in study.trials:
        locked_key = locked_keys.get((trial.row, trial.seed), trial.key)
        if locked_key != trial.key and trial.row not in changed_rows:
            unexplained.append(trial.name)
    if unexplained:
        yield f"Trials with other data, or of another version of the task: {listed(unexplained)}."


def _changed_settings(lock: Lock, study: Study) -> dict[str, list[str]]:
    """The rows of each change, such as "model.d 64, now 32"."""
    settings, rows = _settings(study)
    rows_of_change: dict[str, list[str]] = {}
    for row, values in lock.rows.items():
        if row not in rows:
            continue
        today = {**settings, **rows[row]}
        for key, locked in {**lock.settings, **values}.items():
            if key in today and today[key] != locked:
                change = f"{key} {_value_words(locked)}, now {_value_words(today[key])}"
                rows_of_change.setdefault(change, []).append(row)
    return rows_of_change


def _test_deviations(lock: Lock, study: Study) -> Iterator[str]:
    """A changed level, margin or pairing of the tests, or a changed rule for "agrees"."""
    today = _tests(study, lock.tests["rules"])
    changes = []
    for name, words in WORDS_OF_TESTS.items():
        locked = lock.tests.get(name, {})
        value = today.get(name, {})
        if value != locked:
            changes.append(f"{words} {_value_words(locked)}, now {_value_words(value)}")
    if changes:
        yield f"Tests changed: {'; '.join(changes)}."
    changed_metrics = []
    for name, rule in lock.tests["rules"].items():
        rule_today = today["rules"].get(name, {})
        # its text, which people read, may change
        if any(rule_today.get(key) != rule[key] for key in RULE if key != "text"):
            changed_metrics.append(name)
    if changed_metrics:
        metrics = study.task.metrics
        labels = [metric.label for metric in metrics if metric.name in changed_metrics]
        yield f'The rule for "agrees" changed: {listed(labels)}.'


def not_locked(study: Study, metrics: Sequence[Metric]) -> list[str]:
    """The metrics that were not locked, such as "accuracy on dev"; [] without a readable lock."""
    lock = unless_damaged(lambda: read_lock(study.folder), None)
    return [] if lock is None else _not_locked(lock, study, metrics)


def _not_locked(lock: Lock, study: Study, metrics: Sequence[Metric]) -> list[str]:
    """Leaves out the logarithm of a locked metric, which says the same: NLL if PPL is locked."""
    logarithms = {metric.name: metric.exp_of for metric in study.task.metrics if metric.exp_of}
    unlocked = []
    for metric in metrics:
        names = lock.metrics.get(metric.set, [])
        locked = {*names, *(logarithms.get(name) for name in names)}
        if metric.name not in locked:
            unlocked.append(metric)
    return [f"{metric.label} on {metric.set}" for metric in unlocked]


def _output_deviations(lock: Lock, study: Study, output: Output | None) -> Iterator[str]:
    """How an output deviates from the lock."""
    if output is None:
        return
    unlocked = _not_locked(lock, study, output.metrics)
    if unlocked:
        yield f"Shown but not locked: {listed(unlocked)}."
    reference = lock.tests["reference"]
    if output.reference != reference:
        yield f"Differences are from {output.reference}, not from {reference}."
    elif lock.tests.get("references") and not output.study.references:
        yield f"Differences are from {reference} alone, not from the locked references."
    visible = {trial.name for trial in output.study.trials}
    hidden = sorted((trial.row, trial.seed) for trial in study.trials if trial.name not in visible)
    if hidden:
        yield f"Seeds left out here: {_seed_words(hidden)}."


def missing_trials(study: Study) -> list[str]:
    """The names of locked trials without a result. [] without a lock, or with a damaged one."""
    lock = unless_damaged(lambda: read_lock(study.folder), None)
    return [] if lock is None else _missing_names(lock, study)


def _missing_names(lock: Lock, study: Study) -> list[str]:
    locked = _with_names(lock, _renamed_rows(lock, study)).keys
    trials = [trial for trial in study.trials if (trial.row, trial.seed) in locked]
    finished = set()
    for standing in study.standings(trials):
        if standing.result is not None:
            finished.add((standing.trial.row, standing.trial.seed))
    return [trial_name(*pair) for pair in locked if pair not in finished]


def _missing(lock: Lock, study: Study) -> Iterator[str]:
    """A sentence if locked trials have no result."""
    missing = _missing_names(lock, study)
    if not missing:
        return
    names = missing[:MOST_NAMED]
    if len(missing) > MOST_NAMED:
        names.append(f"{len(missing) - MOST_NAMED} more")
    verb = "is" if len(missing) == 1 else "are"
    count = f"{len(missing)} of {len(lock.keys)} locked trials"
    advice = "publish no test before they have finished"
    yield f"{count} {verb} missing ({listed(names)}): {advice}."


def _renamed_rows(lock: Lock, study: Study) -> dict[str, str]:
    """Today's name of each renamed row: its trials have the same keys."""
    locked_rows = {key: row for (row, _), key in lock.keys.items()}
    names = {}
    for trial in study.trials:
        if trial.row not in lock.rows and trial.key in locked_rows:
            names[locked_rows[trial.key]] = trial.row
    return names


def _with_names(lock: Lock, renamed: Mapping[str, str]) -> Lock:
    """The lock with today's names of rows."""
    rows = {renamed.get(row, row): values for row, values in lock.rows.items()}
    tests = lock.tests
    if "references" in tests:
        references = with_names(tests["references"], renamed)
        tests = tests | {"references": references}
    trials = [trial | {"row": renamed.get(trial["row"], trial["row"])} for trial in lock.trials]
    return replace(lock, rows=rows, trials=trials, tests=tests)


def _tests(study: Study, metrics: Iterable[str]) -> dict[str, Any]:
    """How the study's table tests differences, and its rule for "agrees" by metric name.

    References are there only if a row has another one than base, as in earlier versions."""
    metrics_by_name = {metric.name: metric for metric in study.task.metrics}
    rules = {name: _rule_of(metrics_by_name[name]) for name in metrics if name in metrics_by_name}
    tests = {
        "reference": BASE,
        "level": ALPHA,
        "paired": study.paired,
        "margins": study.margins,
        "rules": rules,
    }
    return tests | {"references": study.references} if study.references else tests


def _rule_of(metric: Metric) -> dict[str, Any]:
    # NumPy, which a plan doesn't need
    from tracking.statistics.verdict import VERSION_OF_RULE, rule

    numbers = {"negligible": metric.negligible, "agrees_within": metric.agrees_within}
    return {"version": VERSION_OF_RULE, **numbers, "text": rule(metric, BASE)}


def _settings(study: Study) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Base's settings by dotted key, and each row's that differ, as JSON has them."""
    settings = {}
    for group, values in study.settings.items():
        for name, value in values.items():
            settings[f"{group}.{name}"] = value
    rows = {row["row"]: row["values"] for row in study.rows}
    return json.loads(json.dumps(settings)), json.loads(json.dumps(rows))


def _only(values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _seed_words(pairs: Sequence[tuple[str, int]]) -> str:
    """Such as "4, 5 of base; 4 of wide"."""
    seeds_of_row = grouped((row, str(seed)) for row, seed in pairs)
    return "; ".join(f"{', '.join(seeds)} of {row}" for row, seeds in seeds_of_row.items())


def _row_words(names: Sequence[str], lock: Lock) -> str:
    return "every row" if len(names) == len(lock.rows) else listed(names)


def _value_words(value: Any) -> str:
    """A value for a caption, without secrets."""
    if isinstance(value, dict):
        parts = [f"{name} {_part_words(part)}" for name, part in value.items()]
        return ", ".join(parts) or "none"
    return without_password(cell_text(value))


def _part_words(part: Any) -> str:
    return f"with {part}" if isinstance(part, str) else f"{part:g}"
