"""The report in a real browser: Debian's Chromium without a network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reported import HOSTILE, TEXTS, reported

from tracking.report.written import report_page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    path = folder / "report.html"
    path.write_text(report_page(reported(folder / "whole"), TEXTS), "utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


class Opened:
    """The page, with everything that it asked for and complained about."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.page = browser.new_context(**options).new_page()
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def _dismiss(self, dialog: Any) -> None:
        """What an alert in a row's name would open."""
        self.faults.append(dialog.message)
        dialog.dismiss()

    def shown(self, selector: str) -> list[bool]:
        return [bool(part.is_visible()) for part in self.page.query_selector_all(selector)]

    def style(self, selector: str, name: str) -> str:
        return str(self.page.eval_on_selector(selector, f"node => getComputedStyle(node).{name}"))


def opened(browser: Any, file: Path, width: int = 1400, **options: Any) -> Opened:
    return Opened(browser, file, viewport={"width": width, "height": 900}, **options)


@pytest.fixture(scope="module")
def wide(browser: Any, file: Path) -> Opened:
    return opened(browser, file)


def test_nothing_is_asked_for_and_nothing_fails(wide: Opened, file: Path) -> None:
    assert wide.faults == []
    assert wide.asked == [file.as_uri()]


@pytest.mark.parametrize("width", [1400, 700, 400, 320])
def test_the_page_never_scrolls_sideways(browser: Any, file: Path, width: int) -> None:
    page = opened(browser, file, width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width + 1 for box in _boxes(page, "figure svg, h2"))


def test_at_1400_pixels_the_table_needs_no_scrolling(wide: Opened) -> None:
    table = wide.page.query_selector(".scroll")
    assert table.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_rows_are_hidden_by_keyboard(browser: Any, file: Path) -> None:
    seen = opened(browser, file)
    assert all(seen.shown("tr.row-1"))
    seen.page.focus("#show-0")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.id") == "show-1"
    assert seen.style("#show-1", "outlineStyle") == "solid", "the focus is visible"
    seen.page.keyboard.press("Space")
    assert not any(seen.shown("tr.row-1, svg g.row-1"))
    assert any(seen.shown("tr.row-2"))
    seen.page.keyboard.press("Space")
    assert all(seen.shown("tr.row-1"))


def test_all_and_none_are_buttons(browser: Any, file: Path) -> None:
    seen = opened(browser, file)
    seen.page.click("button[data-show=none]")
    assert not any(seen.shown("tbody tr.row"))
    seen.page.click("button[data-show=all]")
    assert all(seen.shown("table.study tbody tr.row"))


def test_a_part_of_a_figure_says_what_it_is_and_lights_its_row(browser: Any, file: Path) -> None:
    seen = opened(browser, file)
    seen.page.hover("#differences-bleu g.row-1 >> nth=0", force=True)
    said = seen.page.inner_text("#tip")
    assert HOSTILE in said
    assert "difference shown" in said
    assert "lit" in str(seen.page.get_attribute("table.study tr.row-1", "class"))
    seen.page.keyboard.press("Escape")
    assert not any(seen.shown("#tip"))


def test_it_is_readable_without_javascript(browser: Any, file: Path) -> None:
    seen = opened(browser, file, java_script_enabled=False)
    assert all(seen.shown("section, figure:not(details figure), table.study tr"))
    assert not any(seen.shown(".buttons"))
    seen.page.uncheck("#show-2")
    assert not any(seen.shown("tr.row-2"))


def test_dark_and_light_have_their_colors(browser: Any, file: Path, wide: Opened) -> None:
    dark = opened(browser, file, color_scheme="dark")
    assert _lightness(dark.style("body", "backgroundColor")) < 40 < 200 < _lightness(dark.style("body", "color"))
    assert _lightness(wide.style("body", "color")) < 60 < 240 < _lightness(wide.style("body", "backgroundColor"))
    for seen, bright in ((dark, True), (wide, False)):
        text = seen.style("figure svg text", "fill")
        assert (_lightness(text) > 150) is bright, "the figures follow"


def test_print_is_light_and_leaves_out_what_one_clicks(browser: Any, file: Path) -> None:
    seen = opened(browser, file, color_scheme="dark")
    seen.page.emulate_media(media="print")
    assert not any(seen.shown(".side"))
    assert _lightness(seen.style("body", "color")) < 60
    seen.page.set_viewport_size({"width": 688, "height": 900})  # A4 without its margins
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 688
    assert len(seen.page.pdf()) > 10_000


@pytest.mark.parametrize(("width", "scheme"), [(1400, "dark"), (400, "light")])
def test_no_text_of_a_figure_lies_on_another(browser: Any, file: Path, width: int, scheme: str) -> None:
    page = opened(browser, file, width, color_scheme=scheme).page
    assert len(page.screenshot()) > 10_000
    for figure in page.query_selector_all("figure:not(details figure)"):
        boxes = [text.bounding_box() for text in figure.query_selector_all("text")]
        pairs = [(one, other) for place, one in enumerate(boxes) for other in boxes[:place]]
        assert [(one, other) for one, other in pairs if _overlap(one, other)] == [], figure.get_attribute("id")


def _boxes(page: Any, selector: str) -> list[dict[str, float]]:
    return [box for part in page.query_selector_all(selector) if (box := part.bounding_box())]


def _overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """By more than the rest that a line of text leaves above and below its letters."""
    wide = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    high = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
    return wide > 1 and high > 0.4 * min(one["height"], other["height"])


def _lightness(color: str) -> float:
    """Of `rgb(1, 2, 3)`, from 0 to 255."""
    parts = [float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3
