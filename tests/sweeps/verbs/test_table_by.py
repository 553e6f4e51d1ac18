"""`allelse table --by length`, from outside: a finished study whose trials keep counts."""

import csv
import io
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from finished_trials import study_in, sweep
from typed import printed, refusal

from tracking.trial import statistics_name, statistics_text

ROWS = ("base", "a_heads_1", "c_layers_2")
SENTENCES = 40


def sentences(row: str, seed: int) -> list[dict[str, Any]]:
    """Lengths 1 to 40. With one head, the nats per piece grow with the length."""
    noise = random.Random(f"{row}{seed}")
    lines = []
    for pieces in range(1, SENTENCES + 1):
        rate = 0.5 + noise.gauss(0, 0.01) + (pieces / 100 if row == "a_heads_1" else 0)
        right = min(4, pieces)
        bleu = [pieces, pieces, right, 2, 1, 1, *(max(pieces - n, 0) for n in range(4))]
        lines.append({"nats": rate * pieces, "pieces": pieces, "right": 1, "bleu": bleu})
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tracking.statistics.samples import counts, scores

    folder = tmp_path_factory.mktemp("by")
    sweep(folder, f"sweep.rows=[{','.join(ROWS)}]", "sweep.seeds=[1,2,3]")
    study = study_in(folder)
    for trial in study.trials:
        lines = sentences(trial.row, trial.seed)
        trial_folder = study.trial_folder(trial)
        result = trial_folder.result()
        assert result is not None
        nll = sum(line["nats"] for line in lines) / sum(line["pieces"] for line in lines)
        bleu_counts = counts(lines, ("ngram_precision", "bleu")).sum(0, keepdims=True)
        (bleu,) = scores("ngram_precision", bleu_counts, len(lines)).tolist()
        result["scores"]["dev"] |= {"nll": nll, "ppl": math.exp(nll), "bleu": bleu}
        trial_folder.write_result(result)
        head = {"key": trial.key, "step": result["step"], "scores": result["scores"]["dev"]}
        trial_folder.write_artifact(statistics_name("dev"), statistics_text(head, lines))
    return folder


def lines(folder: Path, *options: str) -> list[dict[str, str]]:
    text = printed(folder, "table", "--format", "csv", *options)
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_a_line_per_row_metric_and_bucket(folder: Path) -> None:
    all_lines = lines(folder, "--by", "length:10,30")
    assert len(all_lines) == 3 * 2 * 4
    long = [line for line in all_lines if line["from"] == "31" and line["metric"] == "ppl"]
    assert [line["row"] for line in long] == [*ROWS]
    assert {line["samples"] for line in long} == {"10"}
    nats = [line for line in sentences("base", 1) if line["pieces"] > 30]
    seed_1 = sum(line["nats"] for line in nats) / sum(line["pieces"] for line in nats)
    assert float(long[0]["score"]) == pytest.approx(math.exp(seed_1), rel=0.02)
    assert float(long[1]["delta"]) == pytest.approx(
        float(long[1]["score"]) - float(long[0]["score"])
    )
    assert (long[1]["p"], long[1]["finding"]) == ("", "")
    drift = [line for line in all_lines if line["bucket"] == "last minus first"]
    by_row = {line["row"]: line for line in drift if line["metric"] == "nll"}
    assert float(by_row["a_heads_1"]["delta"]) == pytest.approx(0.285, abs=0.02)
    assert by_row["a_heads_1"]["finding"] == "worse"
    assert by_row["c_layers_2"]["finding"].startswith("undecided")


def test_json_has_the_same_numbers(folder: Path) -> None:
    content = json.loads(printed(folder, "table", "--by", "pieces:20", "--format", "json"))
    first = lines(folder, "--by", "length:20")[0]
    assert content[0]["score"] == float(first["score"])
    assert (content[0]["bucket"], content[0]["by"]) == ("1–20", "pieces")


@pytest.mark.parametrize("kind", ["md", "tex", "html"])
def test_every_format_shows_buckets_with_their_numbers_of_sentences(
    folder: Path, kind: str
) -> None:
    text = printed(folder, "table", "--by", "length", "--format", kind).replace("--", "–")
    assert [text.count(head) > 0 for head in ("1–10", "11–20", "21–30", "31–40")] == [True] * 4
    words = " ".join(re.sub("<[^>]*>", " ", text).split())
    assert "Buckets of 10, 10, 10 and 10 sentences" in words
    assert "Only last minus first is tested, over seeds of 2 rows" in words


def test_a_terminal_shows_a_table_per_metric_and_one_caption(folder: Path) -> None:
    text = " ".join(printed(folder, "table", "--by", "length", "--rows", "base,a_heads_1").split())
    assert "synthetic-tiny: PPL on dev by length in pieces" in text
    assert "synthetic-tiny: BLEU on dev by length in pieces" in text
    assert text.count("Buckets of") == 1
    assert "N 1" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "lenght"], "must be a number that no trial changes: length, pieces"),
        (["--by", "nats"], "must be a number that no trial changes: length, pieces"),
        (["--by", "length:9,3"], "rising numbers"),
        (["--by", "length:"], "rising numbers"),
        (["--by", "length:4,x"], "rising numbers"),
        (["--by", "length:50"], "leaves a bucket empty above 50"),
        (["--by", "length", "--metric", "chrf"], "CHRF"),
        (["--by", "length", "--set", "test"], "no trial of synthetic-tiny has any on test"),
        (["--by", "length", "--best"], "can't be combined with --best"),
        (["--by", "length", "--chosen", "ppl"], "--chosen can't be combined with --by"),
    ],
)
def test_what_cannot_be_grouped_is_refused(folder: Path, options: list[str], words: str) -> None:
    if words == "CHRF":
        words = "has nothing to group"
    assert words in " ".join(refusal(folder, "table", *options).split())


def test_the_report_has_a_figure_per_metric(folder: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    page = tmp_path / "page.html"
    printed(folder, "report", "--output", str(page), "--figures", str(figures))
    assert {"ppl-by-length.svg", "bleu-by-length.svg"} <= {path.name for path in figures.iterdir()}
    text = page.read_text("utf-8")
    assert "Scores by length" in text
    (title,) = re.findall(r"<title>(A\s+h 1[^<]*: 1–10: [^<]*)</title>", text)[:1]
    assert re.search(r"31–40: \d\.\d\d \(\+0\.\d\d\)", title), title
