"""Compares two trainings of one trial: the bits of the last checkpoint, the reports, and the
scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.checkpoints.manifest import Manifest
from sweeps.planning.source_trial import Source, all_checkpoints
from tracking.json_lines.journal import JournalLine
from tracking.trial import TrialFolder

TIMING_PARTS = ("system/", "per_s", "seconds", "memory", "speed", "tflops", "mfu")
"""Metrics with one of these in their names measure time or memory, and differ in every training."""


def have_same_weights(source: Source, retrained: TrialFolder) -> bool:
    """Whether the checkpoints of the last step hold the same bits: equal outlines, and equal
    SHA-256 of each file."""
    key = source.trial.key
    recorded = _manifest_at(source.step, source.folder, source.checkpoints, key)
    today = _manifest_at(source.step, retrained, retrained.checkpoints_url(None), key)
    if recorded is None or today is None:
        return False
    return recorded.outline == today.outline and recorded.files == today.files


def _manifest_at(step: int, folder: TrialFolder, url: str, key: str) -> Manifest | None:
    """The manifest of the trial's checkpoint at ``step``; None if there is none."""
    checkpoints = all_checkpoints(folder, url, key)
    for checkpoint in checkpoints.finished():
        if checkpoint.step == step:
            return checkpoints.files.manifest(checkpoints.folder(checkpoint))
    return None


def first_difference(recorded: Sequence[JournalLine], retrained: Sequence[JournalLine]) -> str:
    """The first step whose reports differ: "the reports first differ at step 3: train/loss 2.0, was
    3.0"."""
    recorded_metrics = {line.step: line.metrics for line in recorded}
    for line in retrained:
        recorded_values = recorded_metrics.get(line.step, {})
        for name, value in line.metrics.items():
            recorded_value = recorded_values.get(name)
            if recorded_value is None or _is_timing(name):
                continue
            if value != recorded_value:
                change = f"{name} {value:g}, was {recorded_value:g}"
                return f"the reports first differ at step {line.step}: {change}"
    return "all reports agree, but the weights of the last step differ"


def _is_timing(metric: str) -> bool:
    return any(part in metric.lower() for part in TIMING_PARTS)


def have_same_scores(recorded: Mapping[str, Any], retrained: Mapping[str, Any]) -> bool:
    """Whether at least one set was scored with the same settings in both results, and all such sets
    agree."""
    has_common_set = False
    for set_name, scores in recorded["scores"].items():
        retrained_scores = retrained["scores"].get(set_name)
        if retrained_scores is None or retrained_scores["decode"] != scores["decode"]:
            continue
        if retrained_scores != scores:
            return False
        has_common_set = True
    return has_common_set
