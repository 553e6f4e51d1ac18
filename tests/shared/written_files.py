"""The files that a document tells its reader to write or edit."""

import re
from pathlib import Path

WRITTEN = re.compile(
    r"(?:[Ww]rite|[Ee]dit) `(conf/[^`]+|\w+\.py)`[^\n]*\n\n```(?:yaml|python)\n(.*?)```", re.DOTALL
)
"""A file's path and its content."""
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "your-own.md"


def write_files(document: Path, folder: Path) -> Path:
    """Write them there."""
    for path, content in WRITTEN.findall(document.read_text("utf-8")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, "utf-8")
    return folder
