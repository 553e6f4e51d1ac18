"""Metrics in what a program writes anyway, read while it writes: whole lines alone, each point
once."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracking.written.environment import environment
from tracking.written.point import WrittenPoint
from tracking.written.watch import WrittenMetrics

Points = list[tuple[str, float, int | None]]


class Program:
    """A folder and an output that a test writes to, and who watches them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.folder.mkdir()
        self.stdout = folder / "stdout"
        self.watch()

    def watch(self) -> None:
        """As a new attempt does."""
        self.metrics = WrittenMetrics(self.folder, self.stdout)

    def append(self, name: str, text: str) -> None:
        path = self.stdout if name == "stdout" else self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", newline="") as file:
            file.write(text)

    def points(self) -> Points:
        return [(point.name, point.value, point.step) for point in self.metrics.poll()]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_half_a_line_of_json_is_read_when_it_is_whole(program: Program) -> None:
    program.append("log.jsonl", '{"step": 1, "loss": 0.5, "dev": {"acc": 1}}\n{"step": 2, "lo')
    assert program.points() == [("loss", 0.5, 1), ("dev/acc", 1.0, 1)]
    assert program.points() == []
    program.append("log.jsonl", 'ss": NaN}\n')
    ((name, value, step),) = program.points()
    assert (name, step) == ("loss", 2)
    assert value != value


def test_a_faulty_line_is_said_once_and_the_others_are_read(program: Program) -> None:
    program.append(
        "log.jsonl", '{"step": 1, "loss": 0.5}\n{"step": 2, lo\n{"step": 3, "loss": 1}\n'
    )
    assert program.points() == [("loss", 0.5, 1), ("loss", 1.0, 3)]
    program.append("log.jsonl", '{"step": 4, "loss": 2}\n')
    assert program.points() == [("loss", 2.0, 4)]
    assert program.metrics.notices == ["log.jsonl line 2 is no JSON object"]


def test_json_lines_may_have_another_ending(program: Program) -> None:
    program.append("log.txt", '{"epoch": 0, "test_acc1": 71.5}\n')
    program.append("notes.txt", "loss: 0.5\n")
    program.append("metrics.json", '{"iter": 10, "loss": 2}\n{"iter": 20, "loss": 1}\n')
    assert program.points() == [
        ("test_acc1", 71.5, 0),
        ("loss", 2.0, 10),
        ("loss", 1.0, 20),
    ]
    assert program.metrics.notices == []


def test_csv_has_empty_cells_and_a_header_that_grows(program: Program) -> None:
    program.append("metrics.csv", "epoch,step,loss\n0,4,0.5\n0,9,\n")
    assert program.points() == [("loss", 0.5, 4)]
    (program.folder / "metrics.csv").write_text("acc,epoch,step,loss\n,0,4,0.5\n,0,9,\n0.25,0,9,\n")
    assert program.points() == [("acc", 0.25, 9)]
    program.append("metrics.csv", ",1,14,0.125\n,1,1")
    assert program.points() == [("loss", 0.125, 14)]


def test_a_quoted_name_of_a_column_may_hold_the_delimiter(program: Program) -> None:
    program.append("log.csv", 'step,"f1 (macro, weighted)",acc\n1,0.5,0.9\n')
    assert program.points() == [("f1 (macro, weighted)", 0.5, 1), ("acc", 0.9, 1)]


def test_csv_as_pandas_writes_it_again_for_each_epoch(program: Program) -> None:
    table = program.folder / "history.csv"
    table.write_text(",epoch,loss\n0,1,0.5\n")
    assert program.points() == [("loss", 0.5, 1)]
    other = program.folder / "history.tmp"
    other.write_text(",epoch,loss\n0,1,0.5\n1,2,0.25\n")
    other.replace(table)
    assert program.points() == [("loss", 0.25, 2)]
    table.write_text(",epoch,loss\n")
    assert program.points() == []
    table.write_text(",epoch,loss\n0,1,0.5\n1,2,0.25\n2,3,0.125\n")
    assert program.points() == [("loss", 0.125, 3)]


def test_newest_values_without_a_step_count(program: Program) -> None:
    for value in (0.5, 0.75, 0.625, float("nan")):
        (program.folder / "metrics.json").write_text(json.dumps({"accuracy": value}))
        (program.folder / "last.csv").write_text(f"loss,lr\n{value},1\n")
        points = program.points()
        assert {str(number) for name, number, _ in points if name != "lr"} == {str(value)}
        assert program.points() == []


def test_a_last_line_needs_no_newline_once_its_program_has_ended(program: Program) -> None:
    program.append("metrics.csv", "step,loss\n1,0.5\n2,0.25")
    program.append("log.jsonl", '{"step": 1, "acc": 0.5}')
    program.append("summary.json", '{"bleu": 30.5}')
    program.append("stdout", "score: 12")
    assert program.points() == [("loss", 0.5, 1)]
    rest = {(point.name, point.value, point.step) for point in program.metrics.rest()}
    assert rest == {("loss", 0.25, 2), ("acc", 0.5, 1), ("bleu", 30.5, None), ("score", 12.0, None)}


def test_a_name_with_letters_that_nobody_sees_gets_spaces(program: Program) -> None:
    program.append("log.csv", "step,val\xa0loss\n1,0.5\n")
    program.append("log.jsonl", '{"step": 1, "a\\nb": 0.5}\n')
    assert sorted(program.points()) == [("a b", 0.5, 1), ("val loss", 0.5, 1)]


def test_a_value_that_is_written_again_for_its_step_counts(program: Program) -> None:
    """As Trainer's `save_metrics` writes the results of each evaluation into one file."""
    file = program.folder / "eval_results.json"
    file.write_text('{"epoch": 3.0, "eval_accuracy": 0.5}')
    assert program.points() == [("eval_accuracy", 0.5, 3)]
    file.write_text('{"epoch": 3.0, "eval_accuracy": 0.9}\n')
    assert program.points() == [("eval_accuracy", 0.9, 3)]


def test_a_resumed_program_may_write_its_document_anew(program: Program) -> None:
    def write(steps: int) -> None:
        records = [{"step": step, "loss": step / 2} for step in range(1, steps + 1)]
        (program.folder / "history.json").write_text(json.dumps(records))

    write(17)
    program.watch()
    found = []
    for steps in (10, 11, 14, 18):
        write(steps)
        found += [step for _, _, step in program.points()]
    assert found == [11, 12, 13, 14, 15, 16, 17, 18]


def test_a_faulty_line_does_not_hide_that_a_file_was_written_anew(program: Program) -> None:
    lines = [f'{{"step": {step}, "loss": {step / 2}}}\n' for step in range(1, 18)]
    file = program.folder / "log.jsonl"
    file.write_text("".join(lines))
    program.watch()
    file.write_text("".join([*lines[:10], "half a li\n"]))
    assert program.points() == []
    program.append("log.jsonl", "".join(lines[10:14]))
    assert [step for _, _, step in program.points()] == [11, 12, 13, 14]


def test_a_step_may_occur_twice(program: Program) -> None:
    program.append("log.csv", "epoch;loss\n1;3\n1;2\n")
    assert program.points() == [("loss", 3.0, 1), ("loss", 2.0, 1)]
    (program.folder / "log.csv").write_text("epoch;loss;acc\n1;3;\n1;2;\n1;1;\n")
    assert program.points() == [("loss", 1.0, 1)]


def test_each_checkpoint_of_trainer_repeats_the_history(program: Program) -> None:
    history: list[dict[str, Any]] = [{"loss": 0.5, "epoch": 0.5, "step": 10}]
    program.append("checkpoint-10/trainer_state.json", json.dumps({"log_history": history}))
    assert program.points() == [("loss", 0.5, 10)]
    history.append({"eval_loss": 0.25, "epoch": 1.0, "step": 20})
    whole = json.dumps({"log_history": history})
    program.append("checkpoint-20/trainer_state.json", whole[:40])
    assert program.points() == []
    program.append("checkpoint-20/trainer_state.json", whole[40:])
    program.append("trainer_state.json", whole)
    points = program.metrics.poll()
    assert points == [WrittenPoint("eval_loss", 0.25, 20, "trainer_state.json")]


def test_a_new_attempt_begins_where_the_files_end(program: Program) -> None:
    first = json.dumps({"log_history": [{"loss": 0.5, "step": 10}]})
    program.append("checkpoint-10/trainer_state.json", first)
    program.append("log.jsonl", '{"step": 1, "loss": 0.5}\n{"step": 2, "lo')
    program.append("metrics.csv", "step,loss\n1,0.5\n")
    program.append("stdout", "step 1 loss: 0.5\nstep 2 lo")
    program.watch()
    assert {point.value for point in program.metrics.earlier} == {0.5}
    assert program.points() == []
    both = json.dumps({"log_history": [{"loss": 0.5, "step": 10}, {"loss": 0.25, "step": 20}]})
    program.append("checkpoint-20/trainer_state.json", both)
    program.append("log.jsonl", '{"step": 2, "loss": 0.25}\n')
    (program.folder / "metrics.csv").write_text("step,loss,acc\n1,0.5,\n2,0.25,1\n")
    program.append("stdout", "step 2 loss: 0.25\n")
    points = {
        (point.source, point.name, point.value, point.step) for point in program.metrics.poll()
    }
    assert points == {
        ("trainer_state.json", "loss", 0.25, 20),
        ("log.jsonl", "loss", 0.25, 2),
        ("metrics.csv", "loss", 0.25, 2),
        ("metrics.csv", "acc", 1.0, 2),
        ("stdout", "loss", 0.25, 2),
    }


HISTORY = [f"{step},{step / 2}\n" for step in range(1, 18)]
AGAIN = [*HISTORY[:10], *(f"{step},{step / 4}\n" for step in range(11, 15))]
"""Trained again from step 11, with other values."""


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("looks", "steps"),
    [
        # opened with "w": the file begins at the step after the checkpoint
        ([HISTORY[10:11], HISTORY[10:14]], [11, 12, 13, 14]),
        ([[], HISTORY[10:14]], [11, 12, 13, 14]),
        # the history of the checkpoint, and then the rest
        ([HISTORY[:10], HISTORY[:14]], [11, 12, 13, 14]),
        ([AGAIN[:11], AGAIN[:12], AGAIN], [11, 12, 13, 14]),
        ([AGAIN[:12], AGAIN], [11, 12, 13, 14]),
        # the whole history, and then what is new
        ([HISTORY, [*HISTORY, "18,9\n"]], [18]),
        # the same, and seen once when half of it is there
        ([[*HISTORY, "18,9\n"], HISTORY[:5], [*HISTORY, "18,9\n", "19,9\n"]], [18, 19]),
    ],
)
def test_a_resumed_program_may_write_its_file_anew(
    program: Program, looks: list[list[str]], steps: list[int], in_place: bool
) -> None:
    """Killed at step 17, it goes on from step 10."""
    header = "step,loss\n"
    file = program.folder / "log.csv"
    file.write_text(header + "".join(HISTORY))
    program.watch()
    found = []
    for rows in looks:
        if not in_place:
            file.unlink()
        file.write_text(header + "".join(rows))
        found += [step for _, _, step in program.points()]
    assert found == steps


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("epoch 3: loss=0.53 acc=87.5% lr=1e-3", "3 loss 0.53 acc 87.5 lr 0.001"),
        ("step 250: train loss 1.25, val loss 1.5", "250 train_loss 1.25 val_loss 1.5"),
        ("iter 100: loss 0.5, time 12.30ms, mfu 3.2%", "100 loss 0.5 mfu 3.2"),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.25", "60640 Loss 1.25"),
        ("Test: Average loss: 0.5, Accuracy: 9/10 (90%)", "None Average_loss 0.5 Accuracy 0.9"),
        ("Epoch: [2][ 10/391]\tTime 0.2 ( 0.4)\tAcc@1  6.25 (  7)", "792 Acc@1 6.25"),
        ("Epoch [3/10], Step [50/100], Loss: 0.5", "250 Loss 0.5"),
        (
            "{'loss': '0.5', 'learning_rate': '4e-05', 'epoch': '2'}",
            "2 loss 0.5 learning_rate 4e-05",
        ),
        ("{'loss': 0.5, 'epoch': 2.0}", "2 loss 0.5"),
        ("{'loss': 0.5, 'epoch': 2.25}", "None loss 0.5"),
        ("{'loss': 0.5, 'epoch': 12.53}", "None loss 0.5"),
        ("{'loss': '0.5', 'epoch': '1.06'}", "None loss 0.5"),
        ("epoch 112.5 loss 0.5", "None loss 0.5"),
        ("| epoch   3 |   200/ 2928 batches | ms/batch 13.97 | loss  8.25 |", "8984 loss 8.25"),
        ("epoch 3 | ms/batch 13.97 | loss 8.25", "3 loss 8.25"),
        ("epoch 3: loss 0.5, sec/step: 12.34", "3 loss 0.5 sec/step 12.34"),
        ("step 1,5000 loss: 0.5", "None loss 0.5"),
        ("step: 100.0, loss: 0.5", "100 loss 0.5"),
        ("ms/batch 13 loss 0.5", "None loss 0.5"),
        ("step 100: evaluated 50/50 batches, loss: 0.5", "100 loss 0.5"),
        ("global_step 500 | accumulated 4/8 batches | loss 0.5", "500 loss 0.5"),
        ("Epoch 3/10 steps: 100 loss: 0.5", "100 loss 0.5"),
        ("Epoch 3/10 batches 100, loss: 0.5", "3 loss 0.5"),
        ("validated 20/20 batches, loss: 0.5", "None loss 0.5"),
        ("epoch 12.50 loss 0.5", "None loss 0.5"),
        ("Epoch 12.5/90 loss=0.5", "None loss 0.5"),
        ('{"step": 3, "train": {"loss": 0.25}}', "3 train/loss 0.25"),
        ("2026-11-27 04:00:01,123 INFO app: step=100 loss=0.5", "100 loss 0.5"),
        ("\x1b[1mstep\x1b[0m 7 \x1b[32mloss\x1b[0m: \x1b[1m-2.5e3\x1b[0m", "7 loss -2500.0"),
        ("step=5 loss=inf val=-Infinity", "5 loss inf val -inf"),
        ("| epoch 001 | loss 10.5 | ppl 1200 | num_updates 100", "100 loss 10.5 ppl 1200.0"),
        ("|    ep_rew_mean     | 21.5     |", "None ep_rew_mean 21.5"),
        ("loss: tensor(0.5, device='cuda:0')", "None loss 0.5"),
        (
            "epoch 1 | train: loss 0.5 acc 0.7 | val: loss 0.6 acc 0.8",
            "1 train_loss 0.5 train_acc 0.7 val_loss 0.6 val_acc 0.8",
        ),
        ("[3] eval-logloss:0.25\ttrain-logloss:0.5", "None eval-logloss 0.25 train-logloss 0.5"),
        ("epoch 1 train-loss: 0.5, val-loss: 0.6", "1 train-loss 0.5 val-loss 0.6"),
        ("epoch 2 [Train] loss 0.5 [Val] loss 0.6", "2 Train_loss 0.5 Val_loss 0.6"),
        (
            "epoch 2 | train: loss 0.5 | val: val_loss 0.6 | lr: 0.25",
            "2 train_loss 0.5 val_loss 0.6 lr 0.25",
        ),
        ("Epoch 1 Train - loss=0.5, Test - loss=0.6", "1 Train_loss 0.5 Test_loss 0.6"),
        ("steps: 100 loss: 0.5", "100 loss 0.5"),
        ("step 1,500 loss: 0.5", "1500 loss 0.5"),
        ("iter 12,000/600,000: loss 0.5", "12000 loss 0.5"),
        ("step 10k loss: 0.5", "None loss 0.5"),
        ("Epoch:  10%|█| 1/10 [00:01<00:09, loss=0.5]", "1 loss 0.5"),
        ("Epoch 2/3 - loss: 0.5 - acc: 1", "2 loss 0.5 acc 1.0"),
        ("Epoch 2/3 ... loss 0.5", "2 loss 0.5"),
        ("epoch 2/3 > loss 0.5", "2 loss 0.5"),
        ("Epoch 2/3 - 10/50 [=====>...] - loss: 0.5", "60 loss 0.5"),
        ("Step 2/3 - loss: 0.5", "2 loss 0.5"),
        ("{'epochs': 3, 'loss': 0.5}", "3 loss 0.5"),
        ("http://localhost:8080 at 12:30:05, v1.2.3, 1.2M parameters: 1.2M, seed", "None"),
    ],
)
def test_a_line_of_output(program: Program, line: str, expected: str) -> None:
    program.append("stdout", f"{line}\n")
    points = program.points()
    steps = {step for _, _, step in points} or {None}
    words = [f"{name} {value}" for name, value, _ in points]
    assert " ".join([*map(str, steps), *words]) == expected


@pytest.mark.parametrize(
    "line",
    [
        "Namespace(lr=0.1, epochs=10, steps=400)",
        "{'lr': 0.1, 'epochs': 10, 'max_steps': 400}",
        '{"lr": 0.1, "iters": 10}',
        "epochs: 10",
        "steps = 400",
        "lr=0.1 max_steps=400 num_epochs=10",
    ],
)
def test_settings_name_no_step(program: Program, line: str) -> None:
    program.append("stdout", f"{line}\nloss: 0.5\nepoch 1/10 loss: 0.25\n")
    steps = [step for name, _, step in program.points() if name == "loss"]
    assert steps == [None, 1]


def test_a_line_without_a_step_belongs_to_the_last_one(program: Program) -> None:
    program.append("stdout", "Epoch 2/5\ntrain loss: 0.5\nval loss: 0.25\n")
    assert program.points() == [("train_loss", 0.5, 2), ("val_loss", 0.25, 2)]


def test_a_bar_gives_its_full_states_and_its_newest_one(program: Program) -> None:
    def state(epoch: int, step: int, loss: float) -> str:
        percent = 25 * step
        return f"\rEpoch {epoch}: {percent}%|██  | {step}/4 [00:01<00:02, 3.6it/s, loss={loss}]"

    program.append("stdout", state(0, 1, 0.9) + state(0, 2, 0.8) + state(0, 3, 0.7))
    assert program.points() == [("loss", 0.8, 2)]
    program.append("stdout", state(0, 4, 0.6) + state(0, 4, 0.6) + "\n")
    program.append("stdout", state(1, 1, 0.5) + state(1, 2, 0.4) + "\r")
    assert program.points() == [("loss", 0.6, 4), ("loss", 0.4, 6)]


def test_a_line_of_an_epoch_stands_at_the_last_step_of_its_bar(program: Program) -> None:
    bars = [f"\rEpoch {epoch}/2: 100%|██| 20/20 [00:01<00:00, loss=0.{epoch}]" for epoch in (1, 2)]
    program.append("stdout", f"{bars[0]}\nepoch 1 val_acc 0.5\n{bars[1]}\nepoch 2 val_acc 0.7\n")
    assert program.points() == [
        ("loss", 0.1, 20),
        ("val_acc", 0.5, 20),
        ("loss", 0.2, 40),
        ("val_acc", 0.7, 40),
    ]


def bar_of_round(step: int, steps: int, postfix: str) -> str:
    return f"\r{100 * step // steps}%|██  | {step}/{steps} [00:01<00:02, 3.6it/s{postfix}]"


@pytest.mark.parametrize("validation", ["", bar_of_round(5, 5, "")])
def test_a_bar_that_starts_again_counts_on_and_scores_of_its_epoch_stand_at_its_end(
    program: Program, validation: str
) -> None:
    """Such as ``for x in tqdm(batches)`` in a loop of epochs, which prints a line behind it."""
    for epoch in range(3):
        begin = bar_of_round(0, 20, "") + bar_of_round(12, 20, ", loss=0.9")
        end = bar_of_round(20, 20, f", loss=0.{epoch}")
        program.append("stdout", begin + end + validation + f"\nEpoch {epoch}: val_acc=0.{epoch}\n")
    assert program.points() == [
        ("loss", 0.0, 20),
        ("val_acc", 0.0, 20),
        ("loss", 0.1, 40),
        ("val_acc", 0.1, 40),
        ("loss", 0.2, 60),
        ("val_acc", 0.2, 60),
    ]


def test_workers_that_write_at_once_begin_no_round(program: Program) -> None:
    lines = [f"step {step}/100: loss 0.{step}\n" for step in (3, 2, 4, 3)]
    program.append("stdout", "".join(lines))
    assert [step for _, _, step in program.points()] == [3, 2, 4, 3]


def test_epochs_that_are_named_before_a_bar_count_after_a_bar_of_other_work(
    program: Program,
) -> None:
    program.append("stdout", bar_of_round(9, 9, ", loss=3.0") + "\n")
    for epoch in (1, 2):
        end = bar_of_round(20, 20, f", loss=0.{epoch}")
        program.append("stdout", f"Epoch {epoch}/2\n{end}\nval_acc: 0.{epoch}\n")
    assert program.points()[1:] == [
        ("loss", 0.1, 20),
        ("val_acc", 0.1, 20),
        ("loss", 0.2, 40),
        ("val_acc", 0.2, 40),
    ]


@pytest.mark.parametrize("work", ["Loading weights", "Writing model shards", "Evaluating", "Map"])
def test_a_bar_of_other_work_is_no_place_in_training(program: Program, work: str) -> None:
    bar = f"\r{work}: 100%|██████████| 25/25 [00:00<00:00, 210.74it/s]\n"
    program.append("stdout", f"step 10 loss: 0.5\n{bar}accuracy: 0.75\n")
    assert program.points() == [("loss", 0.5, 10), ("accuracy", 0.75, 10)]


@pytest.mark.parametrize("head", ["1,2", ",".join(f"pixel{number}" for number in range(1500))])
def test_a_table_of_data_is_not_read_when_it_grows(program: Program, head: str) -> None:
    program.append("data.csv", f"{head}\n")
    assert program.points() == []
    program.append("data.csv", "3,4\n")
    assert program.points() == []


def test_broken_files_are_said_and_stop_nothing(program: Program) -> None:
    (program.folder / "data.csv").write_bytes(b"1,2\n3,4\n")
    (program.folder / "events.out.tfevents.1").write_bytes(bytes(8 + 4) + b"\xff" * 30)
    (program.folder / "mlflow.db").write_text("no database" * 100)
    (program.folder / "run.wandb").write_bytes(b"\x00")
    (program.folder / "results.json").write_text("[[[")
    (program.folder / "noise.log").write_bytes(bytes(range(256)) * 5)
    program.append("log.jsonl", '{"loss": 1}\n')
    assert program.points() == [("loss", 1.0, None)]
    program.points()
    said = " ".join(program.metrics.notices)
    assert "data.csv has numbers in its first line" in said
    assert "mlflow.db is no database of MLflow's" in said
    assert "run.wandb is W&B's own format, which isn't read" in said
    assert len(set(program.metrics.notices)) == len(program.metrics.notices)


def test_mlflows_database_is_read_row_by_row(program: Program) -> None:
    database = sqlite3.connect(program.folder / "mlflow.db")
    assert program.points() == []
    database.execute("CREATE TABLE metrics (key TEXT, value FLOAT, step INTEGER, is_nan BOOLEAN)")
    database.execute("INSERT INTO metrics VALUES ('loss', 0.5, 1, 0)")
    database.commit()
    assert program.points() == [("loss", 0.5, 1)]
    database.execute("INSERT INTO metrics VALUES ('val/acc', 1, 2, 0)")
    assert program.points() == []
    database.commit()
    assert program.points() == [("val/acc", 1.0, 2)]
    database.close()


def test_sources_are_named_without_what_differs_from_run_to_run(program: Program) -> None:
    program.append("lightning_logs/version_3/metrics.csv", "step,loss\n1,0.5\n")
    program.append("out/log.jsonl", '{"loss": 1}\n')
    points = program.metrics.poll()
    assert [point.source for point in points] == ["lightning_logs/metrics.csv", "out/log.jsonl"]
    assert points[0].comes_from("metrics.csv")
    assert not points[0].comes_from("other_metrics.csv")


def test_folds_of_one_run_are_sources_of_their_own(program: Program) -> None:
    for fold in (1, 2):
        program.append(f"fold_{fold}/metrics.csv", f"step,acc\n1,0.{fold}\n")
    sources = sorted(point.source for point in program.metrics.poll())
    assert sources == ["fold_1/metrics.csv", "fold_2/metrics.csv"]


@pytest.mark.parametrize(
    "head", ["Step,Wall time,Acc", "Epoch,wall_time,Acc", "GLOBAL_STEP,_timestamp,Acc"]
)
def test_a_counter_may_have_capitals(program: Program, head: str) -> None:
    program.append("log.csv", f"{head}\n100,5,0.5\n")
    assert program.points() == [("Acc", 0.5, 100)]


def test_nothing_is_opened_that_has_not_changed(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        program.append(f"log_{number}.jsonl", '{"step": 1, "loss": 0.5}\n')
    assert len(program.points()) == 100

    def open_nothing(*_: object, **__: object) -> None:
        raise AssertionError("a file that has not changed was opened")

    monkeypatch.setattr(Path, "open", open_nothing)
    assert program.points() == []


REPORTS = """
import sys
from allelse import report
report(step=1, loss=0.5, accuracy=True)
report(best=float("inf"))
heavy = {"torch", "ray", "mlflow", "hydra", "omegaconf", "numpy", "pandas", "yaml"} & {*sys.modules}
print("heavy", sorted(heavy))
"""


def test_report_writes_a_line_in_a_trial_and_nothing_elsewhere(program: Program) -> None:
    def run(**variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", REPORTS],
            env={**os.environ, **variables},
            cwd=program.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert run() == "heavy []\n"
    variables = environment(program.folder)
    run(RANK="1", **variables)
    assert not [*program.folder.iterdir()]
    run(RANK="0", **variables)
    points = program.metrics.poll()
    assert points == [
        WrittenPoint("loss", 0.5, 1, "report"),
        WrittenPoint("accuracy", 1.0, 1, "report"),
        WrittenPoint("best", float("inf"), None, "report"),
    ]
