"""What ends a sweep that cannot record, in the words that it prints."""

from pathlib import Path

import pytest

from sweeps.console import print_failure
from sweeps.running.patient_record import recorded, unrecorded_as_error
from tracking.damage import DamagedFileError


def test_a_damaged_file_is_named_with_its_line_and_its_own_fix(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise DamagedFileError(Path("/study/base-s1/journal.jsonl"), "not a JSON line", 2)

    with pytest.raises(OSError, match="not a JSON line") as raised, unrecorded_as_error():
        recorded(fail, Path("/study/base-s1"), print)
    print_failure(raised.value)
    failed = "Failed: /study/base-s1/journal.jsonl:2: not a JSON line; `ablate sweep` keeps its good lines\n"
    assert capsys.readouterr().err == failed
