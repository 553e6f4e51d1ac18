"""A table as one page of HTML, without scripts or anything from elsewhere; its text stands in templates/."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tracking.table.text import TextTable


def templates(folder: Path) -> Environment:
    """The templates of a folder. What they are given is escaped."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def html(table: TextTable) -> str:
    """One body of the table per group."""
    return templates(Path(__file__).parent / "templates").get_template("table.html").render(table=table)
