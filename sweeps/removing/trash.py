"""The trash below a folder of runs: what `drop` and `rm` move there, so that it can be moved back."""

from datetime import UTC, datetime
from pathlib import Path

TRASH = ".trash"
LONGEST = 200  # bytes of the study's name within the name of a folder of the trash


def trash(runs: Path) -> Path:
    return runs / TRASH


def free_place(runs: Path, study: str) -> Path:
    """A path in the trash that does not exist, such as `.trash/20300131T120000Z-multi30k-half`."""
    name = study.encode()[:LONGEST].decode(errors="ignore")
    first = trash(runs) / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place


def size(path: Path) -> int:
    """Bytes of all files below the path. Links are not followed."""
    if path.is_dir() and not path.is_symlink():
        return sum(map(size, path.iterdir()))
    return path.lstat().st_size
