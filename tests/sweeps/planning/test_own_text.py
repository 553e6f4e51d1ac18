"""`data=files` on the command line: faults of the files, in every verb, and what is said while text
is prepared."""

import io
import os
from pathlib import Path

import pytest
from allelse_in_folder import contents, plan
from rich.console import Console
from typed import refusal, typed

from sweeps.running.opening import prepare_data


def of_files(**replacements: str) -> list[str]:
    """The overrides for the file ``text`` in every split, except for ``others``."""
    splits = dict.fromkeys(("train", "dev", "test"), "[text,text]") | replacements
    return [
        "data=files",
        "data.vocab_size=272",
        *(f"data.{name}={files}" for name, files in splits.items()),
    ]


WORDS = of_files()
TEXT = "a b c d\ne f g h\nb d f h\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text(TEXT)
    (tmp_path / "lost").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize("verb", ["plan", "sweep", "train"])
def test_each_verb_refuses_files_that_are_none_by_the_typed_name(folder: Path, verb: str) -> None:
    files_before = contents(folder)
    message = refusal(folder, verb, *of_files(dev="[text,lost]", test="[pipe,'~nosuchuser/text']"))
    for fault in (
        "lost does not exist",
        "pipe is not a file",
        "~nosuchuser/text does not exist",
    ):
        assert f"{folder}/{fault}" in message
    assert message.startswith("Refused, for 3 reasons:")
    assert message.endswith("Nothing was started.")
    assert contents(folder) == files_before


def test_faults_of_the_text_are_refused_before_a_study_or_a_lock(folder: Path) -> None:
    (folder / "text").write_bytes(TEXT.encode().replace(b"b d", b"b\xff"))
    files_before = contents(folder)
    outcome = typed(folder, "train", *WORDS)
    assert outcome.exit_code == 2
    for split in ("train", "dev", "test"):
        assert f"data.{split} {folder}/text:3 is not UTF-8 text" in outcome.stderr
    assert outcome.stderr.endswith("Nothing was started.\n")
    assert contents(folder) == files_before


@pytest.mark.parametrize("terminal", [False, True])
def test_a_preparation_says_what_it_does(folder: Path, terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120, color_system=None)
    planned = plan(folder, *WORDS, "sweep.rows=[base]", f"paths.data={folder}/data")
    prepare_data(planned, console)
    first = stream.getvalue()
    assert "Preparing files" in first
    assert ("Prepared files in " in first) != terminal
    if not terminal:
        prepare_data(planned, console)
        assert stream.getvalue() == first, "prepared text is only opened"


@pytest.mark.parametrize("verb", ["plan", "sweep", "train"])
def test_each_verb_refuses_a_mistyped_set_of_sacrebleu(folder: Path, verb: str) -> None:
    files_before = contents(folder)
    message = refusal(folder, verb, *of_files(dev="[sacrebleu:wtm13]", test="null"))
    assert message.startswith('Refused, for 1 reason: data.dev sacreBLEU has no set "wtm13"')
    assert "did you mean data.dev=[sacrebleu:wmt13]?" in message
    assert contents(folder) == files_before
