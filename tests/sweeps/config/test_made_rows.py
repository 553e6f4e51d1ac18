"""Rows that ``sweep.vary`` makes are like those of files: names, values, keys, and the record."""

from pathlib import Path

import pytest
from allelse_in_folder import own, own_row, plan
from composed_rows import composed_row, composed_sweep
from finished_trials import study_in, sweep
from small_task import BASE, HEAD, write_task

from sweeps.planning.continuation import plan_row, plan_sweep
from sweeps.planning.plan import Plan
from sweeps.planning.study_rows.row_words import shown_change

HEADS = "sweep.vary={model.n_heads: [1, 4]}"


def rows(folder: Path, *overrides: str) -> list[str]:
    return [row.name for row in composed_sweep(list(overrides), folder).rows]


def names(sweep_plan: Plan) -> list[str]:
    return [planned.trial.name for planned in sweep_plan.trials]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (HEADS, ["n_heads_1", "n_heads_4"]),
        ("sweep.vary={model: {n_heads: [1, 4]}}", ["n_heads_1", "n_heads_4"]),
        ("sweep.vary={model.p_drop: [0, 0.2]}", ["p_drop_0.0", "p_drop_0.2"]),
        ("sweep.vary={model.positions: [learned]}", ["positions_learned"]),
        ("sweep.vary={model.attention_bias: [true]}", ["attention_bias_true"]),
        ("sweep.vary={train.lr_factor: [1e-5, 2]}", ["lr_factor_1e-05", "lr_factor_2.0"]),
        ("sweep.vary={data.source: [fr, a b]}", ["source_fr", "source_a-b-c8687a"]),
        ("sweep.vary=[{model.p_drop: 0.2, model.n_heads: 4}]", ["n_heads_4-p_drop_0.2"]),
    ],
)
def test_rows_are_named_by_their_changes(
    tmp_path: Path, override: str, expected: list[str]
) -> None:
    assert rows(tmp_path, override, "scale=paper") == ["base", *expected]


def test_a_made_row_and_a_file_with_the_same_change_are_the_same_trial(tmp_path: Path) -> None:
    own_row(tmp_path, "model: {d_ff: 1024, n_heads: 4}\n")
    lists = "sweep.vary=[{model.n_heads: 4, model.d_ff: 1024}]"
    plan_of_lists = plan(tmp_path, lists)
    plan_of_files = plan(tmp_path, "sweep.rows=[base,mine]")
    assert names(plan_of_lists) == ["base-s1", "d_ff_1024-n_heads_4-s1"]
    assert [planned.trial.key for planned in plan_of_lists.trials] == [
        planned.trial.key for planned in plan_of_files.trials
    ]
    assert plan_of_lists.trials[1].trial.group == "vary"


def test_a_mapping_of_a_row_of_a_scale_or_of_a_list_is_merged_with_base_s(tmp_path: Path) -> None:
    group = f"{HEAD}row: {{group: A}}\n"
    files = {
        "base": BASE.replace("kind: round", "kind: round, options: {a: 1, b: 2}"),
        "row/square": group + "model: {options: {b: 5}}\n",
        "scale/mine": f"{HEAD}scale: {{name: mine, size: 1}}\nmodel: {{options: {{a: 7}}}}\n",
    }
    train = "\n\n\n@dataclass(frozen=True)\nclass Train"
    schema = {train: f"\n    options: dict[str, int]{train}"}
    write_task(
        tmp_path, schema, {f"conf/task/small/{name}.yaml": text for name, text in files.items()}
    )
    lists = "sweep.vary={model.options: [{c: 3}]}", "sweep.rows=[base,square]"
    settings = [
        row.settings.config
        for row in composed_sweep(["task=small", "scale=mine", *lists], tmp_path).rows
    ]
    assert [trial.model.options for trial in settings] == [
        {"a": 7, "b": 2},
        {"a": 7, "b": 5},
        {"a": 7, "b": 2, "c": 3},
    ]


def test_made_rows_stand_next_to_base_or_to_the_listed_rows(tmp_path: Path) -> None:
    assert rows(tmp_path, HEADS) == ["base", "n_heads_1", "n_heads_4"]
    assert rows(tmp_path, HEADS, "sweep.rows=[big,base]") == [
        "big",
        "base",
        "n_heads_1",
        "n_heads_4",
    ]
    assert rows(tmp_path, HEADS, "sweep.rows=[big]") == ["big", "n_heads_1", "n_heads_4"]
    assert rows(tmp_path, HEADS, "sweep.rows=[base,n_heads_4]") == [
        "base",
        "n_heads_4",
        "n_heads_1",
    ]
    sweep_settings = composed_sweep([HEADS, "sweep.seeds=[3,1]"], tmp_path).shared.sweep
    assert (sweep_settings.rows, sweep_settings.seeds) == (
        ["base", "n_heads_1", "n_heads_4"],
        [3, 1],
    )


def test_a_file_of_the_group_sweep_may_hold_lists(tmp_path: Path) -> None:
    head = "name: heads\nseeds: [1]\nmax_failures: 0\n"
    own(tmp_path, "sweep/lists", f"{head}vary:\n  model.n_heads: [1, 4]\n")
    own(tmp_path, "sweep/both", f"{head}rows: [base, big]\nvary: {{model: {{n_heads: [1, 4]}}}}\n")
    assert rows(tmp_path, "sweep=lists") == ["base", "n_heads_1", "n_heads_4"]
    assert rows(tmp_path, "sweep=both") == ["base", "big", "n_heads_1", "n_heads_4"]
    assert (
        composed_row(["sweep=lists", "row=n_heads_4"], tmp_path)
        .rows[0]
        .settings.config.model.n_heads
        == 4
    )


def test_base_s_own_value_is_left_out_with_a_notice(tmp_path: Path) -> None:
    composition = composed_sweep(["sweep.vary={model.n_heads: [8, 16]}"], tmp_path)
    assert [row.name for row in composition.rows] == ["base", "n_heads_16"]
    assert composition.notes == [
        "sweep.vary makes no row for model.n_heads 8: base has it already."
    ]
    entries = "sweep.vary=[{model.d_k: 64, model.d_v: 64}, {model.d_k: 32, model.d_v: 64}]"
    composition = composed_sweep([entries], tmp_path)
    assert [row.name for row in composition.rows] == ["base", "d_k_32"]
    assert composition.notes == [
        "sweep.vary makes no row for model.d_k 64, model.d_v 64: base has it already."
    ]


def test_values_are_those_of_the_paper_s_size(tmp_path: Path) -> None:
    composition = composed_sweep(
        ["sweep.vary={model.d_ff: [1024], train.warmup_steps: [8000]}"], tmp_path
    )
    _, wide, slow = composition.rows
    assert (wide.settings.config.model.d_ff, slow.settings.config.train.warmup_steps) == (128, 400)
    assert (shown_change(wide, composition.base), wide.before_scaling) == ("d_ff 128", "d_ff 1024")


def test_one_of_the_rows_is_trained_by_its_name(tmp_path: Path) -> None:
    assert names(plan_row([HEADS, "row=n_heads_4"], here=tmp_path)) == ["n_heads_4-s1"]


def test_the_study_records_its_rows_and_needs_no_lists_again(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    sweep(
        tmp_path, "sweep.vary={model.d_ff: [1024], model.n_heads: [4]}", "train.steps=200", ends=1
    )
    study = study_in(tmp_path)
    assert study.before_scaling == {"d_ff_1024": "d_ff 1024"}
    planned_again = plan_sweep([], here=tmp_path)
    assert [planned.trial for planned in planned_again.trials] == list(study.trials)
    assert [(trial.group, trial.change) for trial in study.trials[1:]] == [
        ("vary", "d_ff 128"),
        ("vary", "h 4"),
    ]
    assert names(plan_row(["row=n_heads_4"], here=tmp_path)) == ["n_heads_4-s1"]
    typed_plan = plan_sweep(["sweep.vary={model.d_ff: [1024], model.n_heads: [4]}"], here=tmp_path)
    assert names(typed_plan) == names(planned_again)
