"""Results that take seconds to compute, kept in the study's folder under a fingerprint of their inputs.

They follow from other files: a missing, damaged or outdated file only means that they are computed again.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from tracking.damage import unless_damaged
from tracking.files import read_object, to_json, write_atomic

FOLDER = ".computed"
Result = TypeVar("Result")


def fingerprint(inputs: Any) -> str:
    """SHA-256 of the inputs, which are plain data."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def kept(study: Path, name: str, inputs: str, compute: Callable[[], Result]) -> Result:
    """The result called ``name`` if it was computed from these inputs, otherwise computed now.

    The result must be plain data. Where the folder cannot be written, it is computed each time.
    """
    path = study / FOLDER / f"{quote(name, safe=' @')}.json"
    content = unless_damaged(lambda: read_object(path), None) or {}
    if content.get("inputs") == inputs and "result" in content:
        found: Result = content["result"]
        return found
    result = compute()
    with suppress(OSError):
        write_atomic(path, to_json({"inputs": inputs, "result": result}) + "\n")
    return result
