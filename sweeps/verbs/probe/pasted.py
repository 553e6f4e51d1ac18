"""The metrics as YAML for ``conf/task/NAME.yaml``: likely results, and the others as comments."""

import json
import re
from collections.abc import Iterator, Sequence

import yaml

from sweeps.verbs.probe.listing import ListedMetric

MOST = 30
"""Metrics of a block. A command that writes hundreds has its results among the first."""
UNDECIDED = "up or down?"
PLAIN = re.compile(r"[A-Za-z_][\w-]*")


def pasted(metrics: Sequence[ListedMetric]) -> str:
    """The block ``metrics:``, ready to paste. A name that several sources have is active once.

    "" if there is no metric below {out} and on standard output."""
    usable = [metric for metric in metrics if not metric.is_loose and not metric.is_constant]
    if not usable:
        return ""
    lines = ["metrics:"]
    keys: set[str] = set()
    for metric in usable[:MOST]:
        key = metric.name.replace("/", "_")
        fields = ", ".join(_fields(metric, key))
        is_active = metric.is_result and key not in keys
        if is_active:
            keys.add(key)
        mark = "" if is_active else "# "
        lines.append(f"  {mark}{_text(key)}: {{{fields}}}")
    return "\n".join([*lines, ""])


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
