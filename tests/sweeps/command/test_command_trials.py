"""Trials of commands in this process: what they get, keep and say."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_script import DEFINITION, SCRIPT, total_after, write_script
from studies import lines
from typed import printed, typed

from sweeps.command_task.data_files import digest_of

PRINTING = """\
import os, sys
print("arguments:", *sys.argv[1:])
print("variables:", os.environ.get("SPECIAL"), os.environ.get("PYTHONUNBUFFERED"))
print("score: 1")
"""
PRINTED = """\
command: [python, train.py, -x, "{{args.a}}", "--b={{args.b}}", "{{args.c}}", --d, "{{args.d}}"]
args: {{a: 1, b: 2.5, c: [3, 4], d: {d}}}
metrics: {{score: up}}
env: {{SPECIAL: "seed {{seed}}"}}
"""


def trained(folder: Path, *words: str) -> Path:
    """The folder of a trial of base that ended well."""
    done = typed(folder, "train", "tracking=off", *words)
    assert done.exit_code == 0, done.output
    (trial,) = (folder / "runs").glob("*/base-s*")
    return trial


def failure_of(folder: Path, *words: str) -> str:
    """The first line of error.txt of a trial of base."""
    assert typed(folder, "train", "tracking=off", *words).exit_code == 1
    (error,) = (folder / "runs").glob("*/base-s*/error.txt")
    return error.read_text()


def output_of(trial: Path) -> list[str]:
    (output,) = trial.glob("checkpoints/*/files/output.txt")
    return output.read_text().splitlines()


def planned(folder: Path, *words: str) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(printed(folder, "plan", *words, "--json"))[0]
    return line


def test_points_become_the_journal_and_the_last_ones_the_scores(tmp_path: Path) -> None:
    trial = trained(write_script(tmp_path), "seed=3")
    journal = lines(trial / "journal.jsonl")
    assert [line["step"] for line in journal] == [2, 4, 6, 8]
    assert journal[1]["metrics"]["loss"] == pytest.approx(total_after(4, 3), abs=1e-8)
    assert journal[-1]["metrics"]["test/accuracy"] == pytest.approx(total_after(8, 3) / 4, abs=1e-8)
    result = lines(trial / "result.json")[0]
    assert result["scores"]["test"]["accuracy"] == pytest.approx(total_after(8, 3) / 4, abs=1e-8)
    command = lines(trial / "provenance.json")[0]["attempts"][-1]["about"]["command"]
    assert command[:8] == ["python", "train.py", "--lr", "0.001", "--layers", "4", "--steps", "8"]
    assert "--resume" not in command


def test_values_are_words_of_their_own_and_null_leaves_its_flag_out(tmp_path: Path) -> None:
    folder = write_script(tmp_path, PRINTED.format(d="a b"), PRINTING)
    trial = trained(folder, "sweep.name=set", "seed=5")
    assert output_of(trial)[0] == "arguments: -x 1 --b=2.5 3 4 --d a b"
    assert output_of(trial)[1] == "variables: seed 5 1"
    (folder / "runs").rename(folder / "before")
    trial = trained(folder, "sweep.name=null", "d=null", "b=null", "c=[7]", "a=null")
    assert output_of(trial)[0] == "arguments: 7"


@pytest.mark.parametrize(
    ("value", "changed", "shown"),
    [("true", "false", "false"), ("True", "false", "False"), ("--fast", "null", "")],
)
def test_booleans_are_spelled_as_in_base(
    tmp_path: Path, value: str, changed: str, shown: str
) -> None:
    definition = 'command: [python, train.py, "{args.a}"]\nargs: {a: %s}\nmetrics: {score: up}\n'
    folder = write_script(tmp_path, definition % value, PRINTING)
    assert output_of(trained(folder, "sweep.name=base"))[0] == f"arguments: {value}"
    (folder / "runs").rename(folder / "before")
    trial = trained(folder, f"a={changed}")
    assert output_of(trial)[0] == f"arguments: {shown}".strip()


ENDING = """\
import pathlib, sys
out = pathlib.Path(sys.argv[1])
(out / "metrics.csv").write_text("step,score,loss\\n1,0.5,3\\n2,0.123,2")
(out / "a.csv").write_text("step,loss\\n2,1\\n")
print("score: 0.12", end="")
"""


def test_the_best_source_counts_to_its_last_line(tmp_path: Path) -> None:
    definition = "command: python train.py {out}\nmetrics: {score: up, loss: down}\nsteps: 2\n"
    trial = trained(write_script(tmp_path, definition, ENDING))
    scores = lines(trial / "result.json")[0]["scores"]["dev"]
    assert (scores["score"], scores["loss"]) == (0.123, 1.0)
    log = (trial / "log.txt").read_text()
    assert "score is in metrics.csv and in stdout; metrics.csv counts" in log
    journal = lines(trial / "journal.jsonl")
    curve = {line["step"]: line["metrics"].get("dev/score") for line in journal}
    assert curve == {1: 0.5, 2: 0.123}, "without the rounded value of the output"


FROM_ZERO = """\
import pathlib, sys
out = pathlib.Path(sys.argv[1])
(out / "log.csv").write_text("epoch,score\\n0,0.25\\n1,0.5\\n2,0.75\\n")
"""


def test_epochs_that_count_from_zero_are_all_there(tmp_path: Path) -> None:
    """As Keras's CSVLogger counts."""
    definition = "command: python train.py {out}\nmetrics: {score: up}\nsteps: 3\n"
    trial = trained(write_script(tmp_path, definition, FROM_ZERO))
    journal = lines(trial / "journal.jsonl")
    curve = {line["step"]: line["metrics"]["dev/score"] for line in journal}
    assert curve == {1: 0.25, 2: 0.5, 3: 0.75}
    result = lines(trial / "result.json")[0]
    assert (result["step"], "steps" in result) == (3, False)


PARTS_OF_EPOCHS = """\
import sys
for epoch in range(1, 13):
    for part in (0.5, 0.97):
        print({"loss": 1 / (epoch + part), "epoch": epoch - 1 + part}, flush=True)
    print({"eval_loss": 3 / epoch, "epoch": float(epoch)}, flush=True)
"""


def test_points_of_parts_of_epochs_and_of_whole_ones_share_their_steps(tmp_path: Path) -> None:
    """As Trainer prints them: each evaluation stands at the last loss before it."""
    definition = "command: python train.py\nmetrics: {eval_loss: down}\n"
    trial = trained(write_script(tmp_path, definition, PARTS_OF_EPOCHS))
    journal = lines(trial / "journal.jsonl")
    losses = [
        line["metrics"][name] for line in journal for name in line["metrics"] if name == "loss"
    ]
    scores = [
        value
        for line in journal
        for name, value in line["metrics"].items()
        if name.endswith("eval_loss")
    ]
    assert len(losses) == 24
    assert scores[-1] == 0.25
    assert "curves lack" not in (trial / "log.txt").read_text()


FAILING = {
    "an exit code": (
        "import sys\nprint('first')\nsys.exit('no such layer')",
        "",
        ["python exited with code 1: no such layer", "first"],
    ),
    "a signal": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
        "",
        ["python was ended by SIGSEGV, and printed nothing"],
    ),
    "a timeout": (
        "import time\nprint('waits', flush=True)\ntime.sleep(600)",
        "timeout: 0.2\n",
        ["TimedOutError: python ran for longer than 0.2 s (timeout)"],
    ),
    "a metric that is not written": (
        "print('acuracy: 1 f: 2')",
        "",
        ["wrote no accuracy, which gives accuracy (did you mean acuracy?)", "f in stdout"],
    ),
    "no metric at all": (
        "print('done')",
        "",
        ["it wrote no metric on standard output; its command has no {out}"],
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_trial_fails_with_the_cause_and_the_last_lines(tmp_path: Path, case: str) -> None:
    script, more, parts = FAILING[case]
    definition = f"command: python train.py\nmetrics: {{accuracy: up}}\n{more}"
    text = failure_of(write_script(tmp_path, definition, script))
    assert parts[0] in text.splitlines()[0]
    assert all(part in text for part in parts)


def test_the_key_holds_the_command_and_what_decides(tmp_path: Path) -> None:
    """Not what only observes."""
    (tmp_path / "words.txt").write_text("a b")
    more = "observes: [layers, env.B]\nenv: {A: '1', B: '2'}\ndata: words.txt\n"
    folder = write_script(tmp_path, DEFINITION + more)
    key = planned(folder)["key"]
    same = {
        "an observing key": (lambda: None, ["layers=5"]),
        "an observing variable": (edited(folder, "B: '2'", "B: '3'"), []),
        "grace": (edited(folder, "observes:", "grace: 3\nobserves:"), []),
    }
    other = {
        "a deciding key": (lambda: None, ["lr=0.5"]),
        "the seed": (lambda: None, ["seed=2"]),
        "a word": (edited(folder, "python train.py", "python -O train.py"), []),
        "a variable": (edited(folder, "A: '1'", "A: '2'"), []),
        "the version": (edited(folder, "observes:", "version: 2\nobserves:"), []),
        "data": (lambda: (folder / "words.txt").write_text("b a"), []),
    }
    for name, (change, words) in same.items():
        change()
        assert planned(folder, *words)["key"] == key, name
    for name, (change, words) in other.items():
        change()
        new_key = planned(folder, *words)["key"]
        assert new_key != key, name
        if not words:
            key = new_key


def edited(folder: Path, old: str, new: str) -> Any:
    """A function that replaces this text of the definition."""

    def edit() -> None:
        path = folder / "conf" / "task" / "mine.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return edit


def test_data_behind_a_link_is_part_of_the_key(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "train.txt").write_text("a b")
    data = tmp_path / "data"
    data.mkdir()
    (data / "train").symlink_to(disk)
    (disk / "back").symlink_to(data)
    before = digest_of(data)
    (disk / "train.txt").write_text("a b c")
    assert digest_of(data) != before


def test_an_edited_command_is_changed_code(tmp_path: Path) -> None:
    """Also a script that is no Python, which it names."""
    (tmp_path / "run.sh").write_text("exec python train.py $@")
    definition = DEFINITION.replace("python train.py", "sh run.sh")
    folder = write_script(tmp_path, definition)
    trained(folder, "sweep.name=s")
    (folder / "run.sh").write_text("exec python -O train.py $@")
    done = typed(folder, "sweep", "sweep.name=s", "sweep.seeds=[1,2]", "--add", "tracking=off")
    assert done.exit_code == 2
    assert "run.sh" in done.stderr
    assert "-exec python train.py $@" in done.stderr


def test_a_folder_with_a_command_has_that_task(tmp_path: Path) -> None:
    assert planned(write_script(tmp_path))["row"] == "base"
    done = typed(tmp_path, "plan", "task=mien")
    assert "did you mean task=mine?" in " ".join(done.stderr.split())


def test_gpus_of_the_file_are_those_of_a_worker(tmp_path: Path) -> None:
    folder = write_script(tmp_path, f"{DEFINITION}gpus: 2\n", SCRIPT)
    assert "gpus_per_worker: 2.0" in printed(folder, "config", "row=base")
    text = printed(folder, "config", "row=base", "cluster.gpus_per_worker=1")
    assert "gpus_per_worker: 1" in text


def test_a_plan_without_steps_takes_the_time_of_finished_trials(tmp_path: Path) -> None:
    definition = DEFINITION.replace('steps: "{args.steps}"\n', "")
    slow = SCRIPT.replace("step += 1\n", "step += 1\n    time.sleep(0.2)\n")
    folder = write_script(tmp_path, definition, slow)
    words = " ".join(printed(folder, "plan").split())
    assert "Time: unknown; the first finished trial will show it." in words
    refused = typed(folder, "plan", "--calibrate")
    assert "--calibrate needs the number of steps" in " ".join(refused.output.split())
    result = lines(trained(folder, "seed=1") / "result.json")[0]
    assert result["step"] == 8
    line = planned(folder, "seed=2", "--add")
    assert line["steps"] is None
    assert line["seconds"] >= result["seconds"], "its eight steps, and the scoring"
