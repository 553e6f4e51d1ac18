"""`allelse probe`: the metrics of a command that knows nothing of allelse, ready to paste."""

import json
from pathlib import Path

import psutil
import pytest
from allelse_in_folder import contents
from typed import printed, refusal, typed

from sweeps.command_task.reading import read_definition
from sweeps.verbs.probe import run

SCRIPT = """\
import argparse, csv
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--seed", type=int)
parser.add_argument("--out_dir", type=Path)
args = parser.parse_args()
print("lr:", args.lr, "seed:", args.seed)
table = (args.out_dir / "metrics.csv").open("w")
rows = csv.writer(table)
rows.writerow(["step", "val/acc"])
for step in range(1, 9):
    print(f"step {step} train loss: {1 / step:.4f}")
    rows.writerow([step, step / 16])
print("test accuracy: 87.5%")
"""
COMMAND = ("python", "train.py", "--lr", "0.1", "--seed", "3", "--out_dir", "runs/1")
LISTED = {
    "val/acc": ("metrics.csv", 8, 0.5, 1, 8, "up"),
    "test_accuracy": ("stdout", 1, 87.5, 8, 8, "up"),
    "train_loss": ("stdout", 8, 0.125, 1, 8, "down"),
    "lr": ("stdout", 1, 0.1, None, None, None),
    "seed": ("stdout", 1, 3.0, None, None, None),
}
STUBBORN = """\
import os, signal, subprocess, sys, time
from pathlib import Path

ready = Path(sys.argv[1])
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')\\ntime.sleep(999)"
child = subprocess.Popen([sys.executable, "-uc", deaf], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()


def leave(*_):
    print("final loss: 0.25")
    sys.exit()


signal.signal(signal.SIGTERM, leave)
new = ready.with_suffix(".new")
new.write_text(f"{os.getpid()} {child.pid}")
new.rename(ready)
time.sleep(999)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_every_metric_is_listed_with_its_source(folder: Path) -> None:
    answer = json.loads(printed(folder, "probe", "--json", "--", *COMMAND))
    listed = {
        metric["name"]: tuple(
            metric[key] for key in ("source", "points", "last", "first_step", "last_step", "better")
        )
        for metric in answer["metrics"]
    }
    assert listed == LISTED
    assert (answer["code"], answer["was_ended"], answer["not_read"]) == (0, False, [])
    assert contents(folder) == ["train.py"]


def test_the_block_fits_the_commands_task(folder: Path) -> None:
    text = printed(folder, "probe", "--", *COMMAND)
    block = text[text.index("metrics:\n") : text.index("\nNext:")]
    assert block.splitlines() == [
        "metrics:",
        "  test_accuracy: {better: up, set: test, source: stdout}",
        "  val_acc: {better: up, set: val, point: val/acc, source: metrics.csv}",
        "  # train_loss: {better: down, set: train, source: stdout}",
    ]
    assert "Constant so far: lr 0.1, seed 3." in text
    assert text.splitlines()[-1] == f"Next: allelse init NAME -- {' '.join(COMMAND)}"

    printed(folder, "init", "mine", "--", *COMMAND)
    path = folder / "conf" / "task" / "mine.yaml"
    lines = [line for line in path.read_text().splitlines() if "accuracy" not in line]
    path.write_text("\n".join(lines).replace("metrics:", "# metrics:") + f"\n{block}")
    definition = read_definition("mine", path, path.name)
    written = {(metric.point, metric.source, metric.metric.set) for metric in definition.metrics}
    assert written == {("val/acc", "metrics.csv", "val"), ("test_accuracy", "stdout", "test")}
    assert "Next: allelse plan task=mine" in printed(folder, "probe", "mine")


def test_a_command_is_ended_gently_and_none_of_its_processes_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    (tmp_path / "train.py").write_text(STUBBORN)
    monkeypatch.setattr(run, "monotonic", lambda: 100.0 if ready.exists() else 0.0)
    monkeypatch.setattr(run, "GRACE_S", 1.0)
    answer = json.loads(
        printed(tmp_path, "probe", "--json", "--", "python", "train.py", str(ready))
    )
    assert answer["was_ended"]
    assert [(metric["name"], metric["last"]) for metric in answer["metrics"]] == [
        ("final_loss", 0.25)
    ]
    for pid in ready.read_text().split():
        assert not psutil.pid_exists(int(pid))


def test_without_a_metric_it_says_what_it_looked_for_and_what_to_do(folder: Path) -> None:
    (folder / "train.py").write_text('print("hello"); open("model.bin", "w").write("x")')
    done = typed(folder, "probe", "--", "python train.py")
    assert done.exit_code == 1
    for words in (
        "No metric was found. Looked for:",
        "JSON lines, csv, TensorBoard's events, trainer_state.json, MLflow",
        "It wrote 1 file: model.bin.",
        "  hello",
        "from allelse import report",
        "report(step=step, loss=loss, accuracy=accuracy)",
    ):
        assert words in done.stdout
    assert contents(folder) == ["train.py"]


def test_a_metric_in_the_current_folder_cannot_be_read_in_a_trial(folder: Path) -> None:
    (folder / "train.py").write_text('open("log.jsonl", "w").write(\'{"loss": 0.5}\\n\')')
    done = typed(folder, "probe", "--", "python", "train.py")
    assert done.exit_code == 1
    assert "log.jsonl (current folder)" in done.stdout
    assert "log.jsonl: written to the current folder, which all trials share" in done.stdout
    assert "metrics:\n" not in done.stdout


def test_a_command_that_fails_shows_its_last_lines(folder: Path) -> None:
    done = typed(folder, "probe", "--", "python", "train.py", "--lr", "high")
    assert done.exit_code == 1
    assert "failed after" in done.stdout
    assert "with code 2. Its last lines:" in done.stdout
    assert "argument --lr: invalid float value: 'high'" in done.stdout


def test_refusals(folder: Path) -> None:
    assert "COMMAND is missing" in refusal(folder, "probe")
    assert "--seconds is 0" in refusal(folder, "probe", "--seconds", "0", "--", *COMMAND)
    assert "which can't be started" in refusal(folder, "probe", "--json", "--", "no-such-program")
    words = refusal(folder, "probe", "--json", "--", "python train.py --lr {args.lr}")
    assert "holds {args.lr}, which has no value here" in words


def test_files_of_the_user_that_the_command_changes_are_named(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "last.txt").write_text("precious")
    script = "from pathlib import Path\nfor name in ('last', 'new'):\n    "
    script += "Path(f'saved/{name}.txt').write_text(name)\nprint('val_loss: 1')\n"
    (tmp_path / "train.py").write_text(script)
    output = printed(tmp_path, "probe", "--", "python", "train.py")
    assert "Changed while it ran: saved/last.txt. Its folder links to these." in output
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["last.txt"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--", "python train.py 'x"], "COMMAND has a quote without an end: python train.py 'x"),
        (["--", ""], "COMMAND is missing"),
        (["--resume", "--seconds", "0", "mine"], "--seconds is 0 must be more than 0"),
    ],
)
def test_what_cannot_be_run_is_refused(words: list[str], reason: str, tmp_path: Path) -> None:
    assert reason in refusal(tmp_path, "probe", *words)


def test_metrics_of_one_key_get_keys_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('val/loss: 1 val_loss: 2')\n")
    answer = json.loads(printed(tmp_path, "probe", "--json", "--", "python", "train.py"))
    keys = [line.split(":")[0].strip() for line in answer["yaml"].splitlines()[1:]]
    assert keys == ["val_loss", "val_loss_2"]


def test_files_above_the_current_folder_are_there(tmp_path: Path) -> None:
    for name in ("user", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "train.txt").write_text("0.75")
    script = "print('accuracy:', open('../data/train.txt').read(), open('../../DATA').read())"
    (tmp_path / "user" / "train.py").write_text(
        script.replace("DATA", f"{tmp_path.name}/data/train.txt")
    )
    assert "accuracy" in printed(tmp_path / "user", "probe", "--", "python", "train.py")


def test_a_command_that_makes_its_output_folder_is_told_where(tmp_path: Path) -> None:
    script = "import os, sys\nos.mkdir(sys.argv[2])\nprint('loss: 0.5')\n"
    (tmp_path / "train.py").write_text(script)
    done = typed(tmp_path, "probe", "--", "python", "train.py", "--out", "runs/1")
    assert done.exit_code == 1
    assert "to let it make a folder, write {out}/run." in " ".join(done.stdout.split())
    words = ["python", "train.py", "--out", "{out}/run"]
    assert "loss" in printed(tmp_path, "probe", "--", *words)
