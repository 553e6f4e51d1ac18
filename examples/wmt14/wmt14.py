"""The training text of WMT 2014, English and German: downloaded, cleaned, with one file per side.

    python wmt14.py               # writes text/train.en and text/train.de

A clean pair breaks none of the rules in RULES. Each rule's count is printed for each corpus.
"""

import argparse
import io
import re
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

import pooch

URL = "https://www.statmt.org"
SIDES = ("en", "de")
CORPORA = {
    "wmt13/training-parallel-europarl-v7.tgz": "training/europarl-v7.de-en",
    "wmt13/training-parallel-commoncrawl.tgz": "commoncrawl.de-en",
    "wmt14/training-parallel-nc-v9.tgz": "training/news-commentary-v9.de-en",
}
"""By archive below URL: the two files in it, without the language at their end."""
LETTER = re.compile(r"[^\W\d_]")
# control characters, and the sign for a letter that was lost
UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffd]")
MOST_WORDS = 250  # of a side
MOST_RATIO = 3
RULES: dict[str, Callable[[str, str], bool]] = {
    "empty side": lambda en, de: not en or not de,
    "unreadable letter": lambda en, de: UNREADABLE.search(en + de) is not None,
    "side without a letter": lambda en, de: not (LETTER.search(en) and LETTER.search(de)),
    "identical sides": lambda en, de: en == de,
    "too long": lambda en, de: max(len(en.split()), len(de.split())) > MOST_WORDS,
    "length ratio": lambda en, de: word_ratio(en, de) > MOST_RATIO,
}
"""What removes a pair. A pair that breaks several rules counts for the first of them."""


def word_ratio(english: str, german: str) -> float:
    """Words of the longer side over those of the shorter one; both have some."""
    shorter, longer = sorted((len(english.split()), len(german.split())))
    return longer / shorter


def broken_rule(english: str, german: str) -> str | None:
    """The first rule that the pair breaks; None if it is clean."""
    return next((name for name, breaks in RULES.items() if breaks(english, german)), None)


@contextmanager
def opened(archive: Path, name: str) -> Iterator[TextIO]:
    """A file of the archive, as text, without unpacking. Exits if it has no such regular file."""
    try:
        with tarfile.open(archive) as members:
            files = (member for member in members if member.isfile())
            member = next((file for file in files if file.name.removeprefix("./") == name), None)
            content = member and members.extractfile(member)
            if not content:
                sys.exit(f"{archive} lacks {name} as a regular file; delete it to get it again.")
            yield io.TextIOWrapper(content, encoding="utf-8", newline="\n")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        sys.exit(f"{archive} cannot be read; delete it to download it again: {error}")


def pairs(archive: Path, stem: str) -> Iterator[tuple[str, str]]:
    """The lines of both sides, with single spaces. Exits if one has more, or is not UTF-8."""
    names = [f"{stem}.{side}" for side in SIDES]
    with opened(archive, names[0]) as english, opened(archive, names[1]) as german:
        try:
            for number, (source, target) in enumerate(zip_longest(english, german), 1):
                if source is None or target is None:
                    sys.exit(
                        f"{' and '.join(names)} differ in length: one ends before line {number}."
                    )
                yield " ".join(source.split()), " ".join(target.split())
        except UnicodeDecodeError as error:
            sys.exit(f"{' or '.join(names)} is not UTF-8: {error}")


def write_text(folder: Path, url: str) -> None:
    """Write train.en and train.de into the folder, and keep the archives in its folder raw."""
    parts = [folder / f"train.{side}.part" for side in SIDES]  # whole text alone gets the names
    folder.mkdir(parents=True, exist_ok=True)
    with (
        parts[0].open("w", encoding="utf-8") as english,
        parts[1].open("w", encoding="utf-8") as german,
    ):
        for path, stem in CORPORA.items():
            archive = Path(pooch.retrieve(f"{url}/{path}", None, Path(path).name, folder / "raw"))
            counts = Counter[str | None]()
            for source, target in pairs(archive, stem):
                rule = broken_rule(source, target)
                counts[rule] += 1
                if rule is None:
                    english.write(f"{source}\n")
                    german.write(f"{target}\n")
            kept = f"{counts.total():,} pairs, {counts[None]:,} kept"
            print(f"{Path(stem).stem}: {kept}, SHA-256 {pooch.file_hash(archive)}")
            print("".join(f"  {counts[rule]:,} {rule}\n" for rule in RULES), end="", flush=True)
    for part in parts:
        part.replace(part.with_suffix(""))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write text/train.en and text/train.de.")
    parser.add_argument("--url", default=URL, help="URL of wmt13 and wmt14; default: %(default)s")
    options = parser.parse_args()
    try:
        write_text(Path("text"), options.url.rstrip("/"))
    except (OSError, ValueError) as error:
        sys.exit(f"The text could not be fetched: {error}")
