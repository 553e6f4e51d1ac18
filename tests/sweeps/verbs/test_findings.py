"""What a table, a report, a comparison and MLflow say of differences: every scenario on files, by
the command line."""

import csv
import html
import io
import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentence_studies
from studies_on_disk import DECODE, begin, finish
from typed import printed

from tracking import words
from tracking.mlflow.pages import row_words, study_files
from tracking.statistics.seeds.finding import ALPHA
from tracking.study import Study, StudyTrial, read_study, write_study
from tracking.table.study_table import whole_table
from tracking.words import time
from transformer.card import CARD

Scores = Mapping[str, Sequence[float | None]]
"""Row -> BLEU of seeds 1, 2, …; None: the seed diverged. PPL is e^(BLEU / 20)."""
BASE = (30.0, 30.4, 29.6)
ROWS: Scores = {
    "base": (*BASE, 30.1, 30.2, 29.8, 29.9, 30.3, 29.7),
    "much_worse": (20.0, 20.5, 19.6),
    "much_better": (40.2, 39.9, 40.1),
    "like": (30.2, 29.8, 30.1),
    "slightly_worse": (28.1, 28.4, 28.0),
    "noisy": (25.0, 31.0, 32.0),
    "two_seeds": (31.0, 29.0),
    "lost_one": (31.0, None, 29.0),
}
SEEDS_STEP = 7


def study_of(
    folder: Path,
    scores: Scores,
    margins: Mapping[str, float] | None = None,
    published: Mapping[str, float] | None = None,
) -> Study:
    """A study of hand-made folders, in ``runs/made``."""
    home = (folder / "runs" / "made").resolve()
    paper = published or {}
    trials = tuple(
        StudyTrial(
            row,
            row,
            "",
            seed,
            f"{row}-{seed}",
            {"bleu": paper.get(row), "ppl": None, "params_m": None},
        )
        for row, values in scores.items()
        for seed in range(1, len(values) + 1)
    )
    requests = (
        {
            "ts": "2020-01-01T00:00:00Z",
            "command": "allelse sweep",
            "added": [trial.name for trial in trials],
        },
    )
    study = Study(home, trials, {}, requests, margins=dict(margins or {}), task=CARD)
    write_study(study)
    for trial in trials:
        bleu = scores[trial.row][trial.seed - 1]
        path = study.trial_folder(trial).result_path
        value = 10.0 if bleu is None else bleu
        finish(
            study,
            trial,
            begin(study.trial_folder(trial)),
            30,
            bleu=value,
            ppl=math.exp(value / 20),
            nll=value / 20,
        )
        if bleu is None:
            path.write_text(json.dumps(json.loads(path.read_text()) | {"diverged": SEEDS_STEP}))
    return study


def output_of(folder: Path, *words: str) -> str:
    return printed(folder, *words, "sweep.name=made")


def lines(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    return {
        line["row"]: line
        for line in json.loads(output_of(folder, "table", "--format", "json", *options))
    }


def report_page(folder: Path) -> str:
    output_of(folder, "report", "--no-figures")
    return html.unescape((folder / "runs" / "made" / "report.html").read_text("utf-8"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("made")
    study_of(folder, ROWS)
    return folder


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with δ: 3 BLEU."""
    folder: Path = tmp_path_factory.mktemp("stated")
    study_of(folder, ROWS, {"bleu": 3.0})
    return folder


def test_each_row_says_one_thing(made: Path, stated: Path) -> None:
    plain = {row: line["finding_bleu"].partition(":")[0] for row, line in lines(made).items()}
    assert plain == {
        **{
            "base": "reference",
            "much_worse": "worse",
            "much_better": "better",
            "like": "undecided",
        },
        **{
            "slightly_worse": "worse",
            "noisy": "undecided",
            "two_seeds": "not tested",
            "lost_one": "not tested",
        },
    }
    with_margin = {
        row: line["finding_bleu"].partition(":")[0] for row, line in lines(stated).items()
    }
    assert with_margin == plain | {
        **{"much_better": "better by at least 3", "like": "no worse than δ"},
        "slightly_worse": "worse, by less than 3",
    }


def test_opposite_findings_share_no_mark_and_the_caption_tells_each(stated: Path) -> None:
    text = output_of(stated, "table", "--format", "md", "--intervals")
    cells = {}
    for row in ROWS:
        cells[row] = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    # those of BLEU
    marks = {row: re.findall(r"(?<=\d)[▲▼▽◇⇈?]", line)[1:] for row, line in cells.items()}
    assert {row: symbols for row, symbols in marks.items() if symbols} == {
        **{
            "much_worse": ["▼"],
            "much_better": ["⇈"],
            "like": ["◇"],
            "slightly_worse": ["▽"],
            "noisy": ["?"],
        },
    }
    for sentence in (
        "5 rows (3 seeds) are compared with base (9 seeds)",
        "⇈: better than base by at least δ.",
        "▼: worse than base.",
        "▽: worse than base, by less than δ.",
        "◇: no worse than δ: worse than base by less than δ, if at all.",
        "▲ and ▼ mean better and worse: lower PPL is better.",
        "?: undecided: there may still be a difference.",
        "δ: BLEU 3, as the study states (sweep.margin).",
        "[ ]: 95 % interval of Δ, over seeds of row and base, adjusted over all rows (Bonferroni).",
        "Not tested over seeds: two_seeds (2 seeds), lost_one (1 of 3 diverged).",
        "Δ: difference from base, between means over all seeds of both",
    ):
        assert sentence in text
    assert "With the stated margin δ (BLEU 3), the intervals also show" in report_page(stated)


def test_undecided_names_the_seeds_and_the_time_that_would_decide(made: Path, stated: Path) -> None:
    """More than there are now; of δ where one is stated, and each seed took 3700 s."""
    for folder in (made, stated):
        finding = lines(folder)["noisy"]["finding_bleu"]
        seeds = int(finding.split()[5])
        assert seeds > 3
        duration = time((seeds - 3 + max(0, seeds - 9)) * 3700)
        assert finding == f"undecided: 80 % power needs {seeds} seeds, about {duration}"
    assert "for 80 % power at a difference of δ" in output_of(stated, "table", "--format", "md")


def test_formats_report_comparison_and_mlflow_agree_to_the_last_digit(made: Path) -> None:
    study = read_study(made.resolve() / "runs" / "made")
    table = whole_table(study)
    csv_rows = {
        csv_row["row"]: csv_row
        for csv_row in csv.DictReader(io.StringIO(output_of(made, "table", "--format", "csv")))
    }
    files = study_files(table)
    mlflow_rows = {
        csv_row["row"]: csv_row for csv_row in csv.DictReader(io.StringIO(files["table.csv"]))
    }
    page = report_page(made)
    texts = (
        files["table.md"],
        output_of(made, "table", "--format", "md"),
        html.unescape(re.sub("<[^>]+>", "", output_of(made, "table", "--format", "html"))),
        output_of(made, "table"),
        page,
    )
    tex = output_of(made, "table", "--format", "tex")
    for name in ("much_worse", "noisy"):
        line = lines(made)[name]
        shared = [column for column in csv_rows[name] if column in mlflow_rows[name]]
        assert [mlflow_rows[name][column] for column in shared] == [
            csv_rows[name][column] for column in shared
        ]
        words = row_words(table)[name]["bleu"].split(", ")[-1]
        assert all(words in text for text in texts), (name, words)
        assert line["finding_bleu"] in page
        assert {"▼": r"\bigtriangledown", "?": "?"}[words[-1]] in tex
        agree(made, name, line, csv_rows[name])


def agree(folder: Path, row: str, line: Mapping[str, Any], csv_row: Mapping[str, str]) -> None:
    """JSON, CSV, the comparison and the scores say the same of the row."""
    values = [value for value in ROWS[row] if value is not None]
    base_values = [value for value in ROWS["base"] if value is not None]
    assert line["delta_bleu"] == pytest.approx(
        sum(values) / len(values) - sum(base_values) / len(base_values)
    ), "over all seeds of both"
    numbers = ("low", "high", "p", "finding")
    for name in (
        "delta_bleu",
        "delta_ppl",
        *(f"{number}_{metric}" for number in numbers for metric in ("bleu", "ppl")),
    ):
        assert type(line[name])(csv_row[name]) == line[name], name
    compared = json.loads(output_of(folder, "compare", "base", row, "--json"))["pairs"][0][
        "metrics"
    ]
    for metric in ("bleu", "ppl"):
        comparison = next(entry for entry in compared if entry["metric"] == metric)
        assert comparison["difference"] == line[f"delta_{metric}"]
        assert [comparison["over_seeds"][number] for number in numbers] == [
            line[f"{number}_{metric}"] for number in numbers
        ]


def test_a_diverged_seed_leaves_the_mean_and_takes_its_row_out_of_the_family(made: Path) -> None:
    """It is finished, and costs what the others do."""
    line = lines(made)["lost_one"]
    assert (line["bleu"], line["seeds"], line["diverged"], line["finding_bleu"]) == (
        *(30.0, 2, [2]),
        "not tested: 1 of 3 diverged",
    )
    assert line["note"] == "1 of 3 diverged (s2 at step 7): mean of the others"
    assert (line["p_bleu"], line["low_bleu"]) == (None, None)
    page = report_page(made)
    number = sum(map(len, ROWS.values()))
    for sentence in (
        f"{number} of {number} trials finished",
        words.flops(9.52e17 * number),
        f"1 of {number} trials diverged and is excluded (lost_one-s2).",
    ):
        assert sentence in page


def test_a_diverged_seed_of_base_leaves_the_others_in_the_tests(tmp_path: Path) -> None:
    study_of(tmp_path, {**ROWS, "base": (*BASE, None, 30.1), "gone": (None, None)})
    rows = lines(tmp_path)
    assert rows["base"]["note"] == "1 of 5 diverged (s4 at step 7): mean of the others"
    assert rows["much_worse"]["finding_bleu"] == "worse"
    assert (rows["gone"]["seeds"], rows["gone"]["bleu"]) == (0, None)
    assert "compared with base (4 seeds)" in output_of(tmp_path, "table", "--format", "md")


def test_settings_mixed_over_the_seeds_of_base_are_the_reason_of_every_row(tmp_path: Path) -> None:
    study = study_of(tmp_path, {"base": BASE, "a": BASE, "b": BASE})
    path = study.trial_folder(study.trials[0]).result_path
    result = json.loads(path.read_text())
    result["scores"]["dev"]["decode"] = {**DECODE, "beam": 8}
    path.write_text(json.dumps(result))
    rows = lines(tmp_path)
    assert {
        row: line["finding_bleu"] for row, line in rows.items() if row != "base"
    } == dict.fromkeys("ab", "not tested: base: mixed settings")
    assert rows["a"]["finding_ppl"].startswith("undecided"), (
        "the settings of beam search do not change it"
    )
    text = output_of(tmp_path, "table", "--format", "md")
    assert "Not tested over seeds: a, b (BLEU: base: mixed settings)." in text
    assert "no base" not in text


def test_a_diverged_seed_is_in_no_number(tmp_path: Path) -> None:
    """Neither in tests over sentences, nor in the best reports."""
    rows = {"base": 0.6, "better": 0.95, "lost": 0.95}
    study = sentence_studies.make(tmp_path / "runs" / "made", rows, seeds=(1, 2))
    for trial in study.trials:
        folder = study.trial_folder(trial)
        assert folder.report(1, 20, {"dev/accuracy": 0.1 * trial.seed})
        if trial.row == "lost" and trial.seed == 2:
            result = json.loads(folder.result_path.read_text())
            folder.result_path.write_text(json.dumps(result | {"diverged": 5}))
    pair = json.loads(
        output_of(tmp_path, "compare", "base", "lost", "--metric", "accuracy", "--json")
    )["pairs"][0]
    assert list(pair["metrics"][0]["over_samples"]) == ["seed 1"]
    assert list(lines(tmp_path)["lost"]["best_by_seed"]) == ["1"]
    assert "1 of 2 diverged" in output_of(tmp_path, "table", "--format", "md")


def test_two_studies_are_adjusted_over_all_pairs(tmp_path: Path) -> None:
    """Each pair alone would be marked at 5 %, so that of 20 pairs one is marked by chance."""
    scores = dict.fromkeys(("base", "a", "b", "c"), BASE) | {"few": (30.0, 30.1)}
    study_of(tmp_path, scores)
    second_study = study_of(tmp_path / "other", scores | {"a": (31.2, 31.6, 30.8)})
    shutil.copytree(second_study.folder, tmp_path / "runs" / "other")

    def pair_of(*words: str) -> Any:
        pairs = json.loads(output_of(tmp_path, "compare", *words, "--json"))["pairs"]
        row_pair = next(pair for pair in pairs if "a-s1" in pair["first"]["trials"])
        return next(entry for entry in row_pair["metrics"] if entry["metric"] == "bleu")

    single_pair = pair_of("made/a", "other/a")
    four_pairs = pair_of("made", "other")
    assert (single_pair["rows"], four_pairs["rows"]) == (1, 4)
    assert single_pair["over_seeds"]["p"] <= ALPHA < four_pairs["over_seeds"]["p"]
    assert four_pairs["over_seeds"]["p"] == pytest.approx(4 * single_pair["over_seeds"]["p"])
    assert four_pairs["over_seeds"]["low"] < 0 < single_pair["over_seeds"]["low"]
    assert four_pairs["over_seeds"]["finding"].startswith("undecided")
    assert "adjusted over the 4 pairs compared (Bonferroni)" in output_of(
        tmp_path, "compare", "made", "other"
    )
    assert "interval and p for this pair." in output_of(tmp_path, "compare", "made/a", "other/a")


def test_a_comparison_names_the_table_that_says_the_same(made: Path) -> None:
    assert "over the 5 rows of the study, as in the table." in output_of(
        made, "compare", "base", "like"
    )
    assert "as in the table with --base like." in output_of(made, "compare", "like", "noisy")
    metrics = json.loads(output_of(made, "compare", "like", "noisy", "--json"))["pairs"][0][
        "metrics"
    ]
    over_seeds = next(entry for entry in metrics if entry["metric"] == "bleu")["over_seeds"]
    assert over_seeds["p"] == lines(made, "--base", "like")["noisy"]["p_bleu"]


def test_a_marked_row_whose_interval_holds_zero_is_explained(tmp_path: Path) -> None:
    """Holm marks the last of several rows by an uncorrected p; its interval is corrected for
    all."""
    study_of(tmp_path, {"base": BASE, "far": (10.0, 10.2, 9.8), "near": (29.15, 29.55, 28.85)})
    line = lines(tmp_path)["near"]
    assert line["p_bleu"] <= ALPHA
    assert line["low_bleu"] < 0 < line["high_bleu"]
    text = output_of(tmp_path, "table", "--intervals", "--format", "md")
    assert (
        "Marked although the interval contains 0, because intervals are adjusted more strictly: "
        "near." in text
    )
    assert "Marked although" not in output_of(
        tmp_path, "table", "--intervals", "--rows", "base,far", "--format", "md"
    )
