"""Scores of texts against references (BLEU, BLEU as the paper counted it, chrF), and sacreBLEU's test sets.

The counts of a score are returned per sentence. A set's score depends only on their sums, so differences can be
tested later without decoding again.
"""

import os
import re
from pathlib import Path
from typing import Any

import sacrebleu
import sacremoses
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.base import Dataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from transformer.data.corpora import read_pairs
from transformer.faults import Problem, RefusedError

Counts = list[int]
"""Counts of one sentence. BLEU: its length, the reference's, matching 1- to 4-grams, all 1- to 4-grams. chrF: for each
order 1 to 6, character n-grams of the hypothesis, of the reference, and in both."""


def text_scores(
    hypotheses: list[str], references: list[str], language: str
) -> tuple[dict[str, Any], list[dict[str, Counts]]]:
    """Scores of a set with their signatures, and the counts of each sentence behind ``bleu``, ``bleu_paper``, ``chrf``.

    BLEU is sacreBLEU's 13a, cased and detokenized. ``bleu_paper`` is the usual evaluation of the paper's time: cased,
    tokenized by Moses' rules for ``language`` (English rules if Moses has none), compounds split at hyphens.
    """
    bleu, bleu_counts = _scored("bleu", sacrebleu.BLEU(tokenize="13a"), hypotheses, references)
    chrf, chrf_counts = _scored("chrf", sacrebleu.CHRF(), hypotheses, references)
    moses = sacremoses.MosesTokenizer(lang=language)
    plain = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)  # force: do not warn of tokenized text
    split = ([_split_compounds(moses, line) for line in side] for side in (hypotheses, references))
    paper, paper_counts = _scored("bleu_paper", plain, *split)
    paper["bleu_paper_signature"] += f"|moses:{sacremoses.__version__}|lang:{language}|hyphens:##AT##-##AT##"
    scores = {"signature": bleu.pop("bleu_signature"), **bleu, **chrf, **paper}
    counts = zip(bleu_counts, paper_counts, chrf_counts, strict=True)
    return scores, [dict(zip(("bleu", "bleu_paper", "chrf"), each, strict=True)) for each in counts]


def _scored(
    name: str, metric: Any, hypotheses: list[str], references: list[str]
) -> tuple[dict[str, Any], list[Counts]]:
    """Like ``corpus_score``, but also returns the counts of each sentence."""
    counts = metric._extract_corpus_statistics(hypotheses, [references])
    score = metric._aggregate_and_compute(counts).score
    return {name: score, f"{name}_signature": str(metric.get_signature())}, counts


def _split_compounds(moses: Any, line: str) -> str:
    """Tokens; a hyphen inside a word becomes a separate token."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", moses.tokenize(line, return_str=True))


def known_sets() -> list[str]:
    """The names of sacreBLEU's test sets, such as wmt13 and wmt14/full."""
    return list(DATASETS)


def read_set(name: str, source: str, target: str) -> tuple[list[str], list[str]]:
    """Source and reference lines of a sacreBLEU test set, downloaded by sacreBLEU unless they exist.

    Raises RefusedError, which names the missing files and their folder.
    """
    dataset, pair = DATASETS[name], f"{source}-{target}"
    if pair not in dataset.langpairs:
        allowed = f"{name} has {', '.join(sorted(dataset.langpairs))}"
        raise RefusedError([Problem("data.set", f"{name} has no {pair}", allowed)])
    sources, references = zip(*read_pairs("data.set", *_files(dataset, pair)), strict=True)
    return list(sources), list(references)


def _files(dataset: Dataset, pair: str) -> tuple[Path, Path]:
    """Source and reference, fetched unless both exist. Raises RefusedError."""
    source = Path(dataset._get_txt_file_path(pair, "src"))
    references = [Path(dataset._get_txt_file_path(pair, field)) for field in _references(dataset, pair)]
    if not (source.is_file() and any(file.is_file() for file in references)):
        _fetch(dataset, pair, source, references)
    return source, next(file for file in references if file.is_file())


def _fetch(dataset: Dataset, pair: str, source: Path, references: list[Path]) -> None:
    names = " or ".join(file.name for file in references)
    try:
        dataset.process_to_text(pair)
        if not any(file.is_file() for file in references):
            raise FileNotFoundError(f"the download contains no {names}")
    except (Exception, SystemExit) as error:  # sacreBLEU exits on a wrong checksum
        place = f"{source.parent}{os.sep} as {source.name} and {names}, one sentence per line"
        allowed = f"must be reachable, or be in {place}"
        found = f"{dataset.name} cannot be fetched: {error or type(error).__name__}"
        raise RefusedError([Problem("data.set", found, allowed)]) from error


def _references(dataset: Dataset, pair: str) -> list[str]:
    """The names of the allowed references; the first existing one is used.

    Sets since 2021 name the allowed references. Their files may contain others, in an order that changes from run to
    run. sacreBLEU's ``get_reference_files`` does not help: it downloads the files to list them.
    """
    if isinstance(dataset, WMTXMLDataset):
        allowed: list[str] = dataset._get_langpair_allowed_refs(pair)
        return allowed
    return [field for field in dataset.fieldnames(pair) if field.startswith("ref")][:1]
