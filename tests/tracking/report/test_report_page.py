"""The report is one page that needs nothing from elsewhere, runs nothing of a study's texts, and is always the same."""

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from other_tasks import digits
from reported import HOSTILE, SPOKEN, TEXTS, reported
from studies_on_disk import make_study

from tracking.report.page import page as page_of
from tracking.report.page import whole_content
from tracking.study import Study

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
VOID = ("meta", "input", "link", "br", "path", "use", "rect")


class Read(HTMLParser):
    """The tags with their attributes, and the text within each kind of tag."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.within: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.within += [tag] if tag not in VOID else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while tag in self.within and self.within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.within[-1] if self.within else "", data.strip()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def said(self, *tags: str) -> list[str]:
        return [text for tag, text in self.texts if not tags or tag in tags]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return reported(tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def page(study: Study) -> str:
    return page_of(whole_content(study, TEXTS))


@pytest.fixture(scope="module")
def read(page: str) -> Read:
    return Read(page)


def test_it_takes_nothing_from_elsewhere(page: str, read: Read) -> None:
    addresses = [of.get(name) for _, of in read.tags for name in ("href", "src", "xlink:href") if of.get(name)]
    assert all(str(address).startswith(("#", "data:")) for address in addresses)
    assert set(re.findall(r"\w+://[^\"\s]+", page)) <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}
    assert "@import" not in page


def test_texts_of_a_study_are_shown_and_never_run(read: Read) -> None:
    assert len(read.all("script")) == 1
    assert read.all("i") == []
    assert "a cat" not in read.said("b")
    for text in (HOSTILE, "<b>a cat</b>", "<i>Katze</i>"):
        assert any(text in said for said in read.said()), text
    assert any(SPOKEN.split()[0] in said for said in read.said("mark"))
    assert any(HOSTILE in said for said in read.said("text")), "figures take $ and < as they are"


def test_every_id_is_there_once_and_every_reference_leads_somewhere(page: str, read: Read) -> None:
    counted = Counter(str(attributes["id"]) for _, attributes in read.tags if "id" in attributes)
    assert [name for name, count in counted.items() if count > 1] == []
    assert len(read.all("svg")) >= 8
    references = set(re.findall(r'(?:url\(|href=")#([^")]+)', page))
    assert len(references) > 20
    assert references <= set(counted)


def test_table_verdict_and_costs_say_what_the_study_says(read: Read) -> None:
    cells, notes = read.said("td"), " ".join(read.said("p"))
    assert "25.2" in cells
    assert "−5.2▼" in cells, "25.2 − 30.4"
    assert "in all" in read.said("th")
    assert "9 h 15 min" in cells, "nine trials of 3 700 s"
    assert "8.57e18" in cells, "nine trials of 9.52e17 FLOPs"
    assert "BLEU against the paper, rows: agrees 1, not shown 1." in notes
    assert any("three seeds" in text or "3 seeds" in text for text in read.said("p")), "the methods"
    assert "9 of 9 trials finished" in notes


def test_a_study_in_which_nothing_ran_has_a_page(tmp_path: Path) -> None:
    read = Read(page_of(whole_content(make_study(tmp_path / "fresh", {"base": [1], "a_heads_1": [1]}))))
    assert read.said("td").count("missing") == 4, "two rows and two trials"
    assert read.said("h2") == ["Results", "Provenance"]
    assert read.all("svg") == []
    assert "0 of 2 trials finished" in " ".join(read.said("p"))


def test_a_damaged_trial_of_a_task_with_unknown_flops_and_nothing_published(tmp_path: Path) -> None:
    study = digits(tmp_path / "digits", 0.5, 0.75, 0.875, 1.0)
    study.trial_folder(study.trials[0]).journal_path.write_text("no json\n" * 3, "utf-8")
    read = Read(page_of(whole_content(study)))
    titles = read.said("h2")
    assert titles == ["Results", "Differences from base", "Score against cost", "Costs", "Methods", "Provenance"]
    assert "0.938" in " ".join(read.said("td"))
    assert "accuracy against parameters" in [str(of.get("aria-label")).partition(":")[0] for of in read.all("svg")]
    assert not any("FLOPs" in text for text in read.said("th", "text"))
    assert not any("ublished" in text for text in read.said("p", "th", "td", "text", "dd"))


@pytest.fixture(scope="module")
def opened(page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page in Debian's Chromium, with everything that it asked for and complained about."""
    from playwright.sync_api import sync_playwright

    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page, "utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        shown = browser.new_page(viewport={"width": 1400, "height": 900})
        shown.heard = heard = list[str]()
        for kind in ("console", "dialog", "pageerror", "request"):
            shown.on(kind, lambda _, kind=kind: heard.append(kind))
        shown.on("dialog", lambda dialog: dialog.dismiss())
        shown.goto(file.as_uri())
        yield shown
        browser.close()


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}: apt-get install chromium")
class TestInABrowser:
    """One page for all, since a browser starts slowly."""

    def test_it_asks_for_itself_alone_and_never_scrolls_sideways(self, opened: Any) -> None:
        assert opened.heard == ["request"]
        for width in (1400, 700, 400, 320):
            opened.set_viewport_size({"width": width, "height": 900})
            boxes = [part.bounding_box() for part in opened.query_selector_all("figure svg, h2")]
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert all(box["x"] >= 0 and box["x"] + box["width"] <= width + 1 for box in boxes if box)

    def test_rows_are_hidden_by_keyboard(self, opened: Any) -> None:
        opened.set_viewport_size({"width": 1400, "height": 900})
        opened.focus("#show-0")
        opened.keyboard.press("Tab")
        outline = opened.eval_on_selector("#show-1", "node => getComputedStyle(node).outlineStyle")
        assert (opened.evaluate("document.activeElement.id"), outline) == ("show-1", "solid"), "the focus is visible"
        opened.keyboard.press("Space")
        assert not any(visible(opened, "tr.row-1, svg g.row-1"))
        assert any(visible(opened, "tr.row-2"))
        opened.keyboard.press("Space")
        assert all(visible(opened, "tr.row-1"))

    def test_it_is_readable_without_javascript(self, opened: Any) -> None:
        plain = opened.context.browser.new_page(java_script_enabled=False)
        plain.goto(opened.url)
        assert all(visible(plain, "section, figure:not(details figure), table.study tr"))
        assert not any(visible(plain, ".buttons"))
        plain.uncheck("#show-2")
        assert not any(visible(plain, "tr.row-2"))


def visible(page: Any, selector: str) -> list[bool]:
    return [part.is_visible() for part in page.query_selector_all(selector)]


def test_a_figure_has_the_same_bytes_whatever_was_written_before(study: Study) -> None:
    first, again = (whole_content(study).figures.scores[0] for _ in range(2))
    assert first.inline() == again.inline()
    assert first.content("png") == again.content("png")
    assert whole_content(study).figures.scores[0].content("svg") == first.content("svg")
