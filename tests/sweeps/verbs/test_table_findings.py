"""What a table says follows from the record: every digit, every difference, every reason, by the
command line."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import other_tasks
import pytest
import sentence_studies
from finished_trials import study_in, sweep
from place import FILES, STUDY, TOY, Place
from typed import printed

from tracking.card import Card, Metric
from tracking.study import Study, StudyTrial, read_study, write_study

LOSS = Metric("loss", better="down", set="test")
Scores = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Row -> seed -> scores on the set test."""
THREE = (1, 2, 3)


def losses(values: Mapping[str, Sequence[float]]) -> Scores:
    """Of seeds 1, 2, …"""
    scores: dict[str, dict[int, dict[str, float]]] = {}
    for row, row_values in values.items():
        scores[row] = {seed: {"loss": value} for seed, value in enumerate(row_values, 1)}
    return scores


def made_study(
    folder: Path,
    scores: Scores,
    metrics: tuple[Metric, ...] = (LOSS,),
    published: Mapping[str, Mapping[str, float]] | None = None,
    **fields: Any,
) -> Study:
    """A finished study of hand-written folders, in ``runs/made``."""
    figures: dict[str, float | None] = dict.fromkeys([metric.name for metric in metrics])
    trials = tuple(
        StudyTrial(
            *(row, "base" if row == "base" else "A", f"change of {row}", seed, f"{row}-{seed}"),
            figures | dict((published or {}).get(row, {})),
        )
        for row, seeds in scores.items()
        for seed in seeds
    )
    home = (folder / "runs" / "made").resolve()
    write_study(Study(home, trials, {}, (), task=Card("toy", 1, metrics), **fields))
    study = read_study(home)
    for index, trial in enumerate(trials):
        other_tasks.train(study, index, {"test": dict(scores[trial.row][trial.seed])})
    return study


def table(folder: Path, *words: str) -> str:
    return " ".join(printed(folder, "table", "sweep.name=made", *words).split())


def rows(folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    text = printed(folder, "table", "sweep.name=made", "--format", "json", *words)
    return {row["row"]: row for row in json.loads(text)}


def csv_rows(folder: Path, *words: str) -> dict[str, dict[str, str]]:
    text = printed(folder, "table", "sweep.name=made", "--format", "csv", *words)
    return {row["row"]: row for row in csv.DictReader(io.StringIO(text))}


def test_a_small_value_is_never_shown_as_zero_nor_written_as_one(tmp_path: Path) -> None:
    small = (2.00e-10, 1.97e-10, 1.97e-10)
    made_study(tmp_path, losses({"base": (1.00e-10, 1.02e-10, 1.01e-10), "small": small}))
    row = rows(tmp_path)["small"]
    line = csv_rows(tmp_path)["small"]
    assert row["low_loss"] < row["delta_loss"] < row["high_loss"]
    assert row["delta_loss"] == row["loss"] - rows(tmp_path)["base"]["loss"]
    assert float(line["delta_loss"]) == row["delta_loss"]
    text = table(tmp_path, "--intervals")
    assert "+9.7e−11▼" in text
    assert "1.0e−10" in text
    assert "[+" in text
    made_study(tmp_path / "alike", losses({"base": (0.9, 0.8), "same": (0.85, 0.85)}))
    assert rows(tmp_path / "alike")["same"]["delta_loss"] == 0.0, (
        "only rounding errors set the two means apart"
    )


def test_seeds_added_after_results_are_said_on_any_clock(tmp_path: Path) -> None:
    """Results of the first seeds were written by a machine whose clock is centuries ahead."""
    rows_typed = "sweep.rows=[base,big]"
    sweep(tmp_path, rows_typed, "sweep.seeds=[1,2,3]")
    for trial in study_in(tmp_path).trials:
        folder = study_in(tmp_path).trial_folder(trial)
        result = folder.result()
        assert result is not None
        result["scores"]["dev"] |= {"bleu": 30.0 + trial.seed, "nll": 1.5 + trial.seed / 10}
        folder.write_result(result)
        attempts = [json.loads(line) for line in folder.attempts_path.read_text().splitlines()]
        folder.attempts_path.write_text(
            "".join(json.dumps(line | {"ts": 9e10}) + "\n" for line in attempts)
        )
    assert "Seeds were added" not in printed(tmp_path, "table", "--format", "md")
    sweep(tmp_path, rows_typed, "sweep.seeds=[4]", add=True)
    assert "Seeds were added once after first results (4)" in printed(
        tmp_path, "table", "--format", "md"
    )


def test_a_row_that_builds_on_another_has_no_published_figures_of_it(tmp_path: Path) -> None:
    """The example of docs/configuration.md, and a row that states a figure of its own."""
    example = (
        '# @package _global_\ndefaults: [big, _self_]\nrow: {group: big, change: "big, '
        'P_drop 0.1"}\n'
    )
    stated = "# @package _global_\ndefaults: [big, _self_]\nrow: {published: {bleu: 26.0}}\n"
    (tmp_path / "conf" / "row").mkdir(parents=True)
    (tmp_path / "conf" / "row" / "big_dropout.yaml").write_text(
        example + "model: {p_drop: 0.1}\n", "utf-8"
    )
    (tmp_path / "conf" / "row" / "stated.yaml").write_text(
        stated + "model: {p_drop: 0.2}\n", "utf-8"
    )
    sweep(tmp_path, "sweep.rows=[base,big,big_dropout,stated]", "sweep.seeds=[1,2,3]")
    study = study_in(tmp_path)
    published = {trial.row: trial.published for trial in study.trials}
    assert published["big"] == {"ppl": 4.33, "bleu": 26.4, "params_m": 213}
    assert set(published["big_dropout"].values()) == {None}
    assert {name: value for name, value in published["stated"].items() if value is not None} == {
        "bleu": 26.0
    }
    assert "P_drop 0.2" in study.trials[-1].change, "its change is said in its own words"
    lines = json.loads(printed(tmp_path, "table", "--format", "json"))
    row = next(line for line in lines if line["row"] == "big_dropout")
    assert [row["paper_ppl"], row["paper_delta_ppl"], row["verdict_ppl"]] == [None, None, ""]


PPL = Metric("ppl", "PPL", better="down", decimals=2, set="test", within="pieces")
ACCURACY = Metric("accuracy", set="test")


def pieces_study(folder: Path, pieces: Mapping[str, str]) -> Study:
    """Rows with their vocabulary; where it is empty, trials do not record it. The data of v500 is
    another."""
    scores: dict[str, dict[int, dict[str, Any]]] = {}
    for index, (row, digest) in enumerate(pieces.items()):
        recorded = {"pieces": digest} if digest else {}
        scores[row] = {
            seed: {
                "ppl": 4.0 + index + seed / 50,
                "accuracy": 0.5 + index / 10 + seed / 90,
                **recorded,
            }
            for seed in THREE
        }
    published = {row: {"ppl": 5.0 + index} for index, row in enumerate(pieces)}
    study = made_study(folder, scores, (PPL, ACCURACY), published)
    for trial in study.trials:
        if trial.row == "v500":
            path = study.trial_folder(trial).config_path
            path.write_text(path.read_text("utf-8").replace("f" * 64, "e" * 64), "utf-8")
    return study


VOCABULARIES = {"base": "a", "deep": "a", "wide": "a", "thin": "a", "v500": "b"}


def test_scores_over_other_pieces_have_no_difference_in_any_output(tmp_path: Path) -> None:
    study = pieces_study(tmp_path, VOCABULARIES)
    row = rows(tmp_path)["v500"]
    assert (row["delta_ppl"], row["paper_delta_ppl"], row["p_ppl"]) == (None, None, None)
    assert row["finding_ppl"] == "not tested: different pieces from base"
    assert (row["delta_accuracy"] > 0, row["finding_accuracy"]) == (True, "better")
    line = csv_rows(tmp_path)["v500"]
    assert (line["delta_ppl"], line["paper_delta_ppl"]) == ("not compared", "")
    assert line["finding_ppl"] == "not tested: different pieces from base"
    text = table(tmp_path)
    assert "PPL has no Δ where scores can't be compared: v500 (different pieces from base)." in text
    assert "3 to 4 rows (3 seeds) are compared" in text, "the family counts the other rows alone"
    assert "Order of the 3 tested rows" in table(tmp_path, "--verdict")
    printed(tmp_path, "report", "sweep.name=made", "--no-figures")
    assert "v500 (different pieces from base)" in (study.folder / "report.html").read_text("utf-8")
    compared = json.loads(printed(tmp_path, "compare", "base", "v500", "sweep.name=made", "--json"))
    ppl, accuracy = compared["pairs"][0]["metrics"]
    assert (ppl["difference"], ppl["over_seeds"]) == (
        None,
        {"untested": "different pieces from base"},
    )
    assert accuracy["difference"] == row["delta_accuracy"]


def test_trials_that_do_not_record_their_pieces_are_told_apart_by_their_data(
    tmp_path: Path,
) -> None:
    pieces_study(tmp_path, dict.fromkeys(VOCABULARIES, ""))
    row_lines = rows(tmp_path)
    assert row_lines["v500"]["finding_ppl"] == "not tested: different pieces from base"
    assert row_lines["deep"]["delta_ppl"] is not None


def test_perplexities_of_another_vocabulary_are_not_compared(tmp_path: Path) -> None:
    """As a sweep leaves them; these trials do not record their pieces."""
    sweep(
        tmp_path,
        "sweep.rows=[base,big]",
        "sweep.vary={data.vocab_size: [500]}",
        "sweep.seeds=[1,2,3]",
    )
    row_lines = {
        row["row"]: row for row in json.loads(printed(tmp_path, "table", "--format", "json"))
    }
    assert (
        row_lines["vocab_size_500"]["delta_ppl"],
        row_lines["vocab_size_500"]["delta_bleu"],
    ) == (
        None,
        0.0,
    )
    assert row_lines["big"]["delta_ppl"] == 0.0


def test_a_task_of_ones_own_says_within_what_its_scores_compare(tmp_path: Path) -> None:
    """Trained; the toy's rows have other sizes."""
    task = TOY.replace(
        '{"score": done}', '{"score": done, "units": f"size {trial.config.model.size}"}'
    )
    task = task.replace(
        'Metric("score", set="test")', 'Metric("score", set="test", within="units")'
    )
    workplace = Place(tmp_path)
    workplace.write(FILES | {"toy.py": task})
    workplace.train("base")
    workplace.train("size_2", "--add")
    base, size_2 = json.loads(workplace.must("table", STUDY, "--format", "json"))
    assert (base["score"], size_2["score"]) == (4.0, 8.0)
    assert size_2["delta_score"] is None
    assert (
        "score has no Δ where scores can't be compared: size_2 (different units from base)."
        in workplace.table("md")
    )


def test_a_set_of_three_samples_is_not_tested(tmp_path: Path) -> None:
    """The row is right in each of them, and base in none."""
    study = sentence_studies.make(tmp_path / "runs" / "made", {"base": 0.5, "right": 0.5}, (1,))
    for index, chance in enumerate((0.01, 1.0)):
        sentence_studies.finish(study, index, sentence_studies.lines(index, chance)[:3])
    compared = printed(
        tmp_path, "compare", "base", "right", "sweep.name=made", "--metric", "accuracy"
    )
    assert "Not tested over samples: 3 samples" in " ".join(compared.split())


HARD = {
    "base": (0.100, 0.104, 0.102, 0.055, 0.057),
    "still": (0.1047, 0.1067, 0.1027),
    "moved": (0.2, 0.21, 0.19),
}
"""Of loss: base's seeds 4 and 5 are easy ones, so that every row looks worse for them."""


def test_other_seeds_than_those_of_base_are_said_with_the_difference_at_common_seeds(
    tmp_path: Path,
) -> None:
    made_study(tmp_path, losses(HARD | {"moved": (*HARD["moved"], 0.15, 0.16)}))
    still_row = rows(tmp_path)["still"]
    moved = rows(tmp_path)["moved"]
    assert still_row["delta_loss"] == pytest.approx(0.0211), "from the mean over all seeds of base"
    assert still_row["delta_common_seeds_loss"] == pytest.approx(0.0027)
    assert moved["delta_common_seeds_loss"] == moved["delta_loss"]
    assert (
        float(csv_rows(tmp_path)["still"]["delta_common_seeds_loss"])
        == still_row["delta_common_seeds_loss"]
    )
    for text in (table(tmp_path), table(tmp_path, "--format", "md")):
        assert "Seeds differ: base has 1 to 5; still has 1 to 3." in text
        assert "At the common seeds, Δloss is +0.003 (still)." in text


def test_where_base_alone_has_more_seeds_the_caption_stays_short(tmp_path: Path) -> None:
    many_rows = {}
    for number in range(9):
        many_rows[f"row_{number}"] = [value + number / 50 for value in HARD["still"]]
    made_study(tmp_path, losses({"base": HARD["base"], **many_rows}))
    text = table(tmp_path)
    assert "Seeds differ: base has 1 to 5; 9 rows have 1 to 3." in text
    assert "At the common seeds, Δloss is 0.018 lower in 9 rows." in text
    scores = losses({"base": (0.5, 0.6, 0.55), "row": (0.5, 0.6)})
    made_study(tmp_path / "alike", scores)
    assert "At the common seeds, Δ" in table(tmp_path / "alike")
    equal = losses({"base": (0.5, 0.6), "row": (0.5, 0.6)})
    made_study(tmp_path / "equal", equal)
    assert "common seeds" not in table(tmp_path / "equal")


FOUND = {
    "base": (30.0, 30.4, 29.6, 30.1, 30.2, 29.8, 29.9, 30.3, 29.7),
    **{"good": (40.2, 39.9, 40.1), "fine": (35.0, 35.2, 34.9), "bad": (20.0, 20.5, 19.6)},
    **{"like": (30.2, 29.8, 30.1), "noisy": (25.0, 31.0, 32.0), "short": (31.0, 29.0)},
}


@pytest.mark.parametrize(
    ("better", "margin", "line"),
    [
        (
            "up",
            None,
            "2 rows better than base, 1 worse, 2 undecided (3 seeds), 1 not tested (2 seeds)",
        ),
        (
            "down",
            None,
            "1 row better than base, 2 worse, 2 undecided (3 seeds), 1 not tested (2 seeds)",
        ),
        (
            *("up", 3.0),
            "2 rows better than base by at least 3 loss, 1 worse, 1 no worse than 3 loss, "
            "1 undecided (3 seeds), "
            "1 not tested (2 seeds)",
        ),
    ],
)
def test_the_first_line_says_what_was_found(
    tmp_path: Path, better: Any, margin: float | None, line: str
) -> None:
    metric = Metric("loss", better=better, set="test")
    margins = {} if margin is None else {"loss": margin}
    study = made_study(tmp_path, losses(FOUND), (metric,), margins=margins)
    assert table(tmp_path).startswith(f"made {line} ")
    assert printed(tmp_path, "table", "sweep.name=made", "--format", "md").count(f"\n{line}\n") == 1
    assert f"\\caption{{{line}. " in printed(
        tmp_path, "table", "sweep.name=made", "--format", "tex"
    )
    assert f">{line}<" in printed(tmp_path, "table", "sweep.name=made", "--format", "html")
    assert {row["summary"] for row in rows(tmp_path, "--rows", "base,good").values()} == {line}
    printed(tmp_path, "report", "sweep.name=made", "--no-figures")
    page = (study.folder / "report.html").read_text("utf-8")
    assert page.index(f'<h1>made</h1>\n<p class="summary">{line}</p>') < page.index(
        "Ablation study of toy"
    )


def test_with_one_seed_the_first_line_says_that_nothing_was_tested(tmp_path: Path) -> None:
    made_study(tmp_path, losses({row: values[:1] for row, values in FOUND.items()}))
    assert table(tmp_path).startswith("made 6 rows not tested (1 seed) ")


def test_metrics_that_found_different_things_have_a_part_each(tmp_path: Path) -> None:
    pieces_study(tmp_path, VOCABULARIES)
    line = (
        "PPL: 3 rows worse than base (3 seeds), 1 not tested (different pieces from base); "
        "accuracy: 4 rows better"
    )
    assert table(tmp_path).startswith(f"made {line} than base (3 seeds) ")


def test_one_error_is_said_once_with_its_rows(tmp_path: Path) -> None:
    """Two rows failed whole, one with its second seed alone."""
    study = made_study(tmp_path, losses(dict.fromkeys(("base", "a", "b", "c"), (1.0, 1.1))))
    for trial in study.trials:
        if trial.row in ("a", "b") or trial.name == "c-s2":
            folder = study.trial_folder(trial)
            folder.result_path.unlink()
            folder.write_error("RuntimeError: out of memory\nTraceback")
    printed(tmp_path, "report", "sweep.name=made", "--no-figures")
    texts = [table(tmp_path), (study.folder / "report.html").read_text("utf-8")]
    for form in ("md", "tex", "html"):
        texts.append(table(tmp_path, "--format", form))
    for text in texts:
        assert text.count("RuntimeError") == 1, text
        assert "FAILED: RuntimeError: out of memory (a, b, seed 2 of c)" in text
    assert csv_rows(tmp_path)["a"]["note"] == "FAILED: RuntimeError: out of memory"


def test_a_table_without_a_finished_trial_does_not_say_how_costs_came_about(tmp_path: Path) -> None:
    study = made_study(tmp_path, losses({"base": (1.0,), "a": (1.0,)}))
    for trial in study.trials:
        study.trial_folder(trial).result_path.unlink()
        study.trial_folder(trial).write_error("ValueError: no")
    text = table(tmp_path)
    assert "No seed is finished." in text
    assert not any(words in text for words in ("computed", "measured", "difference from base"))
