"""The sources of parallel text, the hashes that identify it, and its checks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformer.config import DataConfig
from transformer.data import synthetic
from transformer.data.text_file import SentencePair, TextFile, read_pairs, unreadable
from transformer.schema import Problem, RefusedError

SPLITS = ("train", "dev", "test")

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
class Text:
    """Every set as it was read; ``declared`` identifies that text."""

    sets: dict[str, list[SentencePair]]
    declared: dict[str, object]


@dataclass(frozen=True)
class Corpus:
    """A named source of text: ``declared`` identifies the current text, ``load`` reads every set.

    The declaration that ``load`` returns is of the exact bytes it read. It differs if the text changed in between.

    ``mean_lengths`` are source and target pieces per sentence, end-of-sentence included, for planning costs;
    ``train_pairs`` is the number of training pairs, None if only the text can tell.
    """

    declared: Callable[[DataConfig], dict[str, object]]
    load: Callable[[DataConfig, Path], Text]
    mean_lengths: tuple[float, float]
    train_pairs: int | None = None


def corpus(data: DataConfig) -> Corpus:
    """The corpus named ``data.name``."""
    return CORPORA[data.name]


def _load_synthetic(data: DataConfig, downloads: Path) -> Text:
    return Text(synthetic.generate(), synthetic.parameters())


def _load_multi30k(data: DataConfig, downloads: Path) -> Text:
    def read(name: str) -> list[SentencePair]:
        files = [_multi30k_file(f"{name}.{side}.gz", data, downloads) for side in (data.source, data.target)]
        return read_pairs(files[0], files[1])

    return Text({set_name: read(name) for set_name, name in MULTI30K_SETS.items()}, dict(MULTI30K_SHA256))


def _multi30k_file(name: str, data: DataConfig, downloads: Path) -> TextFile:
    """A checked local copy: from the mirror folder if one is set, otherwise downloaded once."""
    if name not in MULTI30K_SHA256:
        raise RefusedError(
            [Problem("data.source", f"multi30k has no file {name}", "must be en or de, like data.target")]
        )
    mirror = data.mirror
    if mirror and "://" not in mirror:
        return _checked(Path(mirror) / name, MULTI30K_SHA256[name])
    import pooch  # a tenth of a second, which only downloads and hashes need

    source = (mirror.rstrip("/") + "/" if mirror else MULTI30K_URL) + name
    try:
        local = pooch.retrieve(source, MULTI30K_SHA256[name], name, downloads / "multi30k", progressbar=False)
    except (OSError, ValueError) as error:
        hint = "must be reachable and complete; data.mirror=DIR reads the same files from a folder"
        raise RefusedError([Problem("data.mirror", f"cannot fetch {source}: {error}", hint)]) from error
    return _checked(Path(local), MULTI30K_SHA256[name])


def _checked(path: Path, sha256: str) -> TextFile:
    if not path.is_file():
        raise RefusedError(
            [Problem("data.mirror", f"{path} does not exist", "must hold the files of multi30k's data/task1/raw")]
        )
    file = TextFile.read(path, "data.mirror")
    if file.sha256 != sha256:
        raise RefusedError(
            [Problem("data.mirror", f"{path} has SHA-256 {file.sha256}", f"must be the released file, {sha256}")]
        )
    return file


def _declared_files(data: DataConfig) -> dict[str, object]:
    _check_exist(data)
    return {split: [_hash(split, name) for name in getattr(data, split)] for split in SPLITS}


def _hash(split: str, name: str) -> str:
    import pooch

    try:
        return str(pooch.file_hash(name))
    except OSError as error:
        raise RefusedError([unreadable(f"data.{split}", Path(name), error)]) from None


def _load_files(data: DataConfig, downloads: Path) -> Text:
    _check_exist(data)
    sets, declared = dict[str, list[SentencePair]](), dict[str, object]()
    for split in SPLITS:
        source, target = (TextFile.read(Path(name), f"data.{split}") for name in getattr(data, split))
        sets[split], declared[split] = read_pairs(source, target), [source.sha256, target.sha256]
    return Text(sets, declared)


def _check_exist(data: DataConfig) -> None:
    named = [(split, name) for split in SPLITS for name in getattr(data, split)]
    missing = [(split, name) for split, name in named if not Path(name).is_file()]
    if missing:
        raise RefusedError(
            Problem(f"data.{split}", f"{name} does not exist", "must be a file") for split, name in missing
        )


CORPORA = {
    "synthetic": Corpus(lambda data: synthetic.parameters(), _load_synthetic, (12.0, 12.3), synthetic.Sizes().train),
    "multi30k": Corpus(lambda data: dict(MULTI30K_SHA256), _load_multi30k, (14.4, 15.1), 29_000),
    "files": Corpus(_declared_files, _load_files, (25.0, 25.0)),
}
