"""What commands changed of a study after its results were visible."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracking.files import unless_damaged
from tracking.study import Study, seconds


def later_note(study: Study) -> str:
    """What was added or dropped after results were visible, such as "Seeds were added twice after
    first results (4, 5, 6): …"; or nothing.

    Adding seeds until a difference is marked marks one too often; so does dropping trials. Commands
    count in the order of `study.json`. Seeds of a new row are not added ones, and neither are
    planned seeds that finish later.
    """
    additions = list[list[int]]()
    drops = 0
    earlier_rows = set[str]()
    has_results = False
    for command in study.asked:
        names = command.get("added", ())
        new_trials = [trial for trial in study.trials if trial.name in names]
        seeds = sorted({trial.seed for trial in new_trials if trial.row in earlier_rows})
        earlier_rows |= {trial.row for trial in new_trials}
        has_results = has_results or _saw_results(study, command)
        if has_results and seeds:
            additions.append(seeds)
        if has_results and command.get("dropped"):
            drops += 1
    notes = []
    if additions:
        numbers = dict.fromkeys(str(seed) for seeds in additions for seed in seeds)
        added = f"Seeds were added {_often(len(additions))} after first results"
        notes.append(f"{added} ({', '.join(numbers)}): p values assume a fixed number.")
    if drops:
        dropped = f"Trials were dropped {_often(drops)} after first results"
        notes.append(f"{dropped}: p values do not account for that.")
    return " ".join(notes)


def _saw_results(study: Study, command: Mapping[str, Any]) -> bool:
    """Whether there were results when the command was recorded. Older versions did not record that;
    for their commands, clocks decide."""
    if "saw_results" in command:
        return bool(command["saw_results"])
    time = seconds(command["ts"]) or 0.0
    return any(time > end for end in _end_times(study))


def _end_times(study: Study) -> Iterator[float]:
    """When trials finished, in Unix seconds."""
    for trial in study.trials:
        for attempt in unless_damaged(study.trial_folder(trial).attempts.all, []):
            if attempt.ended is not None and attempt.reason == "finished":
                yield attempt.ended


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")
