"""Two trainings of one trial compared: the bits of the last checkpoint, the reports, the scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.planning.source_trial import Source, all_checkpoints
from sweeps.worker.checkpoint_files import Manifest
from tracking.journal import JournalLine
from tracking.trial import TrialFolder

OF_THE_CLOCK = ("system/", "per_s", "seconds", "memory", "speed", "tflops", "mfu")
"""Parts of the names of metrics that differ from one training to the next."""


def have_same_weights(before: Source, now: TrialFolder) -> bool:
    """Whether the checkpoints of the last step hold the same bits: outline, and SHA-256 of each file."""
    first = _last_manifest(before.folder, before.checkpoints, before.trial.key, before.step)
    second = _last_manifest(now, now.checkpoints_url(None), before.trial.key, before.step)
    if first is None or second is None:
        return False
    return (first.outline, first.files) == (second.outline, second.files)


def _last_manifest(folder: TrialFolder, url: str, key: str, step: int) -> Manifest | None:
    checkpoints = all_checkpoints(folder, url, key)
    for place in checkpoints.finished():
        if place.step == step:
            return checkpoints.files.manifest(f"{checkpoints.root}/{place}")
    return None


def where_they_part(before: Sequence[JournalLine], now: Sequence[JournalLine]) -> str:
    """The first step at which a report differs, such as "the reports part at step 3: train/loss 2.0, was 3.0"."""
    recorded = {line.step: line.metrics for line in before}
    for line in now:
        if line.step not in recorded:
            continue
        for name, value in line.metrics.items():
            old = recorded[line.step].get(name)
            if old is not None and value != old and not _is_of_the_clock(name):
                return f"the reports part at step {line.step}: {name} {value:g}, was {old:g}"
    return "all reports agree, but the weights of the last step differ"


def _is_of_the_clock(name: str) -> bool:
    return any(part in name.lower() for part in OF_THE_CLOCK)


def have_same_scores(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether all sets that were scored with the same settings have the same scores, and there are some."""
    pairs = [
        (scores, now["scores"][name])
        for name, scores in before["scores"].items()
        if name in now["scores"] and scores["decode"] == now["scores"][name]["decode"]
    ]
    return bool(pairs) and all(old == new for old, new in pairs)
