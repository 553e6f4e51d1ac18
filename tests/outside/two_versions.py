"""``make outside OLD=PATH``: an older installation and this one, on one machine; prints what differs.

PATH is the older program, or a checkout in whose ``.venv`` it is installed.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cases import SWEEP, TYPED, WEIGHT_ROWS, WEIGHTS
from installation import THIS, Installation


def observed(program: Path, folder: Path) -> Iterator[tuple[str, Any]]:
    """Every observation by its name: files, MLflow, commands, weights.

    Folders: one with two rows of Table 3 and two seeds each, one with the task of ``init``, one for weights.
    """
    places = {name: Installation(program, folder / name) for name in ("small", "own", "weights")}
    places["small"].must(SWEEP)
    places["own"].must("init mine")
    places["own"].must("sweep task=mine")
    for place, study in (("small", "small"), ("own", "mine-full")):
        yield f"files of {study}", places[place].study(study)
        yield f"runs of {study}", places[place].runs(study)
    for place, cases in TYPED:
        yield from ((f"{case.words} {case.content}".strip(), places[place].observe(case)) for case in cases)
    for study, words in WEIGHTS.items():
        places["weights"].must(words)
        yield from ((f"weights of {study} {row}", places["weights"].weights(study, row)) for row in WEIGHT_ROWS)


def differences(name: str, old: Any, new: Any) -> Iterator[str]:
    """Each value that differs, with the path to it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from differences(f"{name} > {key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(f"{name} > {place}", *pair)
    elif old != new:
        yield f"{name}: {json.dumps(old)[:200]} -> {json.dumps(new)[:200]}"


def main(path: Path) -> int:
    """The exit code: 1 if anything differs, for a person to judge."""
    older = path / ".venv/bin/allelse" if path.is_dir() else path
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor() as both:
        folders = (Path(place).resolve() / name for name in ("old", "new"))
        old, new = both.map(lambda *version: dict(observed(*version)), (older.absolute(), THIS), folders)
    found = [line for name in {**old, **new} for line in differences(name, old.get(name), new.get(name))]
    print(*found, f"{len(new)} observations, {len(found)} differences", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
