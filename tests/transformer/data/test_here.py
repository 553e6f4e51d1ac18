"""The prepared text that a worker opens on its node, and its refusal of any other text."""

import shutil
import socket
from pathlib import Path

import pytest
from small_trials import copy_data

from sweeps.schema import Problem, RefusedError
from transformer.config import DataConfig
from transformer.data.fingerprint import fingerprint, prepared_folder
from transformer.data.here import known_vocabulary, prepare_here
from transformer.data.manifest import PreparedManifest
from transformer.data.prepare import prepare


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    return copy_data(tmp_path, (60, 5, 5), "abcdef", longest=8, vocab_size=270)


def refused(data: DataConfig, folder: Path, planned: str, vocabulary: str = "") -> Problem:
    with pytest.raises(RefusedError) as caught:
        prepare_here(data, folder, planned, vocabulary)
    (problem,) = caught.value.problems
    assert problem.key == "paths.data"
    assert problem.place == str(prepared_folder(folder, planned))
    return problem


def test_a_node_without_prepared_text_prepares_it_from_the_same_text(data: DataConfig, tmp_path: Path) -> None:
    planned = fingerprint(data)
    prepare(data, tmp_path / "one", planned)
    vocabulary = known_vocabulary(tmp_path / "one", planned)
    assert known_vocabulary(tmp_path / "another", planned) == ""
    prepared = prepare_here(data, tmp_path / "another", planned, vocabulary)
    assert prepared.folder == prepared_folder(tmp_path / "another", planned)
    assert prepared.vocabulary_sha256 == vocabulary


def test_a_node_with_different_text_refuses_and_prepares_nothing(data: DataConfig, tmp_path: Path) -> None:
    planned = fingerprint(data)
    whole = prepare(data, tmp_path / "one", planned)
    with (tmp_path / "train.txt").open("a") as file:
        file.write("a b c\n")
    assert prepare_here(data, tmp_path / "one", planned, "") == whole
    problem = refused(data, tmp_path / "another", planned)
    assert f"{socket.gethostname()} has no prepared text and cannot prepare it: data: the text" in problem.found
    (tmp_path / "train.txt").unlink()
    assert prepare_here(data, tmp_path / "one", planned, "") == whole
    assert "train.txt does not exist" in refused(data, tmp_path / "another", planned).found
    assert not (tmp_path / "another").exists()


def test_a_node_with_another_vocabulary_of_the_same_text_is_refused(data: DataConfig, tmp_path: Path) -> None:
    """As from another version of SentencePiece."""
    planned = fingerprint(data)
    vocabulary = prepare(data, tmp_path / "one", planned).vocabulary_sha256
    smaller = copy_data(tmp_path, (60, 5, 5), "abcdef", longest=8, vocab_size=269)
    other = prepare(smaller, tmp_path / "two").folder
    folder = shutil.copytree(other, prepared_folder(tmp_path / "another", planned))
    (folder / "manifest.json").unlink()
    PreparedManifest.of(folder, planned, 0).write(folder)
    found = refused(data, tmp_path / "another", planned, vocabulary).found
    assert "has a different vocabulary of the same text" in found
