"""`allelse table`: its formats, its options, and the refusal of each wrong one."""

import csv
import io
import json
import math
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from finished_trials import study_in, sweep
from typed import printed, refusal

from tracking.study import read_study, write_study

ROWS = ("base", "a_heads_1", "c_layers_2", "e_learned_positions")
SHIFTS = {"base": 0.0, "a_heads_1": -6.0, "c_layers_2": 2.0, "e_learned_positions": 0.1}
"""Of BLEU; base has about 30 on dev, and 5 more on test."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four rows with three seeds, written by hand."""
    folder = tmp_path_factory.mktemp("table")
    sweep(folder, f"sweep.rows=[{','.join(ROWS)}]", "sweep.seeds=[1,2,3]")
    study = study_in(folder)
    noise = random.Random(7)
    for trial in study.trials:
        trial_folder = study.trial_folder(trial)
        result = trial_folder.result()
        assert result is not None
        for index, scores in enumerate(result["scores"].values()):
            nll = 1.5 - SHIFTS[trial.row] / 20 + noise.gauss(0, 0.01)
            bleu = 30 + 5 * index + SHIFTS[trial.row] + noise.gauss(0, 0.2)
            scores |= {"nll": nll, "ppl": math.exp(nll), "bleu": bleu, "chrf": bleu + 20}
        trial_folder.report(1, 300, {"dev/ppl": 4.0 + 0.1 * trial.seed})
        trial_folder.report(1, 600, {"dev/ppl": 4.2 + 0.1 * trial.seed})
        trial_folder.write_result(result)
    return folder


def text(folder: Path, *options: str) -> str:
    return printed(folder, "table", *options)


def lines(folder: Path, *options: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text(folder, "--format", "csv", *options))))


def test_another_set_has_its_own_scores_and_no_published_ones(folder: Path) -> None:
    dev = lines(folder)[0]
    test = lines(folder, "--set", "test")[0]
    assert float(test["bleu"]) - float(dev["bleu"]) == pytest.approx(5, abs=0.5)
    assert ("paper_bleu" in dev, "paper_bleu" in test) == (True, False)
    output = " ".join(text(folder, "--set", "test").split())
    assert "PPL and BLEU: measured on test" in output
    assert "Published values" not in output


def test_any_metric_is_a_column_in_the_order_typed(folder: Path) -> None:
    base = lines(folder, "--metric", "chrf", "--metric", "bleu")[0]
    assert [name for name in base if name in ("ppl", "bleu", "chrf")] == ["chrf", "bleu"]
    assert float(base["chrf"]) == pytest.approx(float(base["bleu"]) + 20)
    assert "paper_bleu" in base
    assert base["paper_chrf"] == "", "nothing was published of it"
    assert "ΔchrF" in text(folder, "--metric", "chrf")
    assert float(lines(folder, "--metric", "nll")[0]["nll"]) == pytest.approx(1.5, abs=0.05)


def test_the_best_report_of_training_stands_beside_the_last_checkpoint(folder: Path) -> None:
    base = lines(folder)[0]
    assert (base["steps"], base["best_step"]) == ("600", "300")
    assert float(base["best_ppl"]) == pytest.approx((4.1 * 4.2 * 4.3) ** (1 / 3)), (
        "e^ of the mean NLL"
    )
    content = json.loads(text(folder, "--format", "json"))
    assert content[0]["best_by_seed"] == {"1": [4.1, 300], "2": [4.2, 300], "3": [4.3, 300]}


@pytest.mark.parametrize(
    ("column", "first", "last"),
    [
        ("bleu", "c_layers_2", "a_heads_1"),
        ("ppl", "c_layers_2", "a_heads_1"),
        ("params", "c_layers_2", "e_learned_positions"),
        ("row", "a_heads_1", "e_learned_positions"),
        ("paper_delta_ppl", "base", "c_layers_2"),
        ("p_bleu", "a_heads_1", "base"),
    ],
)
def test_rows_are_sorted_with_the_best_first(
    folder: Path, column: str, first: str, last: str
) -> None:
    rows = [line["row"] for line in lines(folder, "--sort", column)]
    assert (rows[0], rows[-1]) == (first, last)


def test_differences_from_another_row(folder: Path) -> None:
    rows = {line["row"]: line for line in lines(folder, "--base", "a_heads_1")}
    assert float(rows["base"]["delta_bleu"]) == pytest.approx(6, abs=0.5)
    assert float(rows["base"]["paper_delta_ppl"]) == -0.37
    assert (rows["a_heads_1"]["finding_bleu"], rows["base"]["finding_bleu"]) == (
        "reference",
        "better",
    )
    assert "Δ: difference from a_heads_1" in " ".join(text(folder, "--base", "a_heads_1").split())


def test_chosen_seeds_are_the_only_ones_and_the_table_says_so(folder: Path) -> None:
    heads = lines(folder, "sweep.seeds=[1,2]")[1]
    assert (heads["seeds"], heads["finding_bleu"], "bleu_s3" in heads) == (
        "2",
        "not tested: 2 seeds",
        False,
    )
    assert "Only seeds 1, 2 are included; p values do not account for" in text(
        folder, "sweep.seeds=[1,2]", "--format", "md"
    )
    assert "Only seeds" not in text(folder, "sweep.seeds=[1,2,3]", "--format", "md")


def test_verdicts_against_the_paper(folder: Path) -> None:
    table = text(folder, "--verdict", "--format", "md")
    heads = next(line for line in table.splitlines() if "| h 1," in line)
    assert heads.count("| agrees |") == 2, "5.29 against 4.92, and 24.9 against 25.8"
    layers = next(line for line in table.splitlines() if "| N 1 |" in line)
    assert layers.count("| disagrees |") == 2
    assert "Rule for PPL: a row agrees if" in table
    assert {line["row"]: line["verdict_bleu"] for line in lines(folder)}[
        "c_layers_2"
    ] == "disagrees"
    assert "BLEU: verdict" in " ".join(text(folder, "--verdict").split())


WRONG = [
    (
        ["--set", "tset"],
        '--set names "tset", which is not a set with scores must be one of dev, test; '
        "`allelse evaluate TRIAL --set tset` scores another set did you mean test?",
    ),
    (
        ["--metric", "chfr"],
        "which is not a metric of the study must be one of nll, ppl, bleu, bleu_paper, chrf",
    ),
    (["--metric", "bleu_paper"], "bleu_paper was not measured on dev dev has nll, ppl, bleu, chrf"),
    (["--base", "bse"], "did you mean base?"),
    (
        ["--rows", "base,a_heads1"],
        '--rows names "a_heads1", which is not a row of the study must be one of base, a_heads_1',
    ),
    (["--rows", ","], "--rows is empty must be one of base"),
    (["--columns", "ppl,delta_blue"], '--columns names "delta_blue", which is not a column'),
    (["--columns", ""], "--columns is empty must be one of row, group, change"),
    (["--sort", "belu"], "did you mean bleu?"),
    (["sweep.rows=[base,big]"], 'sweep.rows names "big", which is not a row of the study'),
    (
        ["sweep.seeds=[4]"],
        'sweep.seeds names "4", which is not a seed of the study must be one of 1, 2, 3',
    ),
    (["row=a_heads_1"], "row (command line) is not used by a verb that only reads"),
    (["--set", "test", "--verdict"], "--verdict needs published values of base and of another row"),
    (["--label", "a b", "--format", "tex"], '--label is "a b" must be letters, digits and any of'),
    (["--label", "tab:x"], "--label is for LaTeX add --format tex"),
    (["--bse", "base"], "No such option: --bse (Possible options: --base"),
    (["--model.n_heads=8"], "No such option: --model.n_heads; write settings as key=value."),
]


@pytest.mark.parametrize(
    ("options", "message"), WRONG, ids=[" ".join(options) for options, _ in WRONG]
)
def test_a_wrong_option_is_refused_with_what_is_allowed(
    folder: Path, options: list[str], message: str
) -> None:
    assert message in refusal(folder, "table", *options)


def test_a_set_without_scores_is_refused_with_what_scores_it(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.rows=[base]", ends=0)
    assert "must be one of dev; a trial scores its sets when its training ends" in refusal(
        tmp_path, "table", "--set", "test"
    )


def test_all_wrong_options_are_told_at_once(folder: Path) -> None:
    message = refusal(folder, "table", "--set", "x", "--base", "y", "--rows", "z")
    assert all(
        key in message for key in ("for 3 reasons", "--set names", "--base names", "--rows names")
    )


NASTY = r"100 % & <b>$x_1$</b> {\it} ~^# | [a] *†‡° ▲▼▽◇⇈ ε ≥ Δ “ß”"


@pytest.fixture(scope="module")
def nasty(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study with a group, a change and a failure that hold every special letter."""
    workplace = tmp_path_factory.mktemp("nasty")
    shutil.copytree(folder / "runs", workplace / "runs")
    study = read_study(workplace / "runs" / "synthetic-tiny")
    cells = study.cells | {"c_layers_2": {"nota_bene": NASTY, "n_layers": 1}}
    write_study(type(study)(**{**vars(study), "cells": cells}))
    failed_trial = study.trial_folder(study.trials[-1])
    failed_trial.result_path.unlink()
    failed_trial.write_error(f"ValueError: {NASTY}")
    return workplace


PAPER = r"""\documentclass[twocolumn]{article}
\usepackage{PACKAGES}
\begin{document}
\input{table}
\end{document}
"""


@pytest.mark.latex
@pytest.mark.parametrize("packages", ["booktabs", "booktabs,graphicx"])
@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["--verdict", "--best", "--intervals"], "table*"),
        (["--row", "--long"], "table*"),
        (["--columns", "bleu,delta_bleu", "--rows", "base,a_heads_1"], "table"),
        (
            [
                "--columns",
                "bleu",
                "--rows",
                "base,a_heads_1",
                "--caption",
                NASTY,
                "--label",
                "tab:mine",
            ],
            "table",
        ),
    ],
)
def test_latex_is_typeset_in_two_columns(
    nasty: Path, tmp_path: Path, packages: str, options: list[str], environment: str
) -> None:
    table = text(nasty, "--format", "tex", *options)
    assert f"\\begin{{{environment}}}\n" in table
    (tmp_path / "table.tex").write_text(table, "utf-8")
    (tmp_path / "page.tex").write_text(PAPER.replace("PACKAGES", packages), "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert process.returncode == 0, process.stdout.decode("utf-8", "replace")[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
    if environment == "table" and NASTY not in options:
        assert b"Overfull" not in process.stdout


def test_a_page_for_print_has_the_words_of_the_terminal_and_a_short_caption(folder: Path) -> None:
    tex = text(folder, "--format", "tex")
    markdown = text(folder, "--format", "md")
    words = "learned positional embedding instead of sinusoids"
    assert all(words in page for page in (tex, markdown))
    assert not [
        row
        for row in ROWS[1:]
        if row in markdown.partition("\n\n")[0] or row.replace("_", r"\_") in tex
    ]
    assert all(head in tex for head in ("params", "FLOPs", "time", "PPL", "BLEU"))
    caption = tex.partition("\\caption{")[2].partition("\n")[0]
    assert len(caption) < 550
    assert all(
        part in caption
        for part in ("PPL and BLEU on dev", "3 seeds", "better than base", "worse than base")
    )
    assert "interval of" in text(folder, "--format", "tex", "--intervals")
    short_caption = text(folder, "--format", "md", "--short").partition("\n\n")[2]
    assert "PPL and BLEU on dev" in short_caption
    assert len(short_caption) < len(markdown.partition("\n\n")[2]) / 2
    assert len(text(folder, "--format", "tex", "--long")) > len(tex) + 300
    labeled_table = text(
        folder, "--format", "tex", "--row", "--caption", "Mine & yours", "--label", "tab:mine"
    )
    assert all(
        part in labeled_table
        for part in (r"a\_heads\_1", r"\caption{Mine \& yours}", r"\label{tab:mine}")
    )
    assert "a_heads_1" in text(folder, "--row", "--columns", "bleu")
    assert text(folder, "--format", "md", "--no-row") == markdown
