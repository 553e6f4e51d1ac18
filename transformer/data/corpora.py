"""The sources of parallel text, the hashes that identify it, and what is wrong with it.

A file of text has one sentence per line: UTF-8, plain or compressed by gzip.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from transformer.config import SPLITS, DataConfig, sacrebleu_set
from transformer.data import synthetic
from transformer.faults import Fault, FaultyError

SentencePair = tuple[str, str]
Sets = Mapping[str, Iterable[SentencePair]]
"""The sets of a corpus, each to be read once. A set of files raises FaultyError at its first bad
line."""

LONGEST_LINE_BYTES = 1 << 19
"""The longest line that is read: memory must not grow with a file that has no line ends."""
GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # not part of a text
COUNTED_BYTES = 1 << 25
"""The largest file whose lines are counted for a plan."""
MUST_BE_TEXT = "must be UTF-8 text, plain or compressed by gzip, one sentence per line"

MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K_SETS = {
    "train": "train",
    "dev": "val",
    "test_2016_flickr": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
}
MULTI30K_SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}


@dataclass(frozen=True)
class Corpus:
    """A named source of text: ``declared`` identifies the current text, ``load`` opens every set.

    ``faults`` are those that show without reading the text. ``load`` keeps what it downloads in the
    given folder. ``mean_lengths`` are source and target pieces per sentence, end-of-sentence
    included, for planning costs. ``train_pairs`` are those of the training set, for planning
    epochs; 0 if that is unknown.
    """

    declared: Callable[[DataConfig], dict[str, object]]
    faults: Callable[[DataConfig], Iterable[Fault]]
    load: Callable[[DataConfig, Path], Sets]
    mean_lengths: tuple[float, float]
    train_pairs: Callable[[DataConfig], int]


def corpus(data: DataConfig) -> Corpus:
    """The corpus named ``data.name``."""
    return CORPORA[data.name]


def _load_multi30k(data: DataConfig, downloads: Path) -> Sets:
    sets = dict[str, Iterable[SentencePair]]()
    faults = list[Fault]()
    for split, names in _multi30k_names(data).items():
        paths = [_multi30k_file(name, data, downloads) for name in names]
        for name, path in zip(names, paths, strict=True):
            digest = _hash("data.mirror", path)
            if digest != MULTI30K_SHA256[name]:
                allowed = f"must be the released file, {MULTI30K_SHA256[name]}"
                faults.append(Fault("data.mirror", f"{path} has SHA-256 {digest}", allowed))
        sets[split] = read_pairs("data.mirror", *paths)
    if faults:
        raise FaultyError(*faults)
    return sets


def _multi30k_names(data: DataConfig) -> dict[str, list[str]]:
    """The source and target file of each set."""
    return {
        name: [f"{stem}.{side}.gz" for side in (data.source, data.target)]
        for name, stem in MULTI30K_SETS.items()
    }


def _faults_of_multi30k(data: DataConfig) -> Iterator[Fault]:
    unknown = [
        key
        for key in ("source", "target")
        if f"train.{getattr(data, key)}.gz" not in MULTI30K_SHA256
    ]
    for key in unknown:
        language = getattr(data, key)
        problem = f'is "{language}": multi30k has no train.{language}.gz'
        yield Fault(f"data.{key}", problem, "must be en or de")
    if data.mirror and "://" not in data.mirror and not unknown:
        names = dict.fromkeys(name for pair in _multi30k_names(data).values() for name in pair)
        if missing := [name for name in names if not (Path(data.mirror) / name).is_file()]:
            found = f"{data.mirror} lacks {', '.join(missing)}"
            yield Fault("data.mirror", found, "must hold the files of multi30k's data/task1/raw")


def _multi30k_file(name: str, data: DataConfig, downloads: Path) -> Path:
    """A local copy: in the mirror folder if one is set, otherwise downloaded once."""
    mirror = data.mirror
    if mirror and "://" not in mirror:
        return Path(mirror) / name
    import pooch  # a tenth of a second, which only downloads need

    source = (mirror.rstrip("/") + "/" if mirror else MULTI30K_URL) + name
    try:
        return Path(
            pooch.retrieve(source, MULTI30K_SHA256[name], name, downloads, progressbar=False)
        )
    except (OSError, ValueError) as error:
        hint = "must be reachable and complete; data.mirror=DIR reads the same files from a folder"
        raise FaultyError(Fault("data.mirror", f"cannot fetch {source}: {error}", hint)) from error


def _declared_files(data: DataConfig) -> dict[str, object]:
    if faults := list(_faults_of_files(data)):
        raise FaultyError(*faults)
    hashes = dict[str, object]()
    for split in _splits(data):
        try:
            hashes[split] = [_hash(f"data.{split}", path) for path in _split_files(data, split)]
        except FaultyError as error:
            faults += error.faults
    if faults:
        raise FaultyError(*faults)
    return hashes


def _splits(data: DataConfig) -> list[str]:
    """Those that have text; a test set may be missing."""
    return [split for split in SPLITS if getattr(data, split) is not None]


def _split_files(data: DataConfig, split: str) -> list[Path]:
    """Source and target of a split. Those of a set of sacreBLEU are downloaded unless they exist.

    Raises FaultyError.
    """
    files = getattr(data, split)
    test_set = sacrebleu_set(files)
    if test_set is None:
        return [Path(name) for name in files]
    # This takes a fifth of a second, which only these sets need.
    from transformer.data.sacrebleu_sets import set_files

    return list(set_files(f"data.{split}", test_set, data.source, data.target))


def _hash(key: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FaultyError(unreadable(key, path, error)) from None


def _faults_of_files(data: DataConfig) -> Iterator[Fault]:
    for split in _splits(data):
        key = f"data.{split}"
        files = getattr(data, split)
        test_set = sacrebleu_set(files)
        if test_set is None:
            faults = [_file_fault(key, name) for name in dict.fromkeys(files)]
        else:
            faults = [_set_fault(key, test_set, data)]
        yield from filter(None, faults)


def _set_fault(key: str, test_set: str, data: DataConfig) -> Fault | None:
    """What shows without a download."""
    if find_spec("sacrebleu") is None:
        problem = "needs the package sacrebleu, which is not installed"
        return Fault(key, problem, "type pip install 'allelse[run]'")
    from transformer.data.sacrebleu_sets import set_fault

    return set_fault(key, test_set, data.source, data.target)


def _load_files(data: DataConfig, downloads: Path) -> Sets:
    return {
        split: read_pairs(f"data.{split}", *_split_files(data, split)) for split in _splits(data)
    }


def _pairs_of_files(data: DataConfig) -> int:
    """The lines of the target file. Those of a large file are not counted: it has no lack of
    text."""
    try:
        path = Path((data.train or [""])[-1])
        about = path.stat()
        return _lines(path, about.st_mtime_ns) if about.st_size <= COUNTED_BYTES else 0
    except (OSError, FaultyError):  # refused when the text is read
        return 0


@cache
def _lines(path: Path, changed_ns: int) -> int:
    """How many there are; counted again when the file has changed. Raises FaultyError."""
    return sum(1 for _ in byte_lines(path, "data.train"))


CORPORA = {
    "synthetic": Corpus(
        lambda data: synthetic.PARAMETERS,
        lambda data: (),
        lambda data, downloads: synthetic.generate(),
        (12.0, 12.3),
        lambda data: int(synthetic.PARAMETERS["sizes"]["train"]),
    ),
    "multi30k": Corpus(
        lambda data: dict(MULTI30K_SHA256),
        _faults_of_multi30k,
        _load_multi30k,
        (14.4, 15.1),
        lambda data: 29_000,
    ),
    "files": Corpus(_declared_files, _faults_of_files, _load_files, (25.0, 25.0), _pairs_of_files),
}


def _file_fault(key: str, name: str) -> Fault | None:
    """What shows without reading the file."""
    path = Path(name)
    try:
        if not path.is_file():  # a pipe can be read only once
            problem = "is not a file" if path.exists() else "does not exist"
            return Fault(key, f"{name} {problem}", MUST_BE_TEXT)
        with path.open("rb") as file:
            return None if file.read(1) else Fault(key, f"{name} is empty", MUST_BE_TEXT)
    except OSError as error:
        return unreadable(key, path, error)


def unreadable(key: str, path: Path, error: Exception) -> Fault:
    """A file that exists but cannot be read."""
    cause = getattr(error, "strerror", None) or error
    allowed = "must be a complete file with read permission"
    return Fault(key, f"{path} cannot be read: {cause}", allowed)


def byte_lines(path: Path, key: str) -> Iterator[bytes]:
    """The lines of a file with their ends, uncompressed and without a byte order mark. Raises
    FaultyError."""
    try:
        with path.open("rb") as raw:
            stream = gzip.GzipFile(fileobj=raw) if raw.peek(len(GZIP)).startswith(GZIP) else raw
            number = 1
            line = stream.readline(LONGEST_LINE_BYTES + 1).removeprefix(BYTE_ORDER_MARK)
            while line:
                if len(line) > LONGEST_LINE_BYTES:
                    problem = f"{path}:{number} has more than {LONGEST_LINE_BYTES} bytes"
                    allowed = "must be one sentence per line; no longer line is read"
                    raise FaultyError(Fault(key, problem, allowed))
                yield line
                number += 1
                line = stream.readline(LONGEST_LINE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FaultyError(unreadable(key, path, error)) from None


def line_text(line: bytes, key: str, place: str) -> str:
    """A line without its end. Raises FaultyError if it is no text."""
    try:
        return line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise FaultyError(Fault(key, f"{place} is not UTF-8 text", MUST_BE_TEXT)) from None


def read_lines(path: Path, key: str) -> Iterator[str]:
    """The lines of a text file without their ends. Raises FaultyError at the first one that is no
    text."""
    number = 0
    for number, line in enumerate(byte_lines(path, key), 1):
        if b"\0" in line:
            raise FaultyError(Fault(key, f"{path}:{number} is not UTF-8 text", MUST_BE_TEXT))
        yield line_text(line, key, f"{path}:{number}")
    if not number:
        raise FaultyError(Fault(key, f"{path} is empty", MUST_BE_TEXT))


def read_pairs(key: str, source: Path, target: Path) -> Iterator[SentencePair]:
    """The sentence pairs of two text files. Raises FaultyError, at their end if one has more
    lines."""
    sources = 0
    targets = 0
    for left, right in zip_longest(read_lines(source, key), read_lines(target, key)):
        sources += left is not None
        targets += right is not None
        if left is not None and right is not None:
            yield left, right
    if sources != targets:
        found = f"{source} has {sources} lines and {target} has {targets}"
        raise FaultyError(Fault(key, found, "both sides must have one line per sentence pair"))
