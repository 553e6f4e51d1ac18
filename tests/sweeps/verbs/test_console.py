"""Output whose reader or terminal has left, or whose disk is full."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from joined_ray import shared_ray
from small_task import write_task
from studies import allelse, command

PRINTING = """
import sys
from contextlib import nullcontext
from rich.live import Live
from sweeps.console import ERR, OUT
out = ERR if sys.argv[1] == "error" else OUT
with Live("a live table", console=out, auto_refresh=False) if sys.argv[1] == "live" else nullcontext():
    out.print("first")
    sys.stdin.readline()
    out.print("second")
    out.print("third")
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("leaves", "shown"), [("terminal", "live"), ("pipe", "plain"), ("pipe", "error")]
)
def test_a_reader_that_leaves_ends_no_program(leaves: str, shown: str) -> None:
    reader, writer = pty.openpty() if leaves == "terminal" else os.pipe()
    stream = {"stderr" if shown == "error" else "stdout": writer}
    process = subprocess.Popen(
        [sys.executable, "-c", PRINTING, shown], stdin=subprocess.PIPE, **stream
    )  # type: ignore[call-overload]
    os.close(writer)
    shown_text = b""
    while b"first" not in shown_text:
        shown_text += os.read(reader, 100)
    os.close(reader)
    process.communicate(b"\n")
    assert process.returncode == 7


def test_a_full_disk_behind_the_output_ends_no_training(workplace: Path) -> None:
    write_task(workplace)
    words = command("train", "task=small", "row=base")
    with Path("/dev/full").open("w") as full_disk:
        assert (
            subprocess.run(
                words, cwd=workplace, stdout=full_disk, stderr=full_disk, timeout=600, check=False
            ).returncode
            == 0
        )
    assert (workplace / "runs" / "small-full" / "base-s1" / "result.json").exists()


NOISY = """    print("größe Δ", flush=True)
    print("a line\\n" * 5000)
"""


@pytest.mark.parametrize(
    ("verb", "encoding"),
    [
        ("train", "ascii"),
        ("train", "latin-1"),
        pytest.param("sweep", "ascii", marks=[pytest.mark.ray, pytest.mark.slow]),
    ],
)
def test_a_letter_that_the_output_lacks_ends_no_trial(
    workplace: Path, verb: str, encoding: str
) -> None:
    start = "def work(trial: Trial[Config]) -> None:\n"
    row = "# @package _global_\nrow: {group: A, change: größe Δ}\nmodel: {size: 9}\n"
    write_task(workplace, {start: start + NOISY}, {"conf/task/small/row/größe.yaml": row})
    rows = "row=größe" if verb == "train" else "sweep.rows=[größe]"
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    words = command(verb, "task=small", rows, "sweep.name=small", "tracking=off")
    if verb == "sweep":
        words.append(shared_ray().word)
        environment |= shared_ray().environment
    process = subprocess.run(
        words, cwd=workplace, env=environment, capture_output=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr
    assert (workplace / "runs/small/größe-s1/result.json").exists()
    assert "größe".encode(encoding, "replace") in process.stdout
    assert b"Traceback" not in process.stderr


def test_what_the_work_prints_to_a_full_disk_ends_no_training(workplace: Path) -> None:
    start = "def work(trial: Trial[Config]) -> None:\n"
    write_task(workplace, {start: start + NOISY})
    words = command("train", "task=small", "row=base", "sweep.name=small", "tracking=off")
    with Path("/dev/full").open("w") as full_disk:
        assert (
            subprocess.run(
                words, cwd=workplace, stdout=full_disk, stderr=full_disk, timeout=600, check=False
            ).returncode
            == 0
        )
    assert (workplace / "runs/small/base-s1/result.json").exists()


def test_a_locale_that_cannot_read_a_name_is_refused(workplace: Path) -> None:
    row = "# @package _global_\nrow: {group: A, change: größe}\nmodel: {size: 9}\n"
    write_task(workplace, files={"conf/task/small/row/größe.yaml": row})
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = allelse(
        "train",
        "task=small",
        "row=größe",
        "sweep.name=small",
        cwd=workplace,
        env=os.environ | plain,
    )
    assert (process.returncode, "Traceback" in process.stderr) == (2, False)
    assert "PYTHONUTF8=1" in process.stderr
    assert not (workplace / "runs/small").exists()
