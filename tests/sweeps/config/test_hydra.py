"""What Hydra's users expect: its composition, its files, its grammar, its ways to look."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from allelse_in_folder import own
from composed_rows import composed_sweep
from finished_trials import sweep
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from small_task import HEAD, write_task
from typed import refusal, typed

from sweeps.config.files import SHIPPED
from sweeps.config.schema import Schema

ROWS = sorted(file.stem for file in (SHIPPED / "row").glob("*.yaml"))
GROUPS = ("model", "train", "decode", "data")


@pytest.mark.parametrize("scale", ["tiny", "half"])
def test_every_row_is_what_hydra_composes_before_the_scale_divides(
    tmp_path: Path, scale: str
) -> None:
    composition = composed_sweep([f"scale={scale}", "sweep.rows=all"], tmp_path)
    assert sorted(row.name for row in composition.rows) == ROWS
    schema = Schema.of(composition.base.source.task)
    search = f"hydra.searchpath=[{(SHIPPED / 'shared').as_uri()}]"
    with initialize_config_dir(str(SHIPPED), version_base="1.3"):
        configs = {
            name: compose("config", [search, f"row={name}", f"scale={scale}"]) for name in ROWS
        }
    for row in composition.rows:
        tree: Any = OmegaConf.to_container(configs[row.name], resolve=True)
        expected = {
            f"{group}.{name}": value for group in GROUPS for name, value in tree[group].items()
        }
        divisors = {
            key: row.settings.scale.divisors[role.by] or 1 for key, role in schema.divided.items()
        }
        settings = schema.values(row.settings.config)
        unscaled = {
            key: value * divisors.get(key, 1) if key in divisors else value
            for key, value in settings.items()
        }
        # a key that came later is absent while it is neutral
        assert unscaled == schema.neutral | expected, row.name


def plan(folder: Path, *words: str) -> list[tuple[str, int, str]]:
    """Row, seed and change of each planned trial."""
    outcome = typed(folder, "plan", "--json", *words)
    assert outcome.exit_code == 0, outcome.stderr
    return [(line["row"], line["seed"], line["change"]) for line in json.loads(outcome.stdout)]


def test_a_row_builds_on_another_takes_another_option_and_refers_to_a_value(tmp_path: Path) -> None:
    own(
        tmp_path,
        "row/big_10",
        f"{HEAD}defaults: [big, _self_]\nrow: {{group: big}}\nmodel: {{p_drop: 0.1}}\n",
    )
    own(
        tmp_path,
        "row/captions",
        f"{HEAD}defaults: [override /data: multi30k]\nrow: {{group: mine}}\n",
    )
    own(
        tmp_path,
        "row/square",
        f"{HEAD}row: {{group: mine}}\nmodel: {{d_ff: '${{model.d_model}}'}}\n",
    )
    changes = {row: change for row, _, change in plan(tmp_path, "sweep.rows=[base,big_10,square]")}
    assert (changes["big_10"], changes["square"]) == ("d_model 128, d_ff 512, h 16", "d_ff 64")
    assert (
        yaml.safe_load(typed(tmp_path, "config", "row=captions").stdout)["data"]["name"]
        == "multi30k"
    )


def test_any_name_of_a_folder(tmp_path: Path) -> None:
    """Hydra reads its search path by its grammar, and not as an URL."""
    (folder := tmp_path / "my ünï, (b)=c's 100%20 $x #1 a\\b\\").mkdir()
    lines = json.loads(
        typed(write_task(folder), "plan", "task=small", "sweep.rows=[base,square]", "--json").stdout
    )
    assert [line["row"] for line in lines] == ["base", "square"]


def test_a_group_of_the_task_s_own(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    base = folder / "conf/task/small/base.yaml"
    base.write_text(
        "defaults: [size: small, _self_]\n" + base.read_text().replace("  steps: 4\n", "")
    )
    own(folder, "task/small/size/small", f"{HEAD}train: {{steps: 4}}\n")
    own(folder, "task/small/size/long", f"{HEAD}train: {{steps: 12}}\n")
    steps = [
        line["steps"] for line in json.loads(typed(folder, "plan", "--json", "size=long").stdout)
    ]
    assert set(steps) == {12}
    rows = [row for row, _, _ in plan(folder, "task=small", "size=small,long")]
    assert rows == ["base", "size_long"]


def test_several_final_values_are_a_product(tmp_path: Path) -> None:
    trials = plan(tmp_path, "row=base,big", "train.seed=1,2,3", "model.n_heads=1,4")
    rows = ["base", "n_heads_1", "n_heads_4", "big-n_heads_1", "big-n_heads_4"]
    assert [(row, seed) for row, seed, _ in trials] == [
        (row, seed) for row in rows for seed in (1, 2, 3)
    ]
    assert trials == plan(
        tmp_path, "row=base,big", "train.seed=range(1,4)", "model.n_heads=choice(1,4)"
    )
    rows = [row for row, _, _ in plan(tmp_path, "row=glob(a_*)")]
    assert rows == ["base", *(name for name in ROWS if name.startswith("a_"))]
    assert plan(tmp_path, "model.d_ff=256,512")[1:] == [("d_ff_512", 1, "d_ff 512")], (
        "256 is base's after scaling"
    )


def test_recorded_rows_and_options_go_on_without_their_overrides_and_are_refused_without_their_file(
    workplace: Path,
) -> None:
    folder = write_task(workplace)
    own(folder, "task/small/scale/mine", f"{HEAD}scale: {{name: mine, size: 1}}\n")
    assert (
        typed(folder, "train", "row=size_2", "scale=mine", "sweep.vary={model.size: [2]}").exit_code
        == 0
    )
    assert [row for row, _, _ in plan(folder, "sweep.name=small-mine")] == ["size_2"]
    assert [row for row, _, _ in plan(folder, "sweep.name=small-mine", "--add", "model.size=2,3")][
        -1
    ] == "size_3"
    contradicted = refusal(folder, "plan", "scale=full", "sweep.name=small-mine")
    assert (
        'scale (command line) is "full", but small-mine is recorded with scale=mine' in contradicted
    )
    (folder / "conf/task/small/scale/mine.yaml").unlink()
    message = refusal(folder, "plan", "sweep.name=small-mine")
    assert 'scale (runs/small-mine/study.json) is "mine"' in message
    assert "restore the file, or choose another sweep.name" in message
    assert "1 of 1 finished" in typed(folder, "status").stdout


def test_seeds_of_a_recorded_study_are_those_of_its_rows(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.name=x", "sweep.rows=[base,big]", "train.steps=20", ends=0)
    trials = plan(tmp_path, "sweep.name=x", "train.seed=1,2", "--add")
    assert {(row, seed) for row, seed, _ in trials} == {
        (row, seed) for row in ("base", "big") for seed in (1, 2)
    }


def test_combinations_of_the_same_content_are_one_row(tmp_path: Path) -> None:
    words = "row=a_heads_1,d_dropout_0", "model.p_drop=0.0,0.1"
    assert [row for row, _, _ in plan(tmp_path, *words)] == [
        "base",
        "a_heads_1-p_drop_0.0",
        "a_heads_1",
        "d_dropout_0",
    ]
    assert [row for row, _, _ in plan(tmp_path, "row=d_dropout_0,base", words[1])] == [
        "base",
        "d_dropout_0",
    ]


def test_values_that_belong_together(tmp_path: Path) -> None:
    entries = (
        "[{model.n_heads: 4, model.d_k: 128, model.d_v: 128}, {model: {n_heads: 16, d_k: "
        "32, d_v: 32}}]"
    )
    trials = plan(tmp_path, f"sweep.vary={entries}")
    assert [change for _, _, change in trials[1:]] == ["h 4, d_k = d_v = 16", "h 16, d_k = d_v = 4"]
    own(
        tmp_path,
        "sweep/heads",
        f"name: null\nseeds: [1]\nmax_failures: 3\nstall_minutes: 10\nvary: {entries}\n",
    )
    assert plan(tmp_path, "sweep=heads") == trials


def test_rows_of_another_size_are_noted(tmp_path: Path) -> None:
    outcome = typed(
        tmp_path,
        "plan",
        "model.n_heads=4,16",
        "sweep.vary=[{model.n_heads: 4, model.d_k: 128, model.d_v: 128}]",
    )
    text = " ".join(outcome.stdout.split())
    assert "n_heads_4 has 18% fewer parameters and 19% fewer FLOPs" in text
    assert "n_heads_4-d_k_128-d_v_128 has" not in text


def test_what_hydra_alone_composes_is_shown(tmp_path: Path) -> None:
    job = yaml.safe_load(
        typed(tmp_path, "config", "--cfg", "job", "row=big", "model.n_heads=2").stdout
    )
    assert (job["model"]["d_model"], job["model"]["n_heads"]) == (1024, 2)
    files = typed(tmp_path, "config", "--info", "defaults", "row=big").stdout
    assert (
        files.index("conf/config.yaml")
        < files.index("conf/row/big.yaml")
        < files.index("conf/scale/tiny.yaml")
    )


def test_another_program_s_configuration_is_not_read(tmp_path: Path) -> None:
    own(tmp_path, "config", "defaults: [db: mysql]\nserver: {port: [\n")
    own(tmp_path, "db/mysql", "driver: {\n")
    assert "conf/config.yaml is not read" in " ".join(
        typed(tmp_path, "plan", "sweep.rows=[base,big]").stdout.split()
    )
    assert "db (command line) is not a key" in refusal(tmp_path, "plan", "db=mysql")


def test_the_only_task_of_a_folder_is_taken(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    assert {row for row, _, _ in plan(folder)} == {"base", "square"}
    assert plan(folder, "task=translation", "sweep.rows=[base,d_dropout_0]")[1][0] == "d_dropout_0"
    (folder / "other.py").write_text(
        (folder / "small.py").read_text().replace('"small"', '"other"')
    )
    message = refusal(folder, "plan")
    assert "task is missing, and this folder has several" in message
    assert "task=other, task=small, task=translation" in message
    message = refusal(folder, "plan", "sweep.nam=study")
    assert "sweep.nam (command line) is not a key" in message
    assert "did you mean sweep.name?" in message
    assert "task is missing" in message


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("sweep.vary={train.rate: [1], train.rate: [2]}", "sweep.vary (command line) gives"),
        ("sweep.vary=[{train.rate: 1, train.rate: 2}]", "sweep.vary (command line) gives"),
        ("sweep.references={a: b, a: c}", "sweep.references (command line) gives a twice"),
    ],
)
def test_a_key_that_is_given_twice_in_braces_is_refused(
    tmp_path: Path, override: str, said: str
) -> None:
    assert said in refusal(write_task(tmp_path), "plan", override)


def test_a_task_cannot_take_the_rows_of_translation(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    own(folder, "row/mine", f"{HEAD}row: {{group: mine}}\nmodel: {{d_ff: 512}}\n")
    assert 'sweep.rows (command line) is "big"' in refusal(folder, "plan", "sweep.rows=[base,big]")
    assert "conf/task/small/row/ has no such file" in refusal(
        folder, "plan", "sweep.rows=[base,mine]"
    )
