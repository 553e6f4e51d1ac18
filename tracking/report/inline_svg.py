"""The SVG that matplotlib writes, for a page with several: unique ids, classes of rows, titles, CSS variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from tracking.report.palette import VARIABLES

HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
OPENING = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>")
STYLE = re.compile(r"\s*<style.*?</style>", re.DOTALL)  # it would hold for the whole page
TAG = re.compile(r"<[^<>]+>")  # never a part of a text, in which < is escaped
IDENTITY = re.compile(r'\bid="([^"]+)"')
REFERENCE = re.compile(r'(url\(#|xlink:href="#)([^")]+)')
COLOR = re.compile(rf"(?<=: )(?:{'|'.join(VARIABLES)})")
COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
GROUP = re.compile(r'<g id="([^"]+)">')


@dataclass(frozen=True)
class Mark:
    """What a part of a figure stands for."""

    row: int  # its place in the table
    text: str  # shown when the part is pointed at


def finished(svg: str, name: str, description: str, marks: Mapping[str, Mark], *, variables: bool) -> str:
    """One `<svg>` element. With ``variables`` it belongs to a page, otherwise to a file of its own."""
    text = COMMENT.sub("", METADATA.sub("", svg))
    text = GROUP.sub(lambda found: _marked(found[1], marks), text)
    text = TAG.sub(lambda tag: _named(tag[0], name), text)
    return _for_page(HEAD.sub("", text), description) if variables else text


def _named(tag: str, name: str) -> str:
    tag = IDENTITY.sub(lambda found: f'id="{name}-{found[1]}"', tag)
    return REFERENCE.sub(lambda found: f"{found[1]}{name}-{found[2]}", tag)


def _marked(gid: str, marks: Mapping[str, Mark]) -> str:
    mark = marks.get(gid)
    if mark is None:
        return f'<g id="{gid}">'
    title = f"<title>{escape(mark.text)}</title>" if mark.text else ""
    return f'<g id="{gid}" class="row row-{mark.row}">{title}'


def _for_page(text: str, description: str) -> str:
    def opening(found: re.Match[str]) -> str:
        label = escape(" ".join(description.split()))
        return f'<svg viewBox="{found[1]}" role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">'

    def recolored(tag: re.Match[str]) -> str:
        return COLOR.sub(lambda found: f"var({VARIABLES[found[0]]})", tag[0])

    return TAG.sub(recolored, OPENING.sub(opening, STYLE.sub("", text), count=1)).strip()
