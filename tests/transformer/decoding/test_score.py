"""BLEU, BLEU as the paper counted it, chrF, and sacreBLEU's own test sets."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.dataset import DATASETS

from transformer.decoding.score import known_set, nearest_set, read_set, text_scores
from transformer.schema import RefusedError

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


def command(folder: Path, *words: str) -> str:
    """What the command `sacrebleu` prints for these texts."""
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    typed = [sys.executable, "-m", "sacrebleu", str(folder / "references"), "-i", str(folder / "hypotheses"), *words]
    return subprocess.run(typed, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_score_is_that_of_the_command_to_the_last_digit(tmp_path: Path, metric: str) -> None:
    scores, _ = text_scores(HYPOTHESES, REFERENCES, "de")
    assert 5 < scores[metric] < 95
    assert command(tmp_path, "-m", metric, "-b", "-w", "12") == f"{scores[metric]:.12f}"


def test_the_signatures_are_those_of_the_command(tmp_path: Path) -> None:
    scores, _ = text_scores(HYPOTHESES, REFERENCES, "de")
    printed = command(tmp_path, "-m", "bleu", "chrf", "-f", "text")
    assert f"BLEU|{scores['signature']} " in printed
    assert f"chrF2|{scores['chrf_signature']} " in printed


def test_bleu_is_cased_and_tokenised_as_13a_and_says_so() -> None:
    text = ["The dog sees the old man in the garden ."]
    assert text_scores(text, text, "en")[0]["bleu"] == pytest.approx(100)
    assert text_scores(["The dog sees the old man in the garden."], text, "en")[0]["bleu"] == pytest.approx(100)
    assert text_scores([text[0].lower()], text, "en")[0]["bleu"] < 95
    signature = text_scores(text, text, "en")[0]["signature"]
    for part in ("nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp", "version:"):
        assert part in signature


def test_the_paper_s_bleu_splits_words_at_hyphens_after_moses_tokenised_them() -> None:
    hypothesis, reference = ["a red-hot iron , see Dr. No"], ["a red-hot iron, see Dr. No"]
    counts = text_scores(hypothesis, reference, "en")[1][0]["bleu_paper"]
    tokens = ["a", "red", "##AT##-##AT##", "hot", "iron", ",", "see", "Dr.", "No"]
    assert counts == [9, 9, 9, 8, 7, 6, 9, 8, 7, 6]
    assert len(tokens) == 9
    half = text_scores(["a red-cold iron, see Dr. No"], reference, "en")[1][0]
    assert half["bleu_paper"][2] == 8  # of nine tokens only "cold" is wrong
    assert half["bleu"][2] < half["bleu"][0]


def test_the_paper_s_bleu_is_cased_unsmoothed_and_signed() -> None:
    scores, _ = text_scores(HYPOTHESES, REFERENCES, "de")
    assert 0 < scores["bleu_paper"] != scores["bleu"]
    assert text_scores(["Ein Hund"], ["ein hund"], "de")[0]["bleu_paper"] == 0
    for part in ("case:mixed", "tok:none", "smooth:none", "moses:", "lang:de", "##AT##-##AT##"):
        assert part in scores["bleu_paper_signature"]


def test_moses_rules_are_those_of_the_language() -> None:
    text = ["Hunde usw. Katzen"]
    german, english = (text_scores(text, text, language)[1][0]["bleu_paper"][0] for language in ("de", "en"))
    assert (german, english) == (3, 4)  # German knows "usw."


def test_the_sums_of_the_sentences_are_what_a_score_is_made_of() -> None:
    scores, counts = text_scores(HYPOTHESES, REFERENCES, "de")
    length, reference, *grams = (sum(column) for column in zip(*(each["bleu"] for each in counts), strict=True))
    precision = [math.log(grams[n] / grams[4 + n]) for n in range(4)]
    brevity = min(0.0, 1 - reference / length)
    assert scores["bleu"] == pytest.approx(100 * math.exp(brevity + sum(precision) / 4))
    totals = [sum(column) for column in zip(*(each["chrf"] for each in counts), strict=True)]
    assert scores["chrf"] == sacrebleu.CHRF()._compute_score_from_stats(totals).score
    assert [len(each) for each in counts[0].values()] == [10, 10, 18]


def test_a_set_of_sacrebleu_is_read_from_where_it_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_sets_in(tmp_path, monkeypatch)
    (tmp_path / "wmt13.en-de.src").write_text("A dog.\nTwo\u2028dogs.\n", "utf-8")
    (tmp_path / "wmt13.en-de.ref").write_text("Ein Hund.\nZwei Hunde.\n", "utf-8")
    assert read_set("wmt13", "en", "de") == (["A dog.", "Two\u2028dogs."], ["Ein Hund.", "Zwei Hunde."])


def test_a_set_that_cannot_be_fetched_is_refused_with_the_files_to_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_sets_in(tmp_path, monkeypatch)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(RefusedError) as caught:
        read_set("wmt13", "en", "de")
    (problem,) = caught.value.problems
    assert problem.found.startswith("wmt13 cannot be fetched")
    for part in (str(tmp_path), "wmt13.en-de.src", "wmt13.en-de.ref"):
        assert part in problem.allowed


def test_a_pair_of_languages_that_a_set_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(RefusedError, match=r"wmt13 has no en-letters; wmt13 has .*en-de"):
        read_set("wmt13", "en", "letters")


def test_names_of_sets() -> None:
    assert known_set("wmt13")
    assert known_set("wmt14/full")
    assert not known_set("test_2016_flickr")
    assert nearest_set("wmt14/ful") == "wmt14/full"


def keep_sets_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sacreBLEU reads where from the environment once, when it is imported."""
    monkeypatch.setattr(DATASETS["wmt13"], "_outdir", str(folder))
    monkeypatch.setattr(DATASETS["wmt13"], "_rawdir", str(folder / "raw"))
