"""The report in a real browser: Debian's Chromium without a network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reported import TEXTS, reported

from tracking.report.page import page, whole_content

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
    path.write_text(page(whole_content(reported(folder / "whole"), TEXTS)), "utf-8")
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


def test_it_is_readable_without_javascript(browser: Any, file: Path) -> None:
    seen = opened(browser, file, java_script_enabled=False)
    assert all(seen.shown("section, figure:not(details figure), table.study tr"))
    assert not any(seen.shown(".buttons"))
    seen.page.uncheck("#show-2")
    assert not any(seen.shown("tr.row-2"))


def _boxes(page: Any, selector: str) -> list[dict[str, float]]:
    return [box for part in page.query_selector_all(selector) if (box := part.bounding_box())]
