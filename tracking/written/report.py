"""``allelse.report``, for a training program that writes its metrics nowhere else."""

import json
import os
from typing import SupportsFloat

REPORT_VARIABLE = "ALLELSE_REPORT"
"""The environment variable with the file of the reports."""


def report(*, step: int | None = None, **metrics: SupportsFloat) -> None:
    """Report metrics at a step: ``report(step=100, loss=0.31, accuracy=0.9)``.

    Call it from any training program. In a trial of a command, the numbers enter the trial's
    journal; anywhere else, the call does nothing. Workers other than rank zero (torchrun's ``RANK``)
    report nothing. A value may also be a tensor or an array of one number. Raises TypeError and
    ValueError in a trial for a value that isn't a number, and OSError if the file can't be written.
    """
    path = os.environ.get(REPORT_VARIABLE)
    if not path or os.environ.get("RANK", "0") != "0":
        return
    record: dict[str, float] = {} if step is None else {"step": int(step)}
    for name, value in metrics.items():
        record[name] = float(value)
    line = json.dumps(record) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
