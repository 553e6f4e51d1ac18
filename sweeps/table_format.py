"""The formats that `ablate table` prints."""

from enum import StrEnum


class Format(StrEnum):
    """The formats that `ablate table` prints."""

    md = "md"
    csv = "csv"
    json = "json"
    tex = "tex"
    html = "html"
