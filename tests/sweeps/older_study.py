"""The study of an older version, copied to where a test may work on it."""

import json
import shutil
from pathlib import Path
from typing import Any

OLDER = Path(__file__).parents[1] / "older_studies"
NAME = "sweep.name=files-small"


def copied(folder: Path, version: str = "0.1.0") -> Path:
    """The project folder of the study, with text, prepared data and runs."""
    return Path(shutil.copytree(OLDER / version, folder / "moved here" / version))


def frozen_keys() -> dict[str, dict[str, dict[str, str]]]:
    """Trial keys by corpus, scale and row."""
    keys: dict[str, dict[str, dict[str, str]]] = json.loads((OLDER / "keys.json").read_text("utf-8"))
    return keys


def corpus_words(data: str) -> list[str]:
    """The overrides that name a corpus of ``frozen_keys``."""
    text = OLDER / "0.1.0" / "text"
    files = [f"data.{split}=['{text}/{split}.en','{text}/{split}.de']" for split in ("train", "dev", "test")]
    return [f"data={data}", *(files if data == "files" else [])]


def result_of(folder: Path, trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "runs/files-small" / trial / "result.json").read_text("utf-8"))
    return content
