"""The table of docs/scales.md is what the code does."""

from scale_table import DOCUMENT, MARKED, SCALES, scale_table

from sweeps.config.files import SHIPPED


def test_the_document_s_table_is_generated() -> None:
    found = MARKED.search(DOCUMENT.read_text("utf-8"))
    assert found is not None
    assert found[0] == scale_table(), "write it again: python tests/sweeps/scale_table.py"


def test_every_shipped_scale_has_a_column() -> None:
    assert sorted(SCALES) == sorted(path.stem for path in (SHIPPED / "scale").glob("*.yaml"))
