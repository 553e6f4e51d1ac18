"""The example tasks, copied to another folder as a user has them."""

import shutil
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def copied(name: str, folder: Path) -> Path:
    """``examples/NAME`` without what Python left there, in this folder."""
    shutil.copytree(
        EXAMPLES / name, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    return folder
