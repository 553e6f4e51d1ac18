"""`allelse import`: a csv file, and the table or the refusal that must come out of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typed import printed, refusal, refused_for

from allelse import load


def imported(folder: Path, text: str, *words: str) -> dict[str, Any]:
    """What the command says of a file with this text, as JSON."""
    (folder / "runs.csv").write_text(text)
    answer: dict[str, Any] = json.loads(printed(folder, "import", "runs.csv", *words, "--json"))
    return answer


def seeds_by_change(answer: dict[str, Any]) -> dict[str, list[int]]:
    return {row["change"]: row["seeds"] for row in answer["rows"]}


def table(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(printed(folder, "table", "--format", "json"))
    return rows


def test_a_line_per_epoch_is_a_curve_whose_last_line_counts(tmp_path: Path) -> None:
    accuracies = {"base": (0.50, 0.60, 0.70), "ours": (0.40, 0.65, 0.80)}
    lines = [
        f"{model},{seed},{epoch},{accuracy + seed / 1000}"
        for epoch in (2, 0, 1)
        for model, curve in accuracies.items()
        for seed in (1, 2)
        for accuracy in curve[epoch : epoch + 1]
    ]
    text = "\n".join(["model,seed,epoch,accuracy", *lines])
    answer = imported(tmp_path, text, "--base", "model=base")
    assert answer["notes"] == ["12 lines are curves of 4 runs: the last line counts"]
    assert answer["doubts"] == []
    assert seeds_by_change(answer) == {"base": [1, 2], "model ours": [1, 2]}
    assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([0.7015, 0.8015])
    result = json.loads((tmp_path / "runs" / "runs" / "base-s1" / "result.json").read_text())
    assert result["step"] == 2
    output = printed(tmp_path, "import", "runs.csv", "--base", "model=base")
    assert "12 lines are curves of 4 runs: the last line counts" in output
    assert "Read 4 runs" in output


def test_a_scheduled_learning_rate_does_not_split_the_curve_of_a_named_run(tmp_path: Path) -> None:
    lines = [
        f"{model}{seed},{model},{seed},{epoch},{rate},{0.5 + epoch / 10 + seed / 1000}"
        for model in ("base", "ours")
        for seed in (1, 2)
        for epoch, rate in ((0, 0.1), (1, 0.1), (2, 0.01))
    ]
    text = "\n".join(["name,model,seed,epoch,lr,accuracy", *lines])
    answer = imported(tmp_path, text, "--base", "model=base")
    assert answer["notes"] == ["12 lines are curves of 4 runs: the last line counts"]
    assert answer["doubts"] == []
    assert seeds_by_change(answer) == {"base": [1, 2], "model ours": [1, 2]}
    assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([0.7015, 0.7015])


def test_runs_of_one_name_with_other_rates_are_no_curve(tmp_path: Path) -> None:
    lines = [
        f"ours,{lr},{seed},{30 + 15 * (lr < 1)},0.{seed}" for lr in (1, 0.1) for seed in (1, 2)
    ]
    answer = imported(tmp_path, "\n".join(["name,lr,seed,epoch,acc", *lines]), "--base", "lr=1")
    assert answer["notes"] == []
    assert seeds_by_change(answer) == {"base": [1, 2], "lr 0.1": [1, 2]}


def test_runs_without_seeds_that_ended_at_different_steps_are_no_curve(tmp_path: Path) -> None:
    text = "model,step,accuracy\nbase,1000,0.71\nbase,1040,0.72\nours,980,0.73\nours,1010,0.74\n"
    answer = imported(tmp_path, text, "--base", "model=base")
    assert answer["notes"] == []
    assert seeds_by_change(answer) == {"base": [1, 2], "model ours": [1, 2]}


NAMED = """name,seed,lr,accuracy
baseline,1,0.1,0.711
baseline,2,0.1,0.722
ours,1,0.1,0.811
ours,2,0.1,0.822
"""


def test_a_name_that_runs_share_makes_rows_if_no_setting_varies(tmp_path: Path) -> None:
    for words in ((), ("--base", "name=baseline"), ("--row", "name")):
        answer = imported(tmp_path, NAMED, *words)
        assert seeds_by_change(answer) == {"base": [1, 2], "ours": [1, 2]}, words
        assert answer["rows_by"] == "name"
        assert ("rows" in answer["guessed"]) == ("--row" not in words)
        assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([0.7165, 0.8165])


def test_a_base_whose_group_holds_runs_with_another_name_is_refused(tmp_path: Path) -> None:
    slow = "baseline,1,0.2,0.611\nbaseline,2,0.2,0.622\nours,1,0.2,0.633\nours,2,0.2,0.644\n"
    (tmp_path / "runs.csv").write_text(NAMED + slow)
    reason = "--base is name=baseline, but its group also has runs with name=ours … use --row name"
    refused_for(tmp_path, [reason], "import", "runs.csv", "--base", "name=baseline")
    unlike = NAMED.replace("ours,2,0.1", "ours,2,0.2")
    (tmp_path / "runs.csv").write_text(unlike)
    refused_for(tmp_path, [reason], "import", "runs.csv", "--base", "name=baseline")


def test_the_name_of_one_seed_of_base_is_no_reason_to_refuse(tmp_path: Path) -> None:
    text = "name,seed,lr,accuracy\na,1,0.1,0.711\nb,2,0.1,0.722\nc,1,0.2,0.811\nd,2,0.2,0.822\n"
    answer = imported(tmp_path, text, "--base", "name=a")
    assert seeds_by_change(answer) == {"base": [1, 2], "lr 0.2": [1, 2]}


@pytest.mark.parametrize("name", ["Baseline", "default", "control", "vanilla", "reference", "none"])
def test_the_guess_of_base_is_a_row_that_is_called_so(name: str, tmp_path: Path) -> None:
    cases = [("attention", ()), ("attention", ("--row", "attention")), ("name", ())]
    for column, words in cases[:2] if name == "none" else cases:
        lines = [
            f"{value},{seed},0.{digit}{seed}1"
            for digit, value in enumerate(("wide", "wide", name, "deep"), 4)
            for seed in (1, 2)
        ]
        text = "\n".join([f"{column},seed,accuracy", *lines[:2], *lines[4:]])
        answer = imported(tmp_path, text, *words)
        assert answer["rows"][0]["seeds"] == [1, 2]
        assert table(tmp_path)[0]["accuracy"] == pytest.approx(0.616), (column, words)


def grid(column: str, values: tuple[object, ...]) -> str:
    """Two seeds of each value, with accuracies that differ."""
    lines = [
        f"{value},{seed},0.{index}{seed}7"
        for index, value in enumerate(values, 5)
        for seed in (1, 2)
    ]
    return "\n".join([f"{column},seed,accuracy", *lines])


@pytest.mark.parametrize(
    "column",
    [
        *("loss_gamma", "temperature_loss", "loss_clip", "score_delta", "beta_kl_loss", "acc_drop"),
        *("train_fraction", "val_split", "test_size", "l1_loss", "train_portion", "kl_loss"),
        *("eval_noise", "train_mix"),
    ],
)
def test_a_number_that_seeds_share_is_a_setting_although_it_is_called_like_a_score(
    column: str, tmp_path: Path
) -> None:
    for words in ((), ("--metric", "accuracy:up")):
        answer = imported(tmp_path, grid(column, (0.25, 0.5, 0.75)), *words)
        assert answer["settings"] == [column]
        assert [metric["name"] for metric in answer["metrics"]] == ["accuracy"]
        assert [row["seeds"] for row in answer["rows"]] == [[1, 2]] * 3
        assert answer["doubts"] == []


def test_a_score_with_a_word_of_a_setting_needs_its_option(tmp_path: Path) -> None:
    text = "lr,seed,loss_delta\n1,1,0.31\n1,2,0.32\n2,1,0.41\n2,2,0.42\n"
    answer = imported(tmp_path, text, "--metric", "loss_delta:down")
    assert [row["seeds"] for row in answer["rows"]] == [[1, 2], [1, 2]]
    (tmp_path / "runs.csv").write_text(text)
    refused_for(tmp_path, ["--metric is missing"], "import", "runs.csv")


def test_a_precision_of_bits_is_a_setting_and_whole_scores_are_scores(tmp_path: Path) -> None:
    answer = imported(tmp_path, grid("precision", (16, 32)))
    assert answer["settings"] == ["precision"]
    text = "lr,seed,accuracy\n1,1,90\n1,2,91\n2,1,92\n2,2,90\n"
    answer = imported(tmp_path, text, "--base", "lr=1")
    assert [metric["name"] for metric in answer["metrics"]] == ["accuracy"]
    assert [row["accuracy"] for row in table(tmp_path)] == [90.5, 91]


def test_whole_numbers_of_single_runs_are_no_settings(tmp_path: Path) -> None:
    lines = ["Unnamed: 0.1,lr,seed,job_id,best_epoch,tp,slurm,accuracy"]
    for index, (lr, seed) in enumerate((lr, seed) for lr in (1, 2, 3) for seed in (1, 2, 3)):
        figures = f"{4471 + 13 * index},{index % 4},{80 + index % 6},{7000 + index}"
        lines.append(f"{index},{lr},{seed},{figures},0.{5 + lr}{seed}3")
    answer = imported(tmp_path, "\n".join(lines), "--base", "lr=1")
    assert answer["settings"] == ["lr"]
    assert [row["seeds"] for row in answer["rows"]] == [[1, 2, 3]] * 3
    assert {"job_id", "best_epoch", "tp", "slurm"} <= {*answer["unused"]}
    assert answer["doubts"] == []


def test_a_doubt_names_the_column_without_which_seeds_repeat(tmp_path: Path) -> None:
    lines = ["model,seed,size,accuracy"]
    lines += [
        f"{model},{seed},{size},0.{index}{seed}{size}"
        for index, model in enumerate(("base", "wide"), 5)
        for seed in (1, 2)
        for size in (3, 4)
    ]
    answer = imported(tmp_path, "\n".join(lines), "--base", "model=base", "--ignore", "size")
    doubts = [doubt for doubt in answer["doubts"] if doubt["kind"] == "repeated-runs"]
    assert len(doubts) == 4
    assert all(
        "these runs differ in size, which is no setting" in doubt["text"] for doubt in doubts
    )
    without_seeds = "\n".join(line.replace(",1,", ",,").replace(",2,", ",,") for line in lines)
    answer = imported(tmp_path, without_seeds, "--base", "model=base", "--ignore", "size")
    (text,) = [doubt["text"] for doubt in answer["doubts"] if doubt["kind"] == "missing-seeds"]
    assert "runs of one row differ in size, which is no setting" in text


@pytest.mark.parametrize(
    "text",
    [
        "lr,seed,accuracy\n0.5,1,90.1%\n0.5,2,90.3 %\n2,1,91.2%\n2,2,91.4%\n",
        "lr;seed;accuracy\n0,5;1;90,1\n0,5;2;90,3\n2;1;91,2\n2;2;91,4\n",
        "lr\tseed\taccuracy\n0,5\t1\t90,1%\n0,5\t2\t90,3%\n2\t1\t91,2%\n2\t2\t91,4%\n",
    ],
)
def test_percent_and_decimal_commas_are_numbers(text: str, tmp_path: Path) -> None:
    answer = imported(tmp_path, text, "--base", "lr=0.5")
    assert seeds_by_change(answer) == {"base": [1, 2], "lr 2": [1, 2]}
    assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([90.2, 91.3])


def test_a_percentage_beside_a_fraction_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("model,seed,acc\nbase,1,90.1%\nbase,2,0.92\n")
    message = refusal(tmp_path, "import", "runs.csv")
    assert (
        "has 0.92 in acc, but 90.1% before it: write both with %, or neither correct it" in message
    )
    answer = imported(tmp_path, "model,seed,acc\nbase,1,90.1%\nbase,2,nan\n")
    assert answer["notes"] == ["1 run diverged, in no mean: acc is not finite in run 2"]


def test_a_doubt_names_the_group_that_mixed_runs_without_seeds_differ_in(tmp_path: Path) -> None:
    lines = ["ours,0.1,0.9", "ours,0.1,0.8", "theirs,0.1,0.5", "theirs,0.1,0.4"]
    lines += [line.replace("0.1", "0.2") for line in lines]
    answer = imported(tmp_path, "\n".join(["Group,lr,acc", *lines]), "--base", "lr=0.1")
    assert answer["doubts"][0]["text"] == (
        "8 runs have no seed: the table numbers them; "
        "runs of one row differ in Group, which is no setting."
    )


def test_a_comma_separates_thousands_where_the_point_is_the_decimal_mark(tmp_path: Path) -> None:
    text = "lr\tseed\tsteps\taccuracy\n0.5\t1\t10,000\t0.51\n2.0\t1\t10,000\t0.61\n"
    answer = imported(tmp_path, text, "--base", "lr=0.5")
    assert "steps" not in answer["unused"]
    assert [row["accuracy"] for row in table(tmp_path)] == [0.51, 0.61]
    assert "10,000" in (tmp_path / "runs" / "runs" / "study.json").read_text()


@pytest.mark.parametrize("column", ["Group", "agent"])
def test_a_text_of_a_tracker_is_a_setting_if_only_it_separates_seeds(
    column: str, tmp_path: Path
) -> None:
    lines = [
        f"{method},{lr},{seed},0.8{index}{seed}"
        for index, method in enumerate(("baseline", "ours"), 1)
        for lr in (0.1, 0.2)
        for seed in (1, 2)
    ]
    text = "\n".join([f"{column},lr,seed,accuracy", *lines])
    answer = imported(tmp_path, text, "--base", f"{column}=baseline")
    assert list(seeds_by_change(answer).values()) == [[1, 2]] * 4
    assert answer["doubts"] == []


def test_parameters_that_are_no_whole_number_are_left_out(tmp_path: Path) -> None:
    text = "lr,seed,n_params,accuracy\n1,1,65.1,0.5\n2,1,65.1,0.6\n"
    imported(tmp_path, text, "--base", "lr=1")
    assert load(tmp_path / "runs" / "runs").trials["params"].isna().all()


def test_scores_that_are_text_are_named_as_the_cause(tmp_path: Path) -> None:
    lines = [f"{lr},{seed},9{lr} +- 0.{seed}" for lr in (1, 2) for seed in (1, 2)]
    for number in (1, 2):
        (tmp_path / "runs.csv").write_text("\n".join(["lr,seed,accuracy", *lines * number]))
        reason = '--metric is missing: accuracy has text such as "91 +- 0.1"'
        refused_for(tmp_path, [reason], "import", "runs.csv")


def test_a_run_whose_score_is_a_text_is_left_out(tmp_path: Path) -> None:
    text = "lr,seed,accuracy\n1,1,0.51\n1,2,OOM\n2,1,0.52\n2,2,0.53\n"
    answer = imported(tmp_path, text, "--base", "lr=1")
    assert answer["settings"] == ["lr"]
    assert answer["left_out"] == [{"run": "run 2", "why": "has no accuracy"}]


def test_the_name_of_a_loss_is_a_setting(tmp_path: Path) -> None:
    assert imported(tmp_path, grid("loss", ("mse", "huber")))["settings"] == ["loss"]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-nan", "Infinity", "1e400"])
def test_a_setting_that_is_not_finite_is_a_text(value: str, tmp_path: Path) -> None:
    answer = imported(tmp_path, grid("clip", ("1.5", value)), "--base", "clip=1.5")
    word = value.replace("Infinity", "inf").replace("1e400", "inf").replace("-nan", "nan")
    assert seeds_by_change(answer) == {"base": [1, 2], f"clip {word}": [1, 2]}
    assert [row["accuracy"] for row in table(tmp_path)] == pytest.approx([0.522, 0.622])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "NaN", "-nan", "1e400", "-Infinity"])
def test_every_score_that_is_not_finite_is_a_run_that_diverged(value: str, tmp_path: Path) -> None:
    text = f"lr,seed,loss\n1,1,0.51\n1,2,{value}\n2,1,0.52\n2,2,0.53\n"
    answer = imported(tmp_path, text, "--base", "lr=1", "--metric", "loss:down")
    assert answer["notes"] == ["1 run diverged, in no mean: loss is not finite in run 2"]
    assert answer["left_out"] == []
    row = table(tmp_path)[0]
    assert (row["loss"], row["diverged"], row["seeds"]) == (0.51, [2], 1)


def test_a_source_is_known_by_its_whole_path(tmp_path: Path) -> None:
    answer = imported(tmp_path, NAMED)
    path = (tmp_path / "runs.csv").resolve()
    assert answer["source"] == str(path)
    assert answer["notes"] == []
    words = ("import", str(path), f"paths.runs={tmp_path / 'runs'}")
    (tmp_path / "elsewhere").mkdir()
    again = json.loads(printed(tmp_path / "elsewhere", *words, "--json"))
    (trash,) = (tmp_path / "runs" / ".trash").iterdir()
    assert again["notes"] == [f"The earlier import moved to the trash: {trash}"]
    assert "The earlier import moved to the trash" in printed(tmp_path, *words)
    second_file = tmp_path / "elsewhere" / "runs.csv"
    second_file.write_text(NAMED)
    words = ("import", "runs.csv", f"paths.runs={tmp_path / 'runs'}")
    refused_for(tmp_path / "elsewhere", [f"has a study of {path} of that name"], *words)


def test_a_home_folder_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert imported(tmp_path, NAMED)["source"] == "~/runs.csv"


@pytest.mark.parametrize("form", ["s{}", "seed_{}", "seed={}", " {} "])
def test_digits_of_a_seed_are_read(form: str, tmp_path: Path) -> None:
    text = grid("lr", (0.5, 2)).replace(",1,", f",{form.format(1)},")
    answer = imported(tmp_path, text.replace(",2,", f",{form.format(2)},"), "--seed", "seed")
    assert [row["seeds"] for row in answer["rows"]] == [[1, 2], [1, 2]]
    assert answer["doubts"] == []


def test_seeds_that_cannot_be_read_are_a_doubt(tmp_path: Path) -> None:
    text = grid("lr", (0.5, 2)).replace(",1,", ",red,").replace(",2,", ",blue,")
    (doubt,) = imported(tmp_path, text, "--seed", "seed")["doubts"]
    assert doubt["text"] == "4 runs have no seed that can be read in seed: the table numbers them."


def test_a_metric_that_is_typed_twice_is_one(tmp_path: Path) -> None:
    words = ("--metric", "accuracy", "--metric", "accuracy:up")
    answer = imported(tmp_path, grid("lr", (0.5, 2)), *words)
    assert [metric["name"] for metric in answer["metrics"]] == ["accuracy"]
    words = ("--metric", "accuracy:up", "--metric", "accuracy:down")
    reason = "--metric is accuracy:down, and accuracy:up too … name a column once"
    refused_for(tmp_path, [reason], "import", "runs.csv", *words)


def lines_per_epoch(memory: Callable[[int, int], int]) -> str:
    """Two models with three seeds and five epochs; ``memory`` of a seed's epoch."""
    lines = [
        f"{model},{seed},{epoch},{0.5 + 0.1 * (model == 'big') + epoch / 100},{memory(seed, epoch)}"
        for model in ("base", "big")
        for seed in (1, 2, 3)
        for epoch in range(1, 6)
    ]
    return "\n".join(["model,seed,epoch,val_acc,gpu_mem_mb", *lines])


def test_an_ignored_column_tells_no_runs_apart(tmp_path: Path) -> None:
    text = lines_per_epoch(lambda seed, epoch: 2048 + 2 * ((seed * epoch) % 2))
    answer = imported(tmp_path, text, "--base", "model=base", "--ignore", "gpu_mem_mb")
    assert answer["notes"] == ["30 lines are curves of 6 runs: the last line counts"]
    assert [row["val_acc"] for row in table(tmp_path)] == pytest.approx([0.55, 0.65])


@pytest.mark.parametrize("column", ["success_rate", "win_rate", "tpr"])
def test_what_was_measured_makes_no_rows(tmp_path: Path, column: str) -> None:
    values = iter((80, 90, 90, 90, 100, 80))
    lines = [
        f"{method},{seed},{200 + 20 * (method == 'replay') + seed},{next(values)}"
        for method in ("plain", "replay")
        for seed in (1, 2, 3)
    ]
    text = "\n".join([f"method,seed,return,{column}", *lines])
    answer = imported(tmp_path, text, "--base", "method=plain", "--metric", "return:up")
    assert seeds_by_change(answer) == {"base": [1, 2, 3], "method replay": [1, 2, 3]}


def test_a_rate_that_was_set_makes_rows(tmp_path: Path) -> None:
    lines = [
        f"{strategy},{rate},{seed},0.{5 + seed}{int(10 * rate)}"
        for strategy in ("sync", "async")
        for rate in (0.1, 0.3)
        for seed in (1, 2, 3)
    ]
    text = "\n".join(["strategy,failure_rate,seed,acc", *lines])
    answer = imported(tmp_path, text, "--base", "strategy=sync", "--base", "failure_rate=0.1")
    assert [*seeds_by_change(answer).values()] == [[1, 2, 3]] * 4


def test_runs_that_ended_at_different_epochs_are_no_curve(tmp_path: Path) -> None:
    lines = [f"{units},{epoch},0.{epoch}" for units, epoch in ((64, 12), (128, 17), (256, 23))]
    text = "\n".join(["hidden_units,epoch,val_acc", *lines])
    answer = imported(tmp_path, text, "--base", "hidden_units=64")
    assert len(answer["rows"]) == 3


def test_a_row_without_a_name_is_base_by_none(tmp_path: Path) -> None:
    text = "aug,seed,acc\nnone,1,0.5\nnone,2,0.6\nmixup,1,0.7\nmixup,2,0.8\n"
    answer = imported(tmp_path, text, "--row", "aug", "--base", "none")
    assert [row["row"] for row in answer["rows"]] == ["base", "mixup"]


def test_a_run_without_one_of_the_metrics_is_named(tmp_path: Path) -> None:
    text = "model,seed,acc,f1\na,1,0.5,0.4\na,2,0.6,\nb,1,0.7,0.6\nb,2,0.8,0.7\n"
    answer = imported(tmp_path, text, "--base", "model=a")
    (doubt,) = [doubt for doubt in answer["doubts"] if doubt["kind"] == "left-out-runs"]
    assert doubt["text"] == "1 run without f1: run 2. base has no mean of it."


def test_a_diverged_run_without_a_step_has_none(tmp_path: Path) -> None:
    imported(tmp_path, "model,seed,acc\na,1,0.5\na,2,0.6\nb,1,nan\nb,2,0.8\n", "--base", "model=a")
    row = next(row for row in table(tmp_path) if row["row"] != "base")
    assert row["note"] == "1 of 2 diverged (s1): mean of the others"


@pytest.mark.parametrize("column", ["version", "python_version", "env.torch"])
def test_versions_are_no_decimal_numbers(column: str, tmp_path: Path) -> None:
    runs = [f"{version},{seed},0.{seed}" for version in ("3.1", "3.9", "3.10") for seed in (1, 2)]
    lines = "\n".join([f"{column},seed,acc", *runs])
    answer = imported(tmp_path, lines, "--row", column, "--base", f"{column}=3.1")
    assert seeds_by_change(answer) == {"base": [1, 2], "3.9": [1, 2], "3.10": [1, 2]}
