"""The metrics as YAML for ``conf/task/NAME.yaml``: likely results, and the others as comments."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, count

import yaml

from sweeps.verbs.probe.listing import ListedMetric, by_name

MOST = 30
"""Metrics of a block. A command that writes hundreds has its results among the first."""
UNDECIDED = "up or down?"
PLAIN = re.compile(r"[A-Za-z_][\w-]*")


def pasted(metrics: Sequence[ListedMetric]) -> str:
    """The block ``metrics:``, ready to paste, with the best source of each name.

    "" if there is no metric below {out} and on standard output."""
    usable = [metric for metric in metrics if _is_usable(metric)]
    if not usable:
        return ""
    has_measured = any(metric.is_measured for metric in usable)
    lines = ["metrics:"]
    taken = set[str]()
    for metric in [sources[0] for sources in by_name(usable)][:MOST]:
        key = _free_key(metric.name, taken)
        taken.add(key)
        fields = ", ".join(_fields(metric, key))
        is_training_loss = has_measured and metric.name.lower() == "loss"
        mark = "" if metric.is_result and not is_training_loss else "# "
        lines.append(f"  {mark}{_text(key)}: {{{fields}}}")
    return "\n".join([*lines, ""])


def _free_key(name: str, taken: Collection[str]) -> str:
    """The metric's name without slashes; with a number if another metric has that key."""
    plain = name.replace("/", "_")
    keys = chain([plain], (f"{plain}_{number}" for number in count(2)))
    return next(key for key in keys if key not in taken)


def _is_usable(metric: ListedMetric) -> bool:
    return not (metric.is_loose or metric.is_constant or metric.is_setting)


def _fields(metric: ListedMetric, key: str) -> Iterator[str]:
    yield f"better: {metric.better or UNDECIDED}"
    if metric.set:
        yield f"set: {metric.set}"
    if key != metric.name:
        yield f"point: {_text(metric.name)}"
    yield f"source: {_text(metric.source)}"


def _text(text: str) -> str:
    """As YAML has it within braces: in quotes, unless it is a plain name."""
    is_plain = PLAIN.fullmatch(text.replace(".", "_").replace("/", "_"))
    is_text = is_plain and yaml.safe_load(text) == text
    return text if is_text else json.dumps(text, ensure_ascii=False)
