"""A recorded study resumes as recorded: overrides that select, add to it, contradict it, or may change freely."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ablate_in_folder import own, own_row
from finished_trials import finish, study_in, sweep

from sweeps.planning.continued import plan_row, plan_sweep
from sweeps.planning.plan import Plan, recorded
from sweeps.running.recorder import Recorder
from tracking.study import write_study
from transformer.schema import Problem, RefusedError

ROWS = "sweep.rows=[base,d_smoothing_0]"
STUDY = "runs/synthetic-tiny"


def again(folder: Path, *overrides: str, add: bool = False) -> Plan:
    return plan_sweep(list(overrides), add, here=folder)


def names(plan: Plan) -> list[str]:
    return [planned.trial.name for planned in plan.trials]


def refused(folder: Path, *overrides: str, train: bool = False) -> list[Problem]:
    with pytest.raises(RefusedError) as caught:
        plan_row(list(overrides), here=folder) if train else again(folder, *overrides)
    return caught.value.problems


def forget(folder: Path) -> None:
    """Take out of study.json what studies of an older version do not have."""
    path = folder / STUDY / "study.json"
    content = json.loads(path.read_text("utf-8"))
    kept = {name: content[name] for name in ("name", "trials", "cells", "asked")}
    path.write_text(json.dumps(kept), "utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base and one row of 200 steps; base is finished."""
    folder = tmp_path_factory.mktemp("made").resolve()
    sweep(folder, ROWS, "train.steps=200", "train.keep_checkpoints=7", ends=1)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path.resolve()


def test_the_study_records_its_settings(made: Path) -> None:
    study = study_in(made)
    settings = study.settings
    assert set(settings) == {"model", "train", "decode", "data", "scale"}
    assert (settings["train"]["steps"], settings["model"]["d_model"], settings["scale"]["name"]) == (200, 64, "tiny")
    assert "seed" not in settings["train"]
    assert [(row["row"], row["group"], row["values"]) for row in study.rows] == [
        ("base", "base", {}),
        ("d_smoothing_0", "D", {"train.label_smoothing": 0.0}),
    ]
    assert (study.rows[0]["published"]["ppl"], study.seeds) == (4.92, (1,))


@pytest.mark.parametrize("older", [False, True])
def test_without_overrides_it_resumes_as_recorded(folder: Path, older: bool) -> None:
    if older:
        forget(folder)
    plan = again(folder)
    assert names(plan) == ["base-s1", "d_smoothing_0-s1"]
    assert [planned.trial.name for planned in plan.pending] == ["d_smoothing_0-s1"]
    steps = {(t.settings.trial.train.steps, t.settings.trial.train.keep_checkpoints) for t in plan.trials}
    assert steps == {(200, 7)}
    assert plan.trials[1].settings.trial.train.label_smoothing == 0


def test_it_resumes_by_its_name_alone(tmp_path: Path) -> None:
    overrides = ["scale=half", "data=multi30k", "data.vocab_size=500", "sweep.seeds=[3,1]"]
    first = sweep(tmp_path, *overrides, "sweep.rows=[big]", ends=0)
    plan = again(tmp_path, "sweep.name=multi30k-half")
    keys = [{planned.trial.name: planned.trial.key for planned in each.trials} for each in (plan, first)]
    assert keys[0] == keys[1]
    assert plan.folder == tmp_path / "runs/multi30k-half"


def test_a_name_identifies_its_study_whatever_its_data_are(tmp_path: Path) -> None:
    sweep(tmp_path, "data=multi30k", "sweep.name=synthetic-tiny", "sweep.rows=[base]", ends=0)
    plan = again(tmp_path)
    assert plan.folder == tmp_path / "runs/synthetic-tiny"
    assert plan.trials[0].settings.trial.data.name == "multi30k"


@pytest.mark.parametrize("older", [False, True])
def test_another_configuration_does_not_enter_the_study(folder: Path, older: bool) -> None:
    if older:
        forget(folder)
    (problem,) = refused(folder, "sweep.rows=[d_smoothing_0]", "train.steps=40")
    assert (problem.key, problem.place) == ("train.steps", "command line")
    assert problem.found == "is 40, but synthetic-tiny is recorded with 200"
    assert "another sweep.name" in problem.allowed
    again(folder, "sweep.rows=[d_smoothing_0]", "train.steps=40", "sweep.name=other")


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("scale=half", 'is "half", but synthetic-tiny is recorded with scale=tiny'),
        ("data=multi30k", 'is "multi30k", but synthetic-tiny is recorded with data=synthetic'),
        ("data.vocab_size=300", "is 300, but synthetic-tiny is recorded with 1000"),
        ("model.d_ff=64", "is 64, but synthetic-tiny is recorded with 256"),
        ("scale.width=4", "is 4, but synthetic-tiny is recorded with 8"),
    ],
)
def test_an_override_that_contradicts_the_study_is_refused_by_name(made: Path, override: str, found: str) -> None:
    problems = refused(made, "sweep.name=synthetic-tiny", override)
    assert (override.split("=")[0], found) in [(problem.key, problem.found) for problem in problems]


@pytest.mark.parametrize(
    "overrides",
    [
        ["train.steps=200", "scale=tiny", "data=synthetic", "model.d_model=64"],
        ["cluster=gpu", "cluster.workers=2", "tracking.experiment=x", "sweep.max_failures=0", "paths.data=elsewhere"],
        ["train.log_every=3", "train.evaluate_every=3", "train.checkpoint_every=3", "train.keep_checkpoints=3"],
        ["train.score_every=3"],
    ],
)
def test_overrides_that_repeat_the_study_or_only_set_where_and_how_are_free(made: Path, overrides: list[str]) -> None:
    plan = again(made, *overrides)
    assert (names(plan), [trial.finished for trial in plan.trials]) == (["base-s1", "d_smoothing_0-s1"], [True, False])


def test_rows_and_seeds_select(tmp_path: Path) -> None:
    sweep(tmp_path, ROWS, "sweep.seeds=[1,2]", ends=0)
    assert names(again(tmp_path, "sweep.rows=[base]")) == ["base-s1", "base-s2"]
    assert names(again(tmp_path, "sweep.seeds=[2]")) == ["base-s2", "d_smoothing_0-s2"]
    assert names(again(tmp_path, "sweep.seeds=[2]", "sweep.rows=[base]")) == ["base-s2"]
    assert len(again(tmp_path).trials) == 4, "selecting does not forget the rest"


def test_new_rows_and_seeds_are_refused_without_add(made: Path) -> None:
    (problem,) = refused(made, "sweep.rows=[base,big]", "sweep.seeds=[1,3]")
    assert problem.key == "sweep.rows"
    assert problem.found == (
        "names row big and seed 3, not yet in synthetic-tiny, which has rows base, d_smoothing_0 with seed 1"
    )
    assert problem.allowed == "to add: ablate sweep 'sweep.rows=[base,big]' 'sweep.seeds=[1,3]' --add"
    (problem,) = refused(made, "sweep.seeds=[2]")
    assert (problem.key, problem.allowed) == ("sweep.seeds", "to add: ablate sweep 'sweep.seeds=[2]' --add")
    (problem,) = refused(made, "sweep.rows=all")
    assert "names rows a_heads_1, a_heads_4," in problem.found


def test_add_takes_new_rows_and_seeds(folder: Path) -> None:
    plan = again(folder, "sweep.rows=[big]", add=True)
    assert (names(plan), plan.added) == (["big-s1"], ("big-s1",))
    write_study(recorded(plan, ["ablate"]))
    assert names(again(folder)) == ["base-s1", "d_smoothing_0-s1", "big-s1"]
    assert names(again(folder, "sweep.seeds=[2]", add=True)) == ["base-s2", "d_smoothing_0-s2", "big-s2"]
    added = again(folder, "sweep.rows=[base]", "sweep.seeds=[5]", add=True)
    write_study(recorded(added, ["ablate"]))
    assert names(again(folder)) == ["base-s1", "base-s5", "d_smoothing_0-s1", "big-s1"]
    assert study_in(folder).seeds == (1, 5)
    (problem,) = refused(folder, "sweep.rows=[big]", "sweep.seeds=[5]")
    assert problem.found.startswith("names big-s5, not yet in synthetic-tiny")


def test_all_rows_can_be_added(folder: Path) -> None:
    assert len(again(folder, "sweep.rows=all", add=True).trials) == 20


def test_a_row_resumes_without_its_file(tmp_path: Path) -> None:
    path = own_row(tmp_path, "model: {d_ff: 1024}\n")
    first = sweep(tmp_path, "sweep.rows=[base,mine]", ends=0)
    path.unlink()
    assert [planned.trial for planned in again(tmp_path).trials] == [planned.trial for planned in first.trials]
    assert names(again(tmp_path, "sweep.rows=[mine]")) == ["mine-s1"]


def test_an_edited_row_is_refused_with_its_line(tmp_path: Path) -> None:
    own_row(tmp_path, "model: {d_ff: 1024, d_k: 32}\n")
    sweep(tmp_path, "sweep.rows=[base,mine]", ends=1)
    own_row(tmp_path, "model: {d_ff: 512}\n")
    problems = refused(tmp_path)
    assert [(problem.key, problem.place) for problem in problems] == [
        ("model.d_ff", "conf/row/mine.yaml:3"),
        ("model.d_k", "conf/row/mine.yaml"),
    ]
    assert problems[0].found == "is 64 in row mine, but synthetic-tiny is recorded with 128"


@pytest.mark.parametrize(("group", "option", "edited"), [("scale", "small", "width: 4"), ("data", "own", "size: 700")])
def test_an_edited_scale_or_data_file_is_refused_with_its_line(
    tmp_path: Path, group: str, option: str, edited: str
) -> None:
    texts = {
        "scale": "# @package _global_\nscale: {name: small, width: 8, depth: 2, steps: 50}\n",
        "data": "name: synthetic\nsource: en\ntarget: de\nvocab_size: 900\nmirror: null\n"
        "train: null\ndev: null\ntest: null\n",
    }
    path = own(tmp_path, f"{group}/{option}", texts[group])
    sweep(tmp_path, f"{group}={option}", "sweep.rows=[base,big]", "sweep.name=x", ends=1)
    name = edited.split(":")[0]
    old = {"width": "width: 8", "size": "size: 900"}[name]
    path.write_text(texts[group].replace(old, edited), "utf-8")
    problems = refused(tmp_path, "sweep.name=x")
    key, line = {"scale": ("scale.width", 2), "data": ("data.vocab_size", 4)}[group]
    assert [(problem.key, problem.place) for problem in problems] == [(key, f"conf/{group}/{option}.yaml:{line}")]
    path.write_text(texts[group], "utf-8")
    assert len(again(tmp_path, "sweep.name=x").trials) == 2


def test_decode_overrides_score_all_rows_again(folder: Path) -> None:
    sweep(folder)
    plan = again(folder, "sweep.rows=[base]", "decode.beam=2")
    assert sorted(planned.trial.name for planned in plan.pending) == ["base-s1", "d_smoothing_0-s1"]
    write_study(recorded(plan, ["ablate"]))
    assert study_in(folder).settings["decode"]["beam"] == 2
    finish(plan.pending[0])
    assert len(again(folder).pending) == 1, "a trial that was not scored then is scored next time"
    (problem,) = refused(folder, "row=base", "decode.beam=8", train=True)
    assert (problem.key, "d_smoothing_0-s1" in problem.found) == ("decode.beam", True)


def test_train_follows_the_same_rules(tmp_path: Path) -> None:
    first = plan_row(["row=big", "train.seed=3", "train.steps=50"], here=tmp_path)
    write_study(recorded(first, ["ablate", "train"]))
    finish(first.trials[0])
    assert names(plan_row([], here=tmp_path)) == ["big-s3"]
    assert names(again(tmp_path)) == ["big-s3"]
    (problem,) = refused(tmp_path, "row=base", train=True)
    assert (problem.key, problem.allowed) == ("row", "to add: ablate train row=base --add")
    (problem,) = refused(tmp_path, "row=big", "train.seed=4", train=True)
    assert (problem.key, problem.allowed) == ("train.seed", "to add: ablate train row=big train.seed=4 --add")
    (problem,) = refused(tmp_path, "train.steps=60", train=True)
    assert problem.found == "is 60, but synthetic-tiny is recorded with 50"
    added = plan_row(["row=c_ff_1024"], add=True, here=tmp_path)
    assert (names(added), added.trials[0].settings.trial.train.steps) == (["c_ff_1024-s1"], 50)


def test_a_study_without_any_trial_left_may_change_its_settings(folder: Path) -> None:
    for trial in ("base-s1", "d_smoothing_0-s1"):
        shutil.rmtree(folder / STUDY / trial, ignore_errors=True)
    plan = again(folder, "train.steps=40")
    assert {planned.settings.trial.train.steps for planned in plan.trials} == {40}
    write_study(recorded(plan, ["ablate"]))
    assert study_in(folder).settings["train"]["steps"] == 40


def test_settings_that_another_process_has_recorded_are_not_overwritten(tmp_path: Path) -> None:
    plans = [again(tmp_path, "sweep.rows=[base]", f"train.steps={steps}") for steps in (40, 50)]
    write_study(recorded(plans[0], ["ablate"]))
    with pytest.raises(RefusedError, match=r"another process has changed train\.steps"):
        recorded(plans[1], ["ablate"])


def test_an_older_study_whose_trials_contradict_each_other_is_refused(folder: Path) -> None:
    for planned in again(folder).trials:
        Recorder(planned).begin()
    forget(folder)
    path = folder / STUDY / "d_smoothing_0-s1" / "config.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    content["train"]["steps"] = 40
    path.write_text(yaml.safe_dump(content), "utf-8")
    (problem,) = refused(folder)
    assert (problem.key, problem.found) == ("train.steps", "is 200 in base-s1, but 40 in d_smoothing_0-s1")


def test_no_password_is_recorded(tmp_path: Path) -> None:
    plan = again(tmp_path, "sweep.rows=[base]", "tracking.uri=http://me:secret@server")
    write_study(recorded(plan, ["ablate", "sweep", "tracking.uri=http://me:secret@server"]))
    assert "secret" not in (tmp_path / STUDY / "study.json").read_text("utf-8")


def test_a_user_s_own_text_may_move_later(tmp_path: Path) -> None:
    def files(name: str) -> list[str]:
        (tmp_path / name).mkdir()
        for split in ("train", "dev", "test"):
            (tmp_path / name / f"{split}.txt").write_text("a dog\n")
        return [f"data.{split}=[{name}/{split}.txt,{name}/{split}.txt]" for split in ("train", "dev", "test")]

    here, there = files("here"), files("there")
    sweep(tmp_path, "data=files", *here, "sweep.rows=[base]", ends=1)
    assert again(tmp_path, "sweep.name=files-tiny").trials[0].finished
    shutil.rmtree(tmp_path / "here")
    assert again(tmp_path, "sweep.name=files-tiny", *there).trials[0].finished


def test_a_decode_option_replaces_the_recorded_decode_values(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    sweep(tmp_path, ROWS, "train.steps=200", "decode.beam=8", ends=1)
    assert {planned.settings.trial.decode.beam for planned in again(tmp_path).trials} == {8}
    plan = again(tmp_path, "decode=paper")
    assert {planned.settings.trial.decode.beam for planned in plan.trials} == {4}
    assert not any(planned.finished for planned in plan.trials)


def test_a_study_behind_a_symbolic_link_resumes_where_the_link_is(folder: Path) -> None:
    (folder / "big").mkdir()
    (folder / STUDY).rename(folder / "big" / "v1")
    (folder / STUDY).symlink_to(folder / "big" / "v1")
    plan = again(folder)
    assert plan.folder == folder / STUDY
    assert [planned.state for planned in plan.trials] == ["finished", "missing"]


def test_a_row_recorded_without_values_or_file_is_refused_by_name(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    path = own_row(tmp_path, "model: {d_ff: 1024}\n")
    sweep(tmp_path, "sweep.rows=[base,mine]", "train.steps=200", ends=1)
    forget(tmp_path)
    path.unlink()
    (problem,) = refused(tmp_path)
    assert "includes mine, which is recorded without values and has no file conf/row/mine.yaml" in str(problem)


def test_train_takes_a_row_that_only_the_study_has(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    path = own_row(tmp_path, "model: {d_ff: 1024}\n")
    sweep(tmp_path, "sweep.rows=[base,mine]", "train.steps=200", ends=1)
    path.unlink()
    assert names(plan_row(["row=mine"], here=tmp_path)) == ["mine-s1"]
    problems = refused(tmp_path, "row=mine", "decode.beam=99", train=True)
    assert {problem.key for problem in problems} == {"decode.beam"}
    (problem,) = refused(tmp_path, "row=mime", train=True)
    assert problem.key == "row"
