"""Sources of text: missing files, and the pinned files of Multi30k."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from small_trials import prepared_text

from sweeps.task import Problem, RefusedError
from transformer.config import DataConfig
from transformer.data.corpora import MULTI30K_SHA256

MULTI30K = DataConfig("multi30k", "en", "de", 8000, None, None, None, None)


def refused_multi30k(folder: Path, data: DataConfig) -> Problem:
    with pytest.raises(RefusedError) as refused:
        prepared_text(data, folder)
    return refused.value.problems[0]


def test_a_mirror_folder_without_a_file_is_refused_by_its_path(tmp_path: Path) -> None:
    fault = refused_multi30k(tmp_path, replace(MULTI30K, mirror=str(tmp_path)))
    assert fault.key == "data.mirror"
    assert fault.found.startswith(f"{tmp_path} lacks train.en.gz, train.de.gz, ")


def test_a_mirror_file_with_different_content_is_refused_by_its_checksum(tmp_path: Path) -> None:
    for name in MULTI30K_SHA256:
        (tmp_path / name).write_bytes(gzip.compress(b"not the released text\n"))
    fault = refused_multi30k(tmp_path, replace(MULTI30K, mirror=str(tmp_path)))
    assert fault.key == "data.mirror"
    assert f"{tmp_path / 'train.en.gz'} has SHA-256 " in fault.found
    assert MULTI30K_SHA256["train.en.gz"] in fault.allowed


def test_an_unreachable_mirror_is_refused_with_a_fix(tmp_path: Path) -> None:
    fault = refused_multi30k(tmp_path, replace(MULTI30K, mirror="http://127.0.0.1:9/raw/"))
    assert fault.key == "data.mirror"
    assert "cannot fetch http://127.0.0.1:9/raw/train.en.gz" in fault.found
    assert "data.mirror=DIR" in fault.allowed


def test_a_language_that_multi30k_lacks_here_is_refused(tmp_path: Path) -> None:
    fault = refused_multi30k(tmp_path, replace(MULTI30K, source="xx", mirror=str(tmp_path)))
    assert "train.xx.gz" in fault.found
