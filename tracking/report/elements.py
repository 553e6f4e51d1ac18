"""HTML elements. A text is escaped wherever it stands; only what an element was made of is taken as HTML."""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "input", "link", "br", "wbr"})
Attribute = str | int | bool | None


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: Attribute) -> Html:
    """One element. `class_`, `for_` and `data_row` stand for `class`, `for` and `data-row`."""
    opened = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Html(opened if tag in VOID else f"{opened}{join(children)}</{tag}>")


def join(children: Iterable[str], between: str = "") -> Html:
    """Several children one after another."""
    return Html(between.join(safe(child) for child in children))


def safe(child: str) -> Html:
    """Text as HTML."""
    return child if isinstance(child, Html) else Html(escape(child, quote=False))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    called = name.rstrip("_").replace("_", "-")
    return f" {called}" if value is True else f' {called}="{escape(str(value))}"'
