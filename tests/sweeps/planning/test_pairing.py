"""`sweep.paired` is declared before the first result, recorded, and then kept."""

from pathlib import Path

import pytest
from studies_on_disk import begin, finish

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan_record import study_with_plan
from sweeps.problems import RefusedError
from tracking.study import Study, read_study, write_study

WORDS = ("sweep.name=pairs", "sweep.rows=[base,a_heads_1]")


def declared(here: Path, *words: str) -> Study:
    """What `allelse sweep` with these words leaves as the record."""
    plan = plan_sweep([*WORDS, *words], here=here)
    write_study(study_with_plan(plan, ["allelse", "sweep", *words]))
    return read_study(plan.folder)


def test_it_is_recorded_and_stays_when_it_is_not_typed_again(tmp_path: Path) -> None:
    assert not declared(tmp_path).paired
    assert declared(tmp_path, "sweep.paired=true").paired, "no result has been seen"
    assert declared(tmp_path).paired
    assert not declared(tmp_path, "sweep.paired=false").paired


@pytest.mark.parametrize(("before", "after"), [("true", "false"), ("false", "true")])
def test_after_a_result_another_value_is_refused(tmp_path: Path, before: str, after: str) -> None:
    study = declared(tmp_path, f"sweep.paired={before}")
    trial = study.trials[0]
    finish(study, trial, begin(study.trial_folder(trial)), 30)
    declared(tmp_path, f"sweep.paired={before}")
    with pytest.raises(RefusedError) as raised:
        plan_sweep([*WORDS, f"sweep.paired={after}"], here=tmp_path)
    (problem,) = raised.value.problems
    assert problem.key == "sweep.paired"
    assert problem.found.startswith(f"is {after}, but pairs ")
    assert "sweep.name" in problem.allowed, "the way out"


def test_a_value_that_is_no_truth_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as raised:
        plan_sweep([*WORDS, "sweep.paired=maybe"], here=tmp_path)
    assert [problem.key for problem in raised.value.problems] == ["sweep.paired"]
