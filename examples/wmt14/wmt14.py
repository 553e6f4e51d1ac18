"""The training text of WMT 2014, English and German: downloaded, cleaned, and written with one file
per side.

    python wmt14.py               # writes text/train.en and text/train.de

A clean pair breaks none of the rules in RULES. Each rule's count is printed for each corpus.
"""

import argparse
import re
import shutil
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import pooch

URL = "https://www.statmt.org/"
SIDES = ("en", "de")
CORPORA = {
    "europarl-v7": ("wmt13/training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en"),
    "commoncrawl": ("wmt13/training-parallel-commoncrawl.tgz", "commoncrawl.de-en"),
    "news-commentary-v9": (
        "wmt14/training-parallel-nc-v9.tgz",
        "training/news-commentary-v9.de-en",
    ),
}
"""By name: the archive below URL, and the two files in it, without the language at their end."""
LETTER = re.compile(r"[^\W\d_]")
# control characters, and the sign for a letter that was lost
UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffd]")
MOST_WORDS = 250  # of a side
MOST_RATIO = 3
RULES: dict[str, Callable[[str, str], bool]] = {
    "empty side": lambda english, german: not english or not german,
    "unreadable letter": lambda english, german: UNREADABLE.search(english + german) is not None,
    "side without a letter": lambda english, german: (
        not (LETTER.search(english) and LETTER.search(german))
    ),
    "identical sides": lambda english, german: english == german,
    "too long": lambda english, german: max(len(english.split()), len(german.split())) > MOST_WORDS,
    "length ratio": lambda english, german: word_ratio(english, german) > MOST_RATIO,
}
"""What removes a pair. A pair that breaks several rules counts for the first of them."""


def word_ratio(english: str, german: str) -> float:
    """Words of the longer side over those of the shorter one; both have some."""
    shorter, longer = sorted((len(english.split()), len(german.split())))
    return longer / shorter


def broken_rule(english: str, german: str) -> str | None:
    """The first rule that the pair breaks; None if it is clean."""
    return next((name for name, breaks in RULES.items() if breaks(english, german)), None)


def unpack(archive: Path, stem: str, folder: Path) -> list[Path]:
    """Copy the two files of a corpus out of its archive, to names of our own.

    No path of the archive is written to, and no link is followed. Exits if a file is missing.
    """
    targets = {f"{stem}.{side}": folder / f"{Path(stem).name}.{side}" for side in SIDES}
    missing = set(targets)
    with tarfile.open(archive, "r|gz") as members:
        for member in members:
            name = member.name.removeprefix("./")
            content = members.extractfile(member) if member.isfile() and name in missing else None
            if content is not None:
                with targets[name].open("wb") as file:
                    shutil.copyfileobj(content, file)
                missing.remove(name)
    if missing:
        sys.exit(
            f"{archive} lacks {', '.join(sorted(missing))} as a plain file; "
            "delete it to download it again."
        )
    return list(targets.values())


def pairs(english: Path, german: Path) -> Iterator[tuple[str, str]]:
    """The lines of both files, with single spaces. Exits if one has more lines, or a line is not
    UTF-8."""
    try:
        with (
            english.open(encoding="utf-8", newline="\n") as left,
            german.open(encoding="utf-8", newline="\n") as right,
        ):
            for number, (source, target) in enumerate(zip_longest(left, right), 1):
                if source is None or target is None:
                    sys.exit(
                        f"{english} and {german} differ in length: one ends before line {number}."
                    )
                yield " ".join(source.split()), " ".join(target.split())
    except UnicodeDecodeError as error:
        sys.exit(f"{english} or {german} is not UTF-8: {error}")


def write_text(folder: Path, url: str) -> None:
    """Write train.en and train.de into the folder, and keep the archives in its folder raw."""
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    # whole text alone gets the names
    unfinished = [folder / f"train.{side}.part" for side in SIDES]
    with (
        unfinished[0].open("w", encoding="utf-8") as english,
        unfinished[1].open("w", encoding="utf-8") as german,
    ):
        for name, (archive, stem) in CORPORA.items():
            path = Path(
                pooch.retrieve(url.rstrip("/") + "/" + archive, None, Path(archive).name, raw)
            )
            counts = Counter[str | None]()
            files = unpack(path, stem, raw)
            for source, target in pairs(*files):
                rule = broken_rule(source, target)
                counts[rule] += 1
                if rule is None:
                    english.write(f"{source}\n")
                    german.write(f"{target}\n")
            for file in files:
                file.unlink()
            print(
                f"{name}: {counts.total():,} pairs, {counts[None]:,} kept, "
                f"SHA-256 {pooch.file_hash(path)}"
            )
            print("".join(f"  {counts[rule]:,} {rule}\n" for rule in RULES), end="", flush=True)
    for path in unfinished:
        path.replace(path.with_suffix(""))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("text"), help="where to write; default: text"
    )
    parser.add_argument(
        "--url", default=URL, help="where the folders wmt13 and wmt14 lie; default: %(default)s"
    )
    options = parser.parse_args()
    try:
        write_text(options.folder, options.url)
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        sys.exit(f"The text could not be fetched: {error}")
