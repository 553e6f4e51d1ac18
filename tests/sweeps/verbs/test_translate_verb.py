"""`allelse translate`: one line out per line in, for any content and any end."""

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typed import refusal, typed

TRIAL = ("copies/base-s1",)
FILES = ("--input", "source.txt", "--output", "target.txt")
COMMAND = [sys.executable, "-m", "sweeps.cli", "translate", "base-s1", "sweep.name=copies"]
ODD = {
    "nothing": "",
    "blanks": "   ",
    "one piece": "a",
    "unknown characters": "zzz %§$ 漢字",
    "emoji": "👩‍👩‍👧 a 😀",
    "right to left": "שלום a b مرحبا",
    "no space": "a" * 10_000,
    "too many pieces": "a b c d " * 20,
    "a null": "a\0b",
    "a line separator": "a\u2028b",
    "a tab": "a\tb",
    "a carriage return": "a\rb",
}


def translated(folder: Path, text: str, *words: str) -> list[str]:
    """The translations of these lines, through files."""
    (folder / "source.txt").write_bytes(text.encode("utf-8"))
    outcome = typed(folder, "translate", *words, *FILES)
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "", "")
    return (folder / "target.txt").read_bytes().decode("utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def dev(trained: Path) -> str:
    return (trained / "dev.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def expected(trial: Path) -> list[str]:
    """The trial's own translations of dev, from its evaluation."""
    return (trial / "hypotheses" / "dev.txt").read_text("utf-8").splitlines()


def test_lines_are_translated_as_the_trial_did_it(
    trained: Path, dev: str, expected: list[str]
) -> None:
    assert translated(trained, dev, "base-s1", "sweep.name=copies") == expected
    assert len(set(expected)) > 30


def test_a_model_has_many_names(
    trained: Path, trial: Path, attempt: Path, dev: str, expected: list[str]
) -> None:
    (entries,) = json.loads((trial.parent / "mlflow-ledger.json").read_text()).values()
    (run_id,) = (entry["run"] for key, entry in entries.items() if key != "study")
    checkpoint = str(attempt.relative_to(trained) / "step-400")
    for name in ("copies/base-s1", "runs/copies/base-s1", str(trial), run_id, checkpoint):
        assert translated(trained, dev, name) == expected, name
    earlier_lines = translated(trained, dev, checkpoint.replace("400", "200"))
    assert len(earlier_lines) == len(expected)
    assert earlier_lines != expected


def test_the_best_n_translations_come_in_order_with_their_scores(
    trained: Path, dev: str, expected: list[str]
) -> None:
    lines = translated(trained, f"{dev}\n", "copies/base-s1", "--nbest", "3")
    assert len(lines) == 3 * (len(expected) + 1)
    pairs = [line.split("\t") for line in lines]
    assert [text for _, text in pairs[::3]] == [*expected, ""]
    for start in range(0, len(pairs), 3):
        scores = [float(score) for score, _ in pairs[start : start + 3]]
        assert scores == sorted(scores, reverse=True)
    # an empty line has one translation
    assert pairs[-3:] == [["0.000000", ""], ["-inf", ""], ["-inf", ""]]
    assert all(re.fullmatch(r"-\d+\.\d{6}", score) for score, _ in pairs[:-3])


def test_the_mean_of_checkpoints_is_another_model(trained: Path, attempt: Path) -> None:
    longer = (trained / "test.txt").read_text("utf-8")  # no two models make the same mistakes there
    mean = translated(trained, longer, "copies/base-s1", "--average", "2")
    assert mean == translated(trained, longer, "copies/base-s1", "decode.average_checkpoints=2")
    assert mean != translated(trained, longer, "copies/base-s1")
    checkpoint = str(attempt / "step-300")  # a mean ends at the checkpoint that is named
    assert translated(trained, longer, checkpoint, "--average", "2") != mean


def test_odd_lines_keep_the_others_and_their_number(trained: Path) -> None:
    (trained / "source.txt").write_bytes("\n".join(["a b\r", *ODD.values(), "c d e"]).encode())
    outcome = typed(trained, "translate", *TRIAL, *FILES)
    line_before, *odd_lines, line_after, end = (
        (trained / "target.txt").read_bytes().decode("utf-8").split("\n")
    )
    assert (outcome.exit_code, line_before, line_after, end) == (0, "a b", "c d e", "")
    empty_lines = {name for name, line in zip(ODD, odd_lines, strict=True) if not line}
    assert empty_lines == {"nothing", "blanks"}
    warning = "source.txt: line 8 has more than 320 pieces; the rest of it is ignored\n"
    assert outcome.stderr == warning, "sinusoids hold 8 × max_positions pieces of a line"


@pytest.mark.parametrize(
    ("content", "said", "target"),
    [
        (b"a b\n\nc\n\xff d\ne\n", "source.txt:4 is not UTF-8 text", "a b\n\nc\n"),
        (
            gzip.compress(b"a b\n" * 50, mtime=0)[:-10],
            "source.txt cannot be read: Compressed file ended before",
            None,
        ),
    ],
)
def test_damaged_input_ends_it_after_the_lines_before(
    trained: Path, content: bytes, said: str, target: str | None
) -> None:
    (trained / "source.txt").write_bytes(content)
    outcome = typed(trained, "translate", *TRIAL, *FILES)
    assert outcome.exit_code == 2
    assert said in outcome.stderr
    assert target is None or (trained / "target.txt").read_text("utf-8") == target


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_compressed_lines_and_a_byte_order_mark_are_read(
    trained: Path, pack: Callable[[bytes], bytes]
) -> None:
    (trained / "source.txt").write_bytes(pack(b"\xef\xbb\xbfa b\nc d e"))
    outcome = typed(trained, "translate", *TRIAL, *FILES)
    assert (outcome.exit_code, (trained / "target.txt").read_text("utf-8")) == (0, "a b\nc d e\n")


def test_each_typed_line_is_translated_at_once_and_a_person_may_interrupt(trained: Path) -> None:
    """The pipe stays open all the time; the child runs in a new process group, as under a shell."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        COMMAND, cwd=trained, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        for line in (b"a b c\n", b"\n", b"d e\n"):
            child.stdin.write(line)
            child.stdin.flush()
            assert child.stdout.readline() == line
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stderr.read() == b"Interrupted after line 3.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["decode.baem=2"], "did you mean decode.beam?"),
        (
            ["decode.beam=0"],
            "decode.beam (command line) is 0 must be a whole number between 1 and 32",
        ),
        (["--nbest", "5"], "--nbest is 5 must be at most decode.beam, which is 4"),
        (["--average", "9"], "decode.average_checkpoints is 9 must be at most"),
        (
            ["--average", "2", "decode.average_every=150"],
            "no complete checkpoint of step 150; other steps: 100, 200,",
        ),
        (
            ["--average", "2", "decode.average_checkpoints=3"],
            "--average (command line) is given with decode.average_checkpoints",
        ),
        (["--input", "nowhere.txt"], "--input nowhere.txt cannot be read"),
        (["--input", "runs"], "--input runs cannot be read"),
        (["--output", "runs"], "--output runs cannot be written"),
        (["--output", "nowhere/target.txt"], "--output nowhere is not a folder"),
        (["--input", "dev.txt", "--output", "dev.txt"], "--output dev.txt is the input"),
    ],
)
def test_impossible_settings_are_refused(
    trained: Path, dev: str, words: list[str], said: str
) -> None:
    assert said in refusal(trained, "translate", "copies/base-s1", *words)
    assert (trained / "dev.txt").read_text("utf-8") == dev


def test_a_reader_that_leaves_ends_it(trained: Path) -> None:
    script = f"{{ yes 'a b c' | {shlex.join(COMMAND)}; echo ${{PIPESTATUS[1]}} >&2; }} | head -1"
    process = subprocess.run(
        ["bash", "-c", script], cwd=trained, capture_output=True, text=True, timeout=120
    )
    assert (process.stdout, process.stderr) == ("a b c\n", "0\n")


def test_closed_input_is_refused_before_an_output_is_replaced(trained: Path, dev: str) -> None:
    script = f"{shlex.join(COMMAND)} --output dev.txt <&-"
    process = subprocess.run(
        ["bash", "-c", script], cwd=trained, capture_output=True, text=True, timeout=120
    )
    assert (process.returncode, "standard input is closed" in process.stderr) == (2, True)
    assert (trained / "dev.txt").read_text("utf-8") == dev


def test_a_trial_of_another_study_is_suggested(trial: Path, tmp_path: Path) -> None:
    shutil.copytree(trial.parent, tmp_path / "runs" / "copies")
    message = refusal(tmp_path, "translate", "base-s1")
    assert "did you mean copies/base-s1?" in message
    assert "studies there: copies" in message
