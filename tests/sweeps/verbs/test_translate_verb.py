"""`allelse translate`: one line out per line in, for any content and any end."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typed import refusal, typed

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
    source, target = folder / "source.txt", folder / "target.txt"
    source.write_bytes(text.encode("utf-8"))
    done = typed(folder, "translate", *words, "--input", str(source), "--output", str(target))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    return target.read_bytes().decode("utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def dev(trained: Path) -> str:
    return (trained / "dev.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def expected(trial: Path) -> list[str]:
    """The trial's own translations of dev, from its evaluation."""
    return (trial / "hypotheses" / "dev.txt").read_text("utf-8").splitlines()


def test_lines_are_translated_as_the_trial_did_it(trained: Path, dev: str, expected: list[str]) -> None:
    assert translated(trained, dev, "base-s1", "sweep.name=copies") == expected
    assert len(set(expected)) > 30


def test_a_model_has_many_names(trained: Path, trial: Path, attempt: Path, dev: str, expected: list[str]) -> None:
    (entries,) = json.loads((trial.parent / "mlflow-ledger.json").read_text()).values()
    (run_id,) = (entry["run"] for key, entry in entries.items() if key != "study")
    checkpoint = str(attempt.relative_to(trained) / "step-400")
    for name in ("copies/base-s1", "runs/copies/base-s1", str(trial), run_id, checkpoint):
        assert translated(trained, dev, name) == expected, name
    earlier = translated(trained, dev, checkpoint.replace("400", "200"))
    assert len(earlier) == len(expected)
    assert earlier != expected


def test_the_best_n_translations_come_in_order_with_their_scores(trained: Path, dev: str, expected: list[str]) -> None:
    lines = translated(trained, f"{dev}\n", "copies/base-s1", "--nbest", "3")
    assert len(lines) == 3 * (len(expected) + 1)
    pairs = [line.split("\t") for line in lines]
    assert [text for _, text in pairs[::3]] == [*expected, ""]
    for start in range(0, len(pairs), 3):
        scores = [float(score) for score, _ in pairs[start : start + 3]]
        assert scores == sorted(scores, reverse=True)
    assert pairs[-3:] == [["0.000000", ""], ["-inf", ""], ["-inf", ""]]  # an empty line has one translation
    assert all(re.fullmatch(r"-\d+\.\d{6}", score) for score, _ in pairs[:-3])


def test_the_mean_of_checkpoints_is_another_model(trained: Path, attempt: Path) -> None:
    longer = (trained / "test.txt").read_text("utf-8")  # no two models make the same mistakes there
    averaged = translated(trained, longer, "copies/base-s1", "--average", "2")
    assert averaged == translated(trained, longer, "copies/base-s1", "decode.average_checkpoints=2")
    assert averaged != translated(trained, longer, "copies/base-s1")
    before = str(attempt / "step-300")  # a mean ends at the checkpoint that is named
    assert translated(trained, longer, before, "--average", "2") != averaged


@pytest.mark.parametrize("name", ODD)
def test_odd_lines_keep_the_others_and_their_number(trained: Path, name: str) -> None:
    source, target = trained / "source.txt", trained / "target.txt"
    source.write_bytes(f"a b\r\n{ODD[name]}\nc d e".encode())
    done = typed(trained, "translate", "copies/base-s1", "--input", "source.txt", "--output", "target.txt")
    before, odd, after, end = target.read_bytes().decode("utf-8").split("\n")
    assert (before, after, end) == ("a b", "c d e", "")
    assert done.exit_code == 0
    assert bool(odd) == bool(ODD[name].strip(" "))
    if name in ("no space", "too many pieces"):
        assert done.stderr == "source.txt: line 2 has more than 40 pieces; the rest of it is ignored\n"
    else:
        assert done.stderr == ""


def test_a_line_that_is_not_utf8_ends_it_after_those_before(trained: Path) -> None:
    (trained / "source.txt").write_bytes(b"a b\n\nc\n\xff d\ne\n")
    done = typed(trained, "translate", "copies/base-s1", "--input", "source.txt", "--output", "target.txt")
    assert done.exit_code == 2
    assert "source.txt:4 is not UTF-8 text" in done.stderr
    assert (trained / "target.txt").read_text("utf-8") == "a b\n\nc\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_compressed_lines_and_a_byte_order_mark_are_read(trained: Path, pack: Callable[[bytes], bytes]) -> None:
    (trained / "source.txt").write_bytes(pack(b"\xef\xbb\xbfa b\nc d e"))
    done = typed(trained, "translate", "copies/base-s1", "--input", "source.txt", "--output", "target.txt")
    assert (done.exit_code, (trained / "target.txt").read_text("utf-8")) == (0, "a b\nc d e\n")


def test_damaged_input_ends_it_in_one_line(trained: Path) -> None:
    (trained / "source.txt").write_bytes(gzip.compress(b"a b\n" * 50)[:-10])
    done = typed(trained, "translate", "copies/base-s1", "--input", "source.txt", "--output", "target.txt")
    assert done.exit_code == 2
    assert "source.txt cannot be read: Compressed file ended before" in done.stderr


def test_each_typed_line_is_translated_at_once_and_a_person_may_interrupt(trained: Path) -> None:
    """The pipe stays open all the time; the child runs in a new process group, as under a shell."""
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, cwd=trained, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as child:
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


def test_another_program_s_output_is_read_as_a_file_and_a_reader_that_leaves_ends_it(trained: Path) -> None:
    pipe = subprocess.PIPE
    words = " ".join([*COMMAND, "--input", "<(yes 'a b c')"])
    script = f"{{ {words}; echo $? >&2; }} | head -1"
    done = subprocess.run(["bash", "-c", script], cwd=trained, stdout=pipe, stderr=pipe, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("a b c\n", "0\n")


def test_an_unknown_name_is_refused_with_the_nearest(trained: Path) -> None:
    assert "did you mean base-s1?" in refusal(trained, "translate", "bse-s1", "sweep.name=copies")
    assert "did you mean copies/base-s1?" in refusal(trained, "translate", "base-s1")
    assert "studies there: copies" in refusal(trained, "translate", "base-s1")
    assert "TRIAL is missing" in refusal(trained, "translate", "sweep.name=copies")
    assert "must name one trial or folder" in refusal(trained, "translate", "base-s1", "big-s1", "sweep.name=copies")


def test_settings_of_training_cannot_be_overridden(trained: Path) -> None:
    words = ["model.n_layers=2", "train.steps=3", "row=big", "data.vocab_size=9"]
    said = refusal(trained, "translate", "copies/base-s1", *words)
    for key in ("model.n_layers", "train.steps", "row", "data.vocab_size"):
        assert f"{key} (command line) cannot be changed once a model is trained" in said
    assert "takes decode.beam, decode.alpha, decode.max_extra, decode.average_checkpoints" in said
    misspelt = refusal(trained, "translate", "copies/base-s1", "decode.baem=2")
    assert "did you mean decode.beam?" in misspelt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["decode.beam=0"], "decode.beam (command line) is 0 must be a whole number between 1 and 32"),
        (["--nbest", "5"], "--nbest is 5 must be at most decode.beam, which is 4"),
        (["--average", "9"], "decode.average_checkpoints is 9 times decode.average_every (100), it must be at most"),
        (["--average", "2", "decode.average_every=150"], "no whole checkpoint of step 150; of other steps: 100, 200,"),
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
def test_impossible_settings_are_refused(trained: Path, dev: str, words: list[str], said: str) -> None:
    assert said in refusal(trained, "translate", "copies/base-s1", *words)
    assert (trained / "dev.txt").read_text("utf-8") == dev
