"""The spread over seeds seen so far, the seeds that a difference would need, and seeds added after first results."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from studies_on_disk import begin, finish, make_study

from tracking.statistics.power import seeds_needed_lines
from tracking.statistics.seeds import later_note
from tracking.study import Study

SCORES = {"base": {1: 29.0, 2: 31.0, 3: 33.0}, "a_heads_1": {1: 27.0, 2: 28.0}, "c_layers_2": {1: 20.0}}


def scored(folder: Path, scores: dict[str, dict[int, float | None]]) -> Study:
    """A study whose trials have these BLEU scores, and an NLL of a hundredth of them."""
    study = make_study(folder, {row: list(seeds) for row, seeds in scores.items()})
    for trial in study.trials:
        bleu = scores[trial.row][trial.seed]
        nll = None if bleu is None else bleu / 100
        ppl = None if nll is None else math.exp(nll)
        finish(study, trial, begin(study.trial_folder(trial)), 30, bleu=bleu, nll=nll, ppl=ppl)
    return study


def test_lines_of_a_study(tmp_path: Path) -> None:
    """√(8.5 / 3) BLEU is that of all seeds, and 2 that of base, which has more. Of NLL, and so of PPL, a hundredth."""
    study = scored(tmp_path / "study", {row: dict(of) for row, of in SCORES.items()})
    heading, ppl, bleu = seeds_needed_lines(study)
    assert heading.endswith("if 2 rows are compared with base:")
    assert "with at least 3 of base" in heading
    assert re.fullmatch(
        r"BLEU: 2 with 1\d, 5 with [45], 10 with 3 \(sd over seeds 1.7 to 2, 3 degrees of freedom\).", bleu
    )
    assert ppl.startswith("PPL: 2 % with ")
    assert ppl.endswith("(sd over seeds 1.7 % to 2 %, 3 degrees of freedom).")


def test_one_seed_says_nothing(tmp_path: Path) -> None:
    assert seeds_needed_lines(scored(tmp_path / "study", {"base": {1: 30.0}, "a_heads_1": {1: 29.0}})) == []
    assert seeds_needed_lines(make_study(tmp_path / "empty", {"base": [1, 2, 3]})) == []


def test_base_alone_is_planned_for_one_row_that_varies_like_it(tmp_path: Path) -> None:
    heading, _, bleu = seeds_needed_lines(scored(tmp_path / "study", {"base": {1: 29.0, 2: 31.0, 3: 33.0}}))
    assert heading.endswith("if one row is compared with base:")
    assert "(sd over seeds 2, 2 degrees of freedom)" in bleu


EARLY, LATE = "2020-01-01T00:00:00+00:00", "2999-01-01T00:00:00Z"


def with_commands(study: Study, *asked: tuple[str, list[int], list[str]]) -> Study:
    """Commands with their times, the seeds of base that they add, and the trials that they drop."""
    return replace(
        study,
        asked=tuple(
            {"ts": ts, "command": "allelse sweep", "added": [f"base-s{seed}" for seed in seeds], "dropped": dropped}
            for ts, seeds, dropped in asked
        ),
    )


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([(EARLY, [1], []), (LATE, [2, 3], []), (LATE, [], [])], "Seeds were added once after first results (2, 3):"),
        ([(EARLY, [1, 2], []), (LATE, [3], []), (LATE, [4], [])], "Seeds were added twice after first results (3, 4):"),
        ([(EARLY, [1], []), (EARLY, [2, 3, 4], [])], ""),
        ([(EARLY, [1, 2, 3, 4], []), (LATE, [], ["a-s1"])], "Trials were dropped once after first results:"),
        ([(LATE, [1, 2, 3, 4], [])], ""),  # a row that is new itself
    ],
)
def test_what_was_added_or_dropped_after_first_results(
    tmp_path: Path, asked: list[tuple[str, list[int], list[str]]], told: str
) -> None:
    """Also where the planned seeds of a row finish late: only what a command added counts."""
    study = scored(tmp_path / "study", {"base": {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}})
    assert later_note(with_commands(study, *asked)).partition(" p values")[0] == told
    gone = replace(study, asked=({"ts": EARLY, "command": "allelse drop", "dropped": ["a-s1"], "saw_results": True},))
    assert "dropped once" in later_note(gone), "though the result that was seen is dropped with its trial"
