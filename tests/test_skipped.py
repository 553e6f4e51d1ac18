"""CI fails where a test is skipped that does not need CUDA; elsewhere such a test is skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="no browser")
def test_by_a_mark() -> None: ...

def test_by_a_call() -> None:
    pytest.skip("no browser")

@pytest.mark.gpu
def test_of_cuda() -> None:
    pytest.skip("no CUDA")

def test_that_runs() -> None: ...
"""


@pytest.mark.parametrize(
    ("env", "said"), [({"CI": "true"}, "1 failed, 1 passed, 1 skipped, 1 error"), ({}, "1 passed, 3 skipped")]
)
def test_only_tests_of_cuda_are_skipped_in_ci(env: dict[str, str], said: str, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    words = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "."]
    plain = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    here = {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        words, cwd=tmp_path, env=plain | here | env, capture_output=True, text=True, check=False
    ).stdout
    assert said in done
    assert ("skipped in CI" in done) == bool(env)
