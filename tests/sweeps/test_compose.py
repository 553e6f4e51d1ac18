"""Base, then the row, then the scale, then the command line; and a user's own files next to the shipped ones."""

import shutil
from pathlib import Path

import pytest
from ablate_in_folder import own, own_row, plan, refused

from sweeps.planning.changes import describe
from sweeps.planning.compose import compose_row, compose_sweep
from sweeps.planning.settings import Settings
from sweeps.planning.yaml_files import SHIPPED

SWEEP = "name: null\nseeds: [1]\nmax_failures: 3\n"
DATA = "source: en\ntarget: de\nvocab_size: 300\nmirror: null\n"


def settings(folder: Path, *overrides: str) -> Settings:
    return compose_row(list(overrides), folder).rows[0].settings


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        (["scale=paper"], 100_000),
        (["scale=paper", "row=big"], 300_000),
        (["scale=half", "row=big"], 6000),
        (["scale=half", "train.steps=77"], 77),
    ],
)
def test_each_layer_applies_in_turn(tmp_path: Path, overrides: list[str], steps: int) -> None:
    assert settings(tmp_path, *overrides).trial.train.steps == steps


def test_overrides_are_final_and_not_divided(tmp_path: Path) -> None:
    overrides = ["scale=half", "model.d_ff=96", "model.d_k=7", "model.n_layers=5", "train.steps=33"]
    found = settings(tmp_path, *overrides)
    model = found.trial.model
    assert (model.d_ff, model.d_k, model.n_layers, found.trial.train.steps) == (96, 7, 5, 33)
    assert (found.trial.model.d_model, found.trial.model.d_v) == (256, 32), "the others are divided"


def test_the_order_of_overrides_does_not_matter(tmp_path: Path) -> None:
    overrides = ["train.steps=77", "scale=half", "model.d_ff=96", "data=multi30k", "data.vocab_size=500"]
    assert settings(tmp_path, *overrides) == settings(tmp_path, *reversed(overrides))


def test_a_divisor_can_be_given_alone(tmp_path: Path) -> None:
    model = settings(tmp_path, "scale=paper", "scale.width=4", "scale.depth=3").trial.model
    assert (model.d_model, model.d_ff, model.d_k, model.d_v, model.n_layers) == (128, 512, 16, 16, 2)


def test_group_choices(tmp_path: Path) -> None:
    found = settings(tmp_path, "data=multi30k", "cluster=nodes", "scale=half")
    assert (found.trial.data.name, found.trial.data.vocab_size) == ("multi30k", 8000)
    assert (found.cluster.address, found.cluster.workers, found.scale.divisors["width"]) == ("auto", 8, 2)


def test_the_default_study_is_small_and_local(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert (found.trial.data.name, found.scale.name, found.cluster.address) == ("synthetic", "tiny", None)
    assert found.cluster.gpus_per_worker == 0


def test_a_study_is_named_by_its_data_and_scale(tmp_path: Path) -> None:
    assert settings(tmp_path).study_folder == tmp_path / "runs/synthetic-tiny"
    assert settings(tmp_path, "data=multi30k", "scale=half").study_folder == tmp_path / "runs/multi30k-half"
    assert settings(tmp_path, "sweep.name=mine", "paths.runs=elsewhere").study_folder == tmp_path / "elsewhere/mine"


def test_local_paths_become_absolute_and_addresses_stay(tmp_path: Path) -> None:
    files = ["data.train=[t.en,sub/t.de]", "data.dev=[d.en,/abs/d.de]", "data.test=['~/x.en',x.de]"]
    found = settings(tmp_path, "data=files", *files, "paths.runs=../r", "paths.checkpoints=c", "data.mirror=m")
    assert found.trial.data.train == [str(tmp_path / "t.en"), str(tmp_path / "sub/t.de")]
    assert found.trial.data.dev == [str(tmp_path / "d.en"), "/abs/d.de"]
    assert found.trial.data.test == [str(Path("~/x.en").expanduser()), str(tmp_path / "x.de")]
    assert (found.paths.runs, found.paths.data) == (str(tmp_path.parent / "r"), str(tmp_path / "data"))
    assert (found.paths.checkpoints, found.trial.data.mirror) == (str(tmp_path / "c"), str(tmp_path / "m"))
    remote = settings(tmp_path, "paths.checkpoints=s3://bucket/c", "data.mirror=https://mirror.example/raw")
    assert (remote.paths.checkpoints, remote.trial.data.mirror) == ("s3://bucket/c", "https://mirror.example/raw")


def test_a_value_may_refer_to_another(tmp_path: Path) -> None:
    found = settings(tmp_path, "scale=half", "model.d_ff=${model.d_model}", "sweep.name=w${train.warmup_steps}")
    assert (found.trial.model.d_ff, found.sweep.name) == (256, "w1000")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("model: {d_k: '${model.d_v}'}\n", {"d_k": 32, "d_v": 32}),
        ("model: {d_v: '${model.d_k}'}\n", {"d_k": 32, "d_v": 32}),
        ("model: {d_ff: '${model.d_model}'}\n", {"d_model": 256, "d_ff": 256}),
    ],
)
def test_a_row_may_refer_to_a_width_which_is_divided_once(tmp_path: Path, body: str, expected: dict[str, int]) -> None:
    own_row(tmp_path, body)
    model = settings(tmp_path, "row=mine", "scale=half").trial.model
    assert {name: getattr(model, name) for name in expected} == expected


def test_a_new_ablation_is_one_new_file(tmp_path: Path) -> None:
    own_row(tmp_path, "model: {d_ff: 1536, n_heads: 2}\n")
    composition = compose_sweep(["sweep.rows=[base,mine]", "scale=half"], tmp_path)
    base, mine = composition.rows
    assert (mine.name, mine.settings.row.group, mine.settings.trial.model.d_ff) == ("mine", "F", 768)
    assert mine.changes == {"model.d_ff": 768, "model.n_heads": 2}
    assert (base.changes, base.settings) == ({}, composition.base)
    assert describe(mine, composition.base) == "d_ff 768, h 2"


@pytest.mark.parametrize(
    ("body", "change"),
    [
        ("train: {warmup_steps: 10, label_smoothing: 0.3}\n", "ε_ls 0.3, warmup_steps 10"),
        ("train: {precision: fp32}\n", "precision fp32"),
        ("decode: {beam: 1}\n", "beam 1"),
        ("data: {vocab_size: 500}\n", "vocab_size 500"),
    ],
)
def test_a_row_may_change_training_decoding_and_data(tmp_path: Path, body: str, change: str) -> None:
    own_row(tmp_path, body)
    composition = compose_sweep(["sweep.rows=[base,mine]", "scale=paper"], tmp_path)
    assert describe(composition.rows[1], composition.base) == change


def test_a_row_that_only_decodes_differently_is_not_a_new_trial(tmp_path: Path) -> None:
    own_row(tmp_path, "decode: {beam: 1}\n")
    (problem,) = refused(tmp_path, "sweep.rows=[base,mine]", by=lambda overrides, here: plan(here, *overrides))
    assert problem.found == "changes only decode.beam, so row mine would train the same model as base"
    assert "ablate evaluate base-s1 decode.beam=1" in problem.allowed


def test_a_user_s_own_files_in_other_groups(tmp_path: Path) -> None:
    own(tmp_path, "data/talks", f"name: files\n{DATA}train: [a, b]\ndev: [c, d]\ntest: [e, f]\n")
    own(tmp_path, "sweep/short", f"{SWEEP}rows: [base, big]\n")
    composition = compose_sweep(["data=talks", "sweep=short"], tmp_path)
    assert [row.name for row in composition.rows] == ["base", "big"]
    assert composition.shared.trial.data.train == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert composition.shared.study_folder.name == "files-tiny"


def test_a_copy_of_the_shipped_files_changes_nothing(tmp_path: Path) -> None:
    """As in a clone next to the installed package."""
    before = compose_row(["row=big"], tmp_path).rows[0]
    shutil.copytree(SHIPPED, tmp_path / "conf")
    assert compose_row(["row=big"], tmp_path).rows[0] == before


@pytest.mark.parametrize("name", ["row/base", "data/synthetic"])
def test_a_file_that_shadows_a_shipped_one_is_refused(tmp_path: Path, name: str) -> None:
    own(tmp_path, name, "# nothing\n")
    (problem,) = refused(tmp_path, "sweep.rows=[base]")
    assert (problem.key, problem.place) == (f"{name}.yaml", f"conf/{name}.yaml")
    assert "shadows" in problem.found


def test_a_row_without_its_header_is_refused_by_its_file(tmp_path: Path) -> None:
    own(tmp_path, "row/mine", "row: {group: F, change: mine}\nmodel: {d_ff: 512}\n")
    (problem,) = refused(tmp_path, "sweep.rows=[base,mine]")
    assert (problem.key, problem.place) == ("mine", "conf/row/mine.yaml:1")
    assert problem.found == 'lacks "# @package _global_"'


@pytest.mark.parametrize("header", ["#@package _global_", "\n #  @package  _global_ "])
def test_a_header_may_be_written_as_hydra_reads_it(tmp_path: Path, header: str) -> None:
    own(tmp_path, "row/mine", f"{header}\nrow: {{group: F, change: mine}}\nmodel: {{d_ff: 512}}\n")
    base, mine = compose_sweep(["sweep.rows=[base,mine]", "scale=paper"], tmp_path).rows
    assert (base.settings.trial.model.d_ff, mine.settings.trial.model.d_ff) == (2048, 512)


@pytest.mark.parametrize("override", ["big", "big-s2"])
def test_a_bare_row_name_gets_the_right_override_suggested(tmp_path: Path, override: str) -> None:
    (problem,) = refused(tmp_path, override, by=compose_row)
    assert problem.nearest == "row=big"


@pytest.mark.parametrize("broken", ["model: {d_ff: \n", "model:\n\td_ff: 3\n", "model: {d_ff: 1, d_ff: 2}\n"])
def test_a_row_that_is_not_yaml_is_refused_by_its_file(tmp_path: Path, broken: str) -> None:
    own_row(tmp_path, broken)
    (problem,) = refused(tmp_path, "sweep.rows=[base,mine]")
    assert (problem.place or "").startswith("conf/row/mine.yaml")


@pytest.mark.parametrize(
    ("group", "override"), [("data", "data=mine"), ("sweep", "sweep=mine"), ("scale", "scale=mine")]
)
def test_a_file_of_another_group_that_is_not_yaml_is_refused_by_its_name(
    tmp_path: Path, group: str, override: str
) -> None:
    own(tmp_path, f"{group}/mine", "name: [\n")
    (problem,) = refused(tmp_path, override)
    assert (problem.place or "").startswith(f"conf/{group}/mine.yaml")


def test_two_rows_that_are_not_yaml_are_refused_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        own_row(tmp_path, "model: {d_ff: \n", name)
    places = [problem.place or "" for problem in refused(tmp_path, "sweep.rows=[base,one,two]")]
    assert [place.partition(":")[0] for place in places] == ["conf/row/one.yaml", "conf/row/two.yaml"]


@pytest.mark.parametrize("body", ["model: 3\n", "model:\n", "model: [1]\n", "model: {d_ff: '${model.nope}'}\n"])
def test_a_row_that_cannot_be_scaled_is_refused(tmp_path: Path, body: str) -> None:
    own_row(tmp_path, body)
    problems = refused(tmp_path, "sweep.rows=[base,mine]")
    assert any((problem.place or "").startswith("conf/row/mine.yaml") for problem in problems)


@pytest.mark.parametrize("body", ["cluster: {workers: 2}\n", "paths: {runs: elsewhere}\n", "sweep: {name: other}\n"])
def test_a_row_may_not_change_what_all_rows_share(tmp_path: Path, body: str) -> None:
    """Its trial would run outside its study's folder."""
    own_row(tmp_path, body + "model: {d_ff: 1024}\n")
    problems = refused(tmp_path, "sweep.rows=[base,mine]")
    assert [problem.key for problem in problems] == [body.split(":")[0] + "." + body.split("{")[1].split(":")[0]]


@pytest.mark.parametrize("name", ["my study", "it's", "runs (v2), x=1", "größe", "a$b"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    here = tmp_path / name
    own_row(here, "model: {d_ff: 1024}\n")
    assert settings(here, "row=mine", "scale=paper").trial.model.d_ff == 1024
