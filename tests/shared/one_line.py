"""What a sweep prints that a fault has ended: one line of ours, and nothing of Ray's own."""

import re

RAW = re.compile(
    r"Traceback|\.cc:\d+|\*\*\* SIG|^\((raylet|gcs_server|autoscaler|pid=)|^\[\d{4}-\d\d-\d\d", re.MULTILINE
)


def only_line(output: str, words: str) -> str:
    """The only line with these words."""
    raw = RAW.search(output)
    assert raw is None, f"{raw and raw[0]} in:\n{output}"
    (line,) = [text for text in output.splitlines() if words in text]
    return line
