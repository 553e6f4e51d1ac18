"""Each promise of ``docs/trust.md`` names a test, and each test of this folder is named there."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAME = re.compile(r"\btest_\w+")


def test_promises_and_tests_are_the_same() -> None:
    promised = set(NAME.findall((TESTS.parent / "docs" / "trust.md").read_text("utf-8")))
    defined = re.compile(r"^def (test_\w+)", re.MULTILINE)
    names = {
        name
        for path in TESTS.glob("record/test_*.py")
        for name in defined.findall(path.read_text("utf-8"))
    }
    everywhere = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in defined.findall(path.read_text("utf-8"))
    }
    assert promised - everywhere == set()
    assert names - promised == {test_promises_and_tests_are_the_same.__name__}
