"""The copy of a text: every n-th pair of a large one, and nothing left by Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_trials import letters

from transformer.data import working_copy
from transformer.data.corpora import Text
from transformer.data.text_file import SentencePair
from transformer.data.working_copy import WorkingCopy, untold

PREPARE = """
import sys
from pathlib import Path
from transformer.config import DataConfig
from transformer.data.prepare import prepare

def told(step, done):
    print(step, flush=True)

train = [sys.argv[1]] * 2
prepare(DataConfig("files", "a", "b", 8000, None, train, train, train), Path(sys.argv[2]), told=told)
"""


def numbered(size: int) -> Iterator[SentencePair]:
    return ((f"source {number:07d} {'x' * 80}", f"target {number:07d} {'y' * 80}") for number in range(size))


def taken(folder: Path, size: int) -> WorkingCopy:
    copy = WorkingCopy(folder)
    copy.take(Text({"train": numbered(size)}, dict), untold)
    return copy


@pytest.mark.parametrize(("parts", "every"), [(1, 1), (1.01, 2), (3.5, 4), (40, 40)])
def test_a_vocabulary_is_learned_from_evenly_spaced_pairs_of_a_larger_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: float, every: int
) -> None:
    copy = taken(tmp_path, 1000)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(working_copy, "SAMPLED_ABOVE", int(size / parts))
    assert list(copy.lines_to_learn()) == [line for pair in list(numbered(1000))[::every] for line in pair]


@pytest.mark.parametrize("step", ["reading", "learning the vocabulary", "encoding train"])
def test_ctrl_c_ends_a_preparation_and_leaves_nothing(tmp_path: Path, step: str) -> None:
    """As a terminal sends it: to the process and to what it started."""
    text = tmp_path / "text"
    lines = letters(40_000, "abcdefghijklmnopqrstuvwxyz", 12, seed=1)
    text.write_text("".join(f"{line} {line.replace(' ', '')}\n" for line in lines))
    command = [sys.executable, "-c", PREPARE, str(text), str(tmp_path / "new" / "data")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as preparing:
        assert preparing.stdout
        assert next(line for line in preparing.stdout if line.strip() == step)
        os.killpg(preparing.pid, signal.SIGINT)
        _, said = preparing.communicate(timeout=60)
    assert preparing.returncode == -signal.SIGINT, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]
