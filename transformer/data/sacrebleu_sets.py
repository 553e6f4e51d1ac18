"""sacreBLEU's test sets as files of text: their names, and where sacreBLEU keeps them."""

import difflib
import os
from pathlib import Path

from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.base import Dataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from transformer.config import SACREBLEU
from transformer.faults import Fault, FaultyError


def known_sets() -> list[str]:
    """The names of sacreBLEU's test sets, such as wmt13 and wmt14/full."""
    return list(DATASETS)


def set_fault(key: str, name: str, source: str, target: str) -> Fault | None:
    """A set that sacreBLEU does not have, or does not have in these languages. Nothing is
    downloaded."""
    if name not in DATASETS:
        close = difflib.get_close_matches(name.lower(), DATASETS, n=1)
        nearest = f"{key}=[{SACREBLEU}{close[0]}]" if close else None
        allowed = "must be a test set of sacreBLEU, such as wmt13 or wmt14/full"
        return Fault(key, f'sacreBLEU has no set "{name}"', allowed, nearest)
    pairs = DATASETS[name].langpairs
    pair = f"{source}-{target}"
    if pair not in pairs:
        allowed = f"{name} has {', '.join(sorted(pairs))}; data.source and data.target choose one"
        return Fault(key, f"{name} has no {pair}", allowed)
    return None


def set_files(key: str, name: str, source: str, target: str) -> tuple[Path, Path]:
    """Source and reference of a set, downloaded by sacreBLEU unless both exist.

    Raises FaultyError, which names the missing files and their folder.
    """
    if fault := set_fault(key, name, source, target):
        raise FaultyError(fault)
    dataset = DATASETS[name]
    pair = f"{source}-{target}"
    text = Path(dataset._get_txt_file_path(pair, "src"))
    references = []
    for reference in _references(dataset, pair):
        references.append(Path(dataset._get_txt_file_path(pair, reference)))
    if not (text.is_file() and any(file.is_file() for file in references)):
        _fetch(key, dataset, pair, text, references)
    return text, next(file for file in references if file.is_file())


def _fetch(key: str, dataset: Dataset, pair: str, source: Path, references: list[Path]) -> None:
    names = " or ".join(file.name for file in references)
    raw = Path(dataset._rawdir)
    before = {*raw.glob("*")}
    try:
        dataset.process_to_text(pair)
        if not any(file.is_file() for file in references):
            raise FileNotFoundError(f"the download contains no {names}")
    except (Exception, SystemExit) as error:  # sacreBLEU exits on a wrong checksum
        # sacreBLEU would take what it has downloaded for good archives from now on
        for file in {*raw.glob("*")} - before:
            if file.is_file():
                file.unlink(missing_ok=True)
        place = f"{source.parent}{os.sep} as {source.name} and {names}, one sentence per line"
        allowed = f"must be reachable, or be in {place}"
        reason = str(error) or type(error).__name__
        if isinstance(error, SystemExit):
            reason = "its download is not the file that sacreBLEU expects"
        found = f"{dataset.name} cannot be fetched: {reason}"
        raise FaultyError(Fault(key, found, allowed)) from error


def _references(dataset: Dataset, pair: str) -> list[str]:
    """The names of the allowed references; the first existing one is used.

    Sets since 2021 name the allowed references. Their files may contain others, in an order that
    changes from run to run. sacreBLEU's ``get_reference_files`` does not help: it downloads the
    files to list them.
    """
    if isinstance(dataset, WMTXMLDataset):
        allowed: list[str] = dataset._get_langpair_allowed_refs(pair)
        return allowed
    return [field for field in dataset.fieldnames(pair) if field.startswith("ref")][:1]
