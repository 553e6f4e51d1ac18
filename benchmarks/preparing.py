"""Time and memory that text takes to prepare: ``python -m benchmarks.preparing DIR [COPIES]``.

``DIR`` holds Multi30k's files. The text is its training set many times over; in each line another word gets a random
ending, so that the copies differ and the words are many.
"""

import gzip
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from transformer.config import DataConfig
from transformer.data.preparation import prepare


def write_text(multi30k: Path, folder: Path, copies: int) -> DataConfig:
    """``data=files`` with ``copies`` of the training set."""
    drawn, files = random.Random(1), {"train": list[str](), "val": list[str]()}
    for side in ("en", "de"):
        lines = gzip.decompress((multi30k / f"train.{side}.gz").read_bytes()).decode("utf-8").splitlines()
        with (folder / f"train.{side}").open("w", encoding="utf-8") as file:
            for _ in range(copies):
                file.writelines(f"{_varied(line, drawn)}\n" for line in lines)
        files["train"].append(str(folder / f"train.{side}"))
        files["val"].append(str(multi30k / f"val.{side}.gz"))
    return DataConfig("files", "en", "de", 8000, None, files["train"], files["val"], files["val"])


def _varied(line: str, drawn: random.Random) -> str:
    words = line.split(" ")
    words[drawn.randrange(len(words))] += f"{drawn.choice('aeiou')}{drawn.randrange(3000)}"
    return " ".join(words)


def main() -> None:
    multi30k, copies = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as name:
        data = write_text(multi30k, Path(name), copies)
        size = sum(Path(file).stat().st_size for file in data.train or ()) / 1e6
        made = Path(name) / "data" / "made"
        made.mkdir(parents=True)
        began = time.monotonic()
        prepare(data, made)
        seconds = time.monotonic() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    peaks = " and ".join(f"{each.ru_maxrss / 2**20:.2f} GiB" for each in used)
    print(f"{size:.0f} MB in {seconds:.0f} s; peak memory of this process and of the child: {peaks}")


if __name__ == "__main__":
    main()
