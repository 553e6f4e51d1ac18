"""``make outside OLD=PATH``: an older installation and this one, on one machine; prints what
differs.

PATH is the older program, or a checkout in whose ``.venv`` it is installed.
"""

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cases import ACCEPTED, SWEEP, TYPED, WEIGHT_ROWS, WEIGHTS
from installation import Installation
from served_commands import PROGRAM

NAMES = ("allelse", "ablate")
"""Of the program, now and before."""
ROUNDING = 1e-14
"""The relative difference of two sums of the same terms in another order."""


def observed(program: Path, folder: Path) -> Iterator[tuple[str, Any]]:
    """Every observation by its name: files, MLflow, commands, weights.

    Folders: an empty one, one with three rows of Table 3 and two seeds each, one with the task of
    ``init``, and one for each study of ``WEIGHTS``: the number of workers is not part of a trial's
    key, so in one folder the second study would copy the first one's trials.
    """
    places = {
        name: Installation(program, folder / name) for name in ("empty", "small", "own", *WEIGHTS)
    }
    places["small"].must(SWEEP)
    places["own"].must("init mine")
    places["own"].must("sweep task=mine")
    for installation, study in (("small", "small"), ("own", "mine-full")):
        yield f"files of {study}", places[installation].study(study)
        yield f"runs of {study}", places[installation].runs(study)
    for installation, cases in TYPED:
        yield from (
            (f"{case.words} {case.content}".strip(), places[installation].observe(case))
            for case in cases
        )
    for study, words in WEIGHTS.items():
        places[study].must(words)
        yield from (
            (f"weights of {study} {row}", places[study].weights(study, row)) for row in WEIGHT_ROWS
        )


def differences(name: str, old: Any, new: Any) -> Iterator[str]:
    """Each value that differs, with the path to it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from differences(f"{name} > {key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(f"{name} > {index}", *pair)
    elif (
        isinstance(old, float)
        and isinstance(new, float)
        and math.isclose(old, new, rel_tol=ROUNDING)
    ):
        return
    elif old != new:
        yield f"{name}: {json.dumps(old)[:200]} -> {json.dumps(new)[:200]}"


def main(path: Path) -> int:
    """The exit code: 1 if something differs that is not accepted."""
    programs = [path / ".venv/bin" / name for name in NAMES] if path.is_dir() else [path]
    older = next(program for program in programs if program.exists())
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        folders = (Path(folder).resolve() / name for name in ("old", "new"))
        old, new = pool.map(
            lambda *version: dict(observed(*version)), (older.absolute(), PROGRAM), folders
        )
    unexpected = 0
    for name in {**old, **new}:
        for line in differences(name, old.get(name), new.get(name)):
            why = next(
                (why for why, path in ACCEPTED.items() if re.search(f"({path})(: | > )", line)), ""
            )
            print(f"accepted, {why}: {line}" if why else f"DIFFERS: {line}")
            unexpected += not why
    print(f"{len(new)} observations, {unexpected} differences that are not accepted")
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
