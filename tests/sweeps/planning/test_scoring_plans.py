"""Rows that only score, before anything runs: their hosts, keys and costs, and what is refused."""

from pathlib import Path

import pytest
from allelse_in_folder import allelse
from composed_rows import SCALES
from scored_task import HEAD, SOURCE, write_scored
from typed import refused_for

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan import Plan
from sweeps.planning.plan_record import study_with_plan
from tracking.study import read_study, write_study

STUDY = ("task=scored", "sweep.name=s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_scored(tmp_path)


def planned(folder: Path, *words: str, add: bool = False) -> Plan:
    return plan_sweep([*STUDY, *words], here=folder, add=add)


def weights(plan: Plan) -> dict[str, str]:
    return {trial.trial.name: trial.trial.weights for trial in plan.trials}


def test_a_row_that_changes_scoring_alone_takes_the_weights_of_the_row_it_builds_on(
    folder: Path,
) -> None:
    plan = planned(folder, "sweep.rows=[base,big_greedy,greedy,mean,big]", "sweep.seeds=[1,2]")
    for seed in (1, 2):
        assert weights(plan)[f"greedy-s{seed}"] == weights(plan)[f"mean-s{seed}"] == f"base-s{seed}"
        assert weights(plan)[f"big_greedy-s{seed}"] == f"big-s{seed}", (
            "whatever the order of the rows"
        )
        assert weights(plan)[f"base-s{seed}"] == weights(plan)[f"big-s{seed}"] == ""
    assert len({trial.trial.key for trial in plan.trials}) == 10
    assert [trial.trial.row for trial in plan.pending if trial.trial.seed == 1][:2] == [
        "base",
        "big",
    ], "hosts first"


def test_made_rows_score_the_row_that_they_are_made_of(folder: Path) -> None:
    plan = planned(folder, "row=base,big", "score.beam=1,4")
    assert weights(plan) == {
        "base-s1": "",
        "beam_1-s1": "base-s1",
        "big-s1": "",
        "big-beam_1-s1": "big-s1",
    }
    varied = planned(folder, "sweep.vary={score.beam: [1, 8], score.average: [3]}")
    assert set(weights(varied).values()) == {"", "base-s1"}
    (base,) = [trial for trial in varied.trials if trial.host is None]
    assert base.kept_steps == (3, 4, 5), "what rows average stays"


def test_a_plan_says_what_only_scores_and_what_is_trained_although_it_scores(folder: Path) -> None:
    output = " ".join(
        allelse(folder, "plan", *STUDY, "sweep.rows=[base,greedy,both]").stdout.split()
    )
    assert "scores base's weights" in output
    assert "3 of 3 trials, 1 of them only score" in output
    assert (
        "Trained, not only scored: both changes keys that train as well as keys that score"
        in output
    )
    (trial,) = [
        candidate
        for candidate in planned(folder, "sweep.rows=[base,greedy]").trials
        if candidate.host
    ]
    assert (trial.costs.flops, trial.costs.checkpoint_bytes) == (0.0, 0.0)


def test_settings_for_the_whole_study_leave_a_row_alone_that_sets_its_own(folder: Path) -> None:
    plan = planned(folder, "sweep.rows=[base,greedy,mean,both]", "score.beam=8")
    assert {trial.trial.row: trial.config.score.beam for trial in plan.trials} == {
        "base": 8,
        "greedy": 1,
        "mean": 8,
        "both": 2,
    }


def test_a_study_keeps_the_hosts_that_it_has_recorded(folder: Path) -> None:
    write_study(study_with_plan(planned(folder, "sweep.rows=[base,greedy]"), ["allelse"]))
    added_plan = planned(folder, "sweep.rows=[base,mean]", add=True)
    assert weights(added_plan)["mean-s1"] == "base-s1"
    stored = read_study(folder / "runs/s")
    assert {trial.name: trial.weights for trial in stored.trials} == {
        "base-s1": "",
        "greedy-s1": "base-s1",
    }
    text = (folder / "runs/s/study.json").read_text("utf-8").replace('"weights": ""', '"later": ""')
    assert '"later"' in text
    older_text = text.replace(',\n   "later": ""', "")
    (folder / "runs/s/study.json").write_text(older_text, "utf-8")
    assert read_study(folder / "runs/s").trials == stored.trials, (
        "a study without the field is read"
    )


def test_a_scoring_row_whose_file_was_renamed_is_known_by_its_key(folder: Path) -> None:
    write_study(study_with_plan(planned(folder, "sweep.rows=[base,greedy]"), ["allelse"]))
    rows = folder / "conf/task/scored/row"
    (rows / "greedy.yaml").rename(rows / "slow.yaml")
    renamed_plan = planned(folder, "sweep.rows=[base,slow]")
    assert weights(renamed_plan) == {"base-s1": "", "greedy-s1": "base-s1"}
    assert any("slow is the row greedy of s" in note for note in renamed_plan.composition.notes)


def test_a_recorded_row_keeps_its_section_when_its_file_names_another(folder: Path) -> None:
    write_study(study_with_plan(planned(folder, "sweep.rows=[base,big,both]"), ["allelse"]))
    file = folder / "conf/task/scored/row/big.yaml"
    file.write_text(file.read_text("utf-8").replace("group: A", "group: Z"), "utf-8")
    study = study_with_plan(
        planned(folder, "sweep.rows=[big]", "sweep.seeds=[2]", add=True), ["allelse"]
    )
    assert [trial.name for trial in study.trials] == ["base-s1", "big-s1", "both-s1", "big-s2"]


REFUSED = [
    (
        ["sweep.rows=[base,big_greedy]"],
        ["sweep.rows (conf/task/scored/row/big_greedy.yaml) … of big, but big is not"],
    ),
    (
        ["sweep.rows=[greedy]"],
        ["sweep.rows (conf/task/scored/row/greedy.yaml) … of base, but base is not in the study"],
    ),
    (
        ["sweep.rows=[base,greedy]", "sweep.seeds=[1,2]", "sweep.base_seeds=[1]"],
        ["sweep.seeds (conf/task/scored/row/greedy.yaml) … of base, but base has no seed 2"],
    ),
    (
        ["sweep.rows=[base,greedy]", "score.beam=1"],
        ["sweep.rows (conf/task/scored/row/greedy.yaml) … greedy and base"],
    ),
    (
        ["sweep.rows=[base,greedy]", "sweep.vary={score.beam: [1]}"],
        ["sweep.rows … score the same weights in the same"],
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_row_without_its_host_is_refused_with_its_file(folder: Path, case: int) -> None:
    words, reasons = REFUSED[case]
    refused_for(folder, reasons, "sweep", *STUDY, *words)
    assert not (folder / "runs/s").exists()


def test_a_row_that_equals_its_host_after_scaling_is_refused(folder: Path) -> None:
    beam = "    beam: Annotated[int, Range(1), Scores()]\n"
    source = SOURCE.replace(beam, beam + "    exact: Annotated[bool, Scores()]\n")
    (folder / "scored.py").write_text(source, "utf-8")
    conf = folder / "conf/task/scored"
    base = (conf / "base.yaml").read_text("utf-8")
    (conf / "base.yaml").write_text(base.replace("beam: 4", "beam: 4, exact: false"), "utf-8")
    (conf / "row/exact.yaml").write_text(
        f"{HEAD}row: {{group: C}}\nscore: {{exact: true}}\n", "utf-8"
    )
    (conf / "scale").mkdir()
    (conf / "scale/small.yaml").write_text(
        f"{HEAD}scale: {{name: small}}\nscore: {{exact: true}}\n", "utf-8"
    )
    words = ("sweep.rows=[base,exact]",)
    assert weights(planned(folder, *words)) == {"base-s1": "", "exact-s1": "base-s1"}
    reason = (
        "score.exact (conf/task/scored/row/exact.yaml:3) … at scale small the row would not "
        "differ from base"
    )
    refused_for(folder, [reason], "sweep", *STUDY, *words, "scale=small")


@pytest.mark.parametrize("scale", SCALES)
def test_the_sweep_of_decoding_trains_base_alone_at_each_scale(tmp_path: Path, scale: str) -> None:
    plan = plan_sweep(["sweep=decoding", f"scale={scale}"], here=tmp_path)
    (base,) = [trial for trial in plan.trials if trial.host is None]
    scored = [trial for trial in plan.trials if trial.host is not None]
    assert [trial.trial.weights for trial in scored] == ["base-s1"] * 5
    decodings = [trial.config.decode for trial in plan.trials]
    assert {decode.beam for decode in decodings} == {1, 4, 8}
    assert {decode.alpha for decode in decodings} == {0.0, 0.6, 1.0}
    (averaging,) = [trial for trial in scored if trial.config.decode.average_checkpoints == 5]
    every = averaging.config.decode.average_every
    last_step = base.steps // every * every
    assert {last_step - index * every for index in range(5)} <= {*base.kept_steps}
    assert min(base.kept_steps) > 0
