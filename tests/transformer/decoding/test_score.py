"""BLEU, BLEU as the paper counted it, chrF, and sacreBLEU's own test sets."""

import math
import sys
from pathlib import Path

import pytest
import sacrebleu
import sacremoses
from sacrebleu.dataset import DATASETS, base

from transformer.decoding.evaluation import _split_compounds, read_set, text_scores
from transformer.faults import FaultyError

HYPOTHESES = [
    "Ein rot-gelber Hund rennt, z.B. im Garten.",
    "Der Mann's Hut ist 3,5 Meter hoch!",
    'Zwei "alte" Frauen & ein Kind…',
    "",
    "Ein Kind spielt Fußball auf der Straße .",
]
REFERENCES = [
    "Ein rot-grüner Hund rennt im Garten.",
    "Des Mannes Hut ist 3,5 Meter hoch.",
    'Zwei "alte" Männer & ein Kind.',
    "Niemand ist da.",
    "Ein Kind spielt Fussball auf der Straße.",
]


def test_scores_and_signatures_are_sacrebleu_s() -> None:
    scores, _ = text_scores(HYPOTHESES, REFERENCES, "de")
    for name, signature, metric in (
        ("bleu", "signature", sacrebleu.BLEU(tokenize="13a")),
        ("chrf", "chrf_signature", sacrebleu.CHRF()),
    ):
        assert scores[name] == metric.corpus_score(HYPOTHESES, [REFERENCES]).score
        assert scores[signature] == str(metric.get_signature())


@pytest.mark.parametrize("tokenizer", ["zh", "char", "intl", "none"])
def test_bleu_with_another_tokenizer_is_sacrebleu_s_and_signed(tokenizer: str) -> None:
    hypotheses = [*HYPOTHESES, "我爱北京"]
    references = [*REFERENCES, "我爱北京天安门"]
    metric = sacrebleu.BLEU(tokenize=tokenizer)
    default_scores = text_scores(hypotheses, references, "zh")[0]
    scores = text_scores(hypotheses, references, "zh", tokenizer)[0]
    assert scores["bleu"] == metric.corpus_score(hypotheses, [references]).score
    assert scores["signature"] == str(metric.get_signature()) != default_scores["signature"]
    for name in ("chrf", "chrf_signature", "bleu_paper", "bleu_paper_signature"):
        assert scores[name] == default_scores[name]


def test_the_paper_s_bleu_splits_words_at_hyphens_after_moses_tokenized_them() -> None:
    hypothesis = ["a red-hot iron , see Dr. No"]
    reference = ["a red-hot iron, see Dr. No"]
    moses = sacremoses.MosesTokenizer(lang="en")
    for line in (*hypothesis, *reference):
        assert _split_compounds(moses, line) == "a red ##AT##-##AT## hot iron , see Dr. No"
    counts = text_scores(hypothesis, reference, "en")[1][0]["bleu_paper"]
    assert counts == [9, 9, 9, 8, 7, 6, 9, 8, 7, 6]
    half = text_scores(["a red-cold iron, see Dr. No"], reference, "en")[1][0]
    assert half["bleu_paper"][2] == 8  # of nine tokens only "cold" is wrong
    assert half["bleu"][2] < half["bleu"][0]


def test_the_paper_s_bleu_is_cased_unsmoothed_and_signed() -> None:
    scores, _ = text_scores(HYPOTHESES, REFERENCES, "de")
    assert 0 < scores["bleu_paper"] != scores["bleu"]
    assert list(scores) == [
        "signature",
        "bleu",
        "chrf",
        "chrf_signature",
        "bleu_paper",
        "bleu_paper_signature",
    ]
    assert text_scores(["Ein Hund"], ["ein hund"], "de")[0]["bleu_paper"] == 0
    for part in ("case:mixed", "tok:none", "smooth:none", "moses:", "lang:de", "##AT##-##AT##"):
        assert part in scores["bleu_paper_signature"]


def column_sums(lines: list[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*lines, strict=True)]


def test_a_score_is_computed_from_the_sums_over_sentences() -> None:
    scores, counts = text_scores(HYPOTHESES, REFERENCES, "de")
    length, reference, *grams = column_sums([count["bleu"] for count in counts])
    precision = [math.log(grams[n] / grams[4 + n]) for n in range(4)]
    brevity = min(0.0, 1 - reference / length)
    assert scores["bleu"] == pytest.approx(100 * math.exp(brevity + sum(precision) / 4))
    totals = column_sums([count["chrf"] for count in counts])
    assert scores["chrf"] == sacrebleu.CHRF()._compute_score_from_stats(totals).score
    assert [len(sums) for sums in counts[0].values()] == [10, 10, 18]


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sacreBLEU's sets."""
    for name in ("wmt13", "wmt14/full", "wmt21/B", "wmt21/AB"):
        monkeypatch.setattr(DATASETS[name], "_outdir", str(tmp_path / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(tmp_path / name / "raw"))
    return tmp_path


def test_a_set_of_sacrebleu_is_read_from_its_folder(sets: Path) -> None:
    (sets / "wmt14/full").mkdir(parents=True)
    (sets / "wmt14/full/wmt14_full.en-de.src").write_text("A dog.\nTwo\u2028dogs.\n", "utf-8")
    (sets / "wmt14/full/wmt14_full.en-de.ref").write_text("Ein Hund.\nZwei Hunde.\n", "utf-8")
    assert read_set("wmt14/full", "en", "de") == (
        ["A dog.", "Two\u2028dogs."],
        ["Ein Hund.", "Zwei Hunde."],
    )


@pytest.mark.parametrize(("name", "reference"), [("wmt21/B", "B"), ("wmt21/AB", "A")])
def test_the_reference_is_the_one_that_the_set_names(sets: Path, name: str, reference: str) -> None:
    fetched(sets, name, "en-ru", ("C", "B", "A"))
    assert read_set(name, "en", "ru") == (["A dog."], [f"As {reference} has it."])


def test_a_set_that_cannot_be_fetched_is_refused_with_the_place_for_its_files(
    sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as sacreBLEU does at a wrong checksum
    monkeypatch.setattr(base, "download_file", lambda *_, **__: sys.exit(1))
    with pytest.raises(
        FaultyError,
        match=rf"wmt13 cannot be fetched: .* or be in {sets}/wmt13/ as wmt13\.en-de\.src",
    ):
        read_set("wmt13", "en", "de")


def test_a_missing_language_pair_is_refused_with_the_available_ones() -> None:
    with pytest.raises(FaultyError, match=r"wmt13 has no en-letters; wmt13 has .*en-de"):
        read_set("wmt13", "en", "letters")


def fetched(folder: Path, name: str, pair: str, translators: tuple[str | None, ...]) -> None:
    """One sentence of a set of 2021, as sacreBLEU stores it after download and unpacking."""
    dataset = DATASETS[name]
    source, target = pair.split("-")
    raw = folder / name / "raw"
    file = raw / dataset.langpairs[pair][0]
    file.parent.mkdir(parents=True)
    for url in dataset.data:
        (raw / dataset._get_tarball_filename(url)).write_text("unpacked")
    translator_credits = (
        (translator, f' translator="{translator}"' if translator else "")
        for translator in translators
    )
    references = [
        f'<ref lang="{target}"{credit}><p><seg id="1">As {author} has it.</seg></p></ref>'
        for author, credit in translator_credits
    ]
    text = f'<src lang="{source}"><p><seg id="1">A dog.</seg></p></src>{"".join(references)}'
    file.write_text(f'<dataset><doc id="1" origlang="{source}">{text}</doc></dataset>', "utf-8")
