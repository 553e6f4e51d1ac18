"""The machines of these tests are as in docs/cluster.md."""

import re
from pathlib import Path

from machines import NOTICED_SOON

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"


def test_the_machines_have_the_documented_health_checks() -> None:
    assert dict(re.findall(r"(RAY_health_check_\w+)=(\d+)", DOCUMENT.read_text("utf-8"))) == NOTICED_SOON
