"""The report is one page that needs nothing from elsewhere, and runs nothing of a study's texts."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.lines import Line2D
from other_tasks import digits
from reported import HOSTILE, SPOKEN, TEXTS, reported
from studies_on_disk import make_study

from tracking.report.drawing import axis_number, legend_below, new_figure
from tracking.report.page import Content
from tracking.report.page import page as page_of
from tracking.study import Study
from tracking.table.study_table import View, whole_table

CHROMIUM = "/usr/bin/chromium"  # apt-get install chromium
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def content_of(study: Study, texts: dict[str, list[str]] | None = None) -> Content:
    return Content(whole_table(study), texts or {})


def said(page: str, tag: str) -> list[str]:
    """The texts of all elements of this kind, as a reader sees them."""
    elements = re.findall(rf"<{tag}[ >].*?</{tag}>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", text)).strip() for text in elements]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(content_of(reported(tmp_path_factory.mktemp("runs") / "whole"), TEXTS))


def test_it_takes_nothing_from_elsewhere(page: str) -> None:
    addresses = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert set(re.findall(r"\w+://[^\"\s]+", page)) <= {
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/2000/svg",
    }
    assert "@import" not in page


def test_texts_of_a_study_are_shown_and_never_run(page: str) -> None:
    assert [page.count(tag) for tag in ("<script", "<i>", "<b>a cat")] == [1, 0, 0]
    texts = said(page, "body")[0]
    assert all(text in texts for text in (HOSTILE, "<b>a cat</b>", "<i>Katze</i>"))
    assert any(SPOKEN.split()[0] in text for text in said(page, "mark"))
    assert any(HOSTILE in text for text in said(page, "text")), "figures take $ and < as they are"


def test_every_id_is_there_once_and_every_reference_leads_somewhere(page: str) -> None:
    id_counts = Counter(re.findall(r'\sid="([^"]+)"', page))
    assert [name for name, count in id_counts.items() if count > 1] == []
    assert page.count("<svg") >= 8
    references = set(re.findall(r'(?:url\(|href=")#([^")]+)', page))
    assert len(references) > 20
    assert references <= set(id_counts)


def test_table_verdict_and_costs_say_what_the_study_says(page: str) -> None:
    cells = said(page, "td")
    notes = " ".join(said(page, "p"))
    assert "25.2±0.2" in cells
    assert "−5.2▼" in cells, "25.2 − 30.4"
    assert "in all" in said(page, "th")
    assert "9 h 15 min" in cells, "nine trials of 3 700 s"
    assert "8.57e18" in cells, "nine trials of 9.52e17 FLOPs"
    assert "BLEU against the paper, number of rows: agrees 1, not shown 1." in notes
    assert "95 % interval" in notes
    assert "Error bars" in notes
    assert "three random seeds each" in notes, "the methods"
    assert "9 of 9 trials finished" in notes


def test_what_means_leave_out_is_in_no_curve_and_unknown_costs_are_said(tmp_path: Path) -> None:
    study = reported(tmp_path / "study")
    for trial, name, value in zip(study.trials, ("diverged", "seconds"), (40, None), strict=False):
        folder = study.trial_folder(trial)
        folder.write_result({**(folder.result() or {}), name: value})
    page = page_of(content_of(study))
    assert "base: 0.715 at step 50, 2 seeds" in page
    assert "3 seeds" in page, "of the other rows"
    assert "2 and 1 diverged" in said(page, "td")
    assert "at least 8 h 13 min" in said(page, "td"), "eight trials of 3 700 s"


def test_a_seed_that_is_not_finished_yet_is_not_counted_at_the_last_step(tmp_path: Path) -> None:
    study = reported(tmp_path / "study")
    folder = study.trial_folder(study.trials[0])
    folder.result_path.unlink()
    first_lines = folder.journal_path.read_text().splitlines(keepends=True)[:2]
    folder.journal_path.write_text("".join(first_lines))
    page = page_of(content_of(study))
    assert "base: 0.715 at step 50, 2 seeds" in page


def test_a_page_of_chosen_seeds_says_so(tmp_path: Path) -> None:
    table = whole_table(reported(tmp_path / "study"))
    chosen = replace(table, view=View(seeds=(1, 2)))
    assert "Only seeds 1, 2 are included" in page_of(replace(content_of(table.study), table=chosen))


def test_a_study_in_which_nothing_ran_has_a_page(tmp_path: Path) -> None:
    page = page_of(content_of(make_study(tmp_path / "fresh", {"base": [1], "a_heads_1": [1]})))
    assert said(page, "td").count("missing") == 4, "two rows and two trials"
    assert said(page, "h2") == ["Results", "Provenance"]
    assert "<svg" not in page
    assert "0 of 2 trials finished" in " ".join(said(page, "p"))


def test_a_damaged_trial_of_a_task_with_unknown_flops_and_nothing_published(tmp_path: Path) -> None:
    study = digits(tmp_path / "digits", 0.5, 0.75, 0.875, 1.0)
    study.trial_folder(study.trials[0]).journal_path.write_text("no json\n" * 3, "utf-8")
    page = page_of(content_of(study))
    assert said(page, "h2") == [
        *("Results", "Scores on every set", "Differences from base", "Score against cost"),
        *("Costs", "Methods", "Provenance"),
    ]
    assert any(cell.startswith("0.938") for cell in said(page, "td"))
    assert 'aria-label="accuracy against parameters' in page
    texts = said(page, "main")[0]
    assert "FLOPs" not in texts.replace("FLOPs: unknown", "")
    assert "ublished" not in texts


@pytest.fixture(scope="module")
def opened(page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page in Debian's Chromium, with everything that it asked for and complained about."""
    from playwright.sync_api import sync_playwright

    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page, "utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        view = browser.new_page(viewport={"width": 1400, "height": 900})
        view.heard = heard = list[str]()
        for event in ("console", "dialog", "pageerror", "request"):
            view.on(event, lambda _, event=event: heard.append(event))
        view.on("dialog", lambda dialog: dialog.dismiss())
        view.goto(file.as_uri())
        yield view
        browser.close()


@pytest.mark.browser
class TestInABrowser:
    """One page for all, since a browser starts slowly."""

    def test_it_asks_for_itself_alone_and_never_scrolls_sideways(self, opened: Any) -> None:
        assert opened.heard == ["request"]
        for width in (1400, 700, 400, 320):
            opened.set_viewport_size({"width": width, "height": 900})
            boxes = [part.bounding_box() for part in opened.query_selector_all("figure svg, h2")]
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert all(
                box["x"] >= 0 and box["x"] + box["width"] <= width + 1 for box in boxes if box
            )

    def test_rows_are_hidden_by_keyboard(self, opened: Any) -> None:
        opened.set_viewport_size({"width": 1400, "height": 900})
        visible_rows = visible(opened, "tr.row-1")
        assert any(visible_rows), "tables of further sets are folded"
        opened.focus("#show-0")
        opened.keyboard.press("Tab")
        outline = opened.eval_on_selector("#show-1", "node => getComputedStyle(node).outlineStyle")
        assert (opened.evaluate("document.activeElement.id"), outline) == ("show-1", "solid"), (
            "the focus is visible"
        )
        opened.keyboard.press("Space")
        assert not any(visible(opened, "tr.row-1, svg g.row-1"))
        assert any(visible(opened, "tr.row-2"))
        opened.keyboard.press("Space")
        assert visible(opened, "tr.row-1") == visible_rows

    def test_the_first_row_of_a_group_that_is_shown_has_its_letter(self, opened: Any) -> None:
        # as if of the same group
        opened.eval_on_selector("tr.row-2 .group", "cell => { cell.dataset.group = 'A'; }")
        opened.uncheck("#show-0")
        assert groups_shown(opened) == ["A"]
        opened.uncheck("#show-1")
        assert (groups_shown(opened), visible(opened, "table.study tr.row-2")) == (["A"], [True])
        opened.click("button[data-show=all]")
        assert groups_shown(opened) == ["base", "A"]

    def test_it_is_readable_without_javascript(self, opened: Any) -> None:
        plain = opened.context.browser.new_page(java_script_enabled=False)
        plain.goto(opened.url)
        assert all(visible(plain, "section, figure:not(details figure), table.study tr"))
        assert not any(visible(plain, ".buttons"))
        plain.uncheck("#show-2")
        assert not any(visible(plain, "tr.row-2"))


def groups_shown(page: Any) -> list[str]:
    cells = [cell.inner_text() for cell in page.query_selector_all(".group") if cell.is_visible()]
    return [group for group in cells if group]


def visible(page: Any, selector: str) -> list[bool]:
    return [part.is_visible() for part in page.query_selector_all(selector)]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.5, "0.5"), (500, "500"), (2e3, "2k"), (1.5e6, "1.5M"), (3e13, "30T"), (2.5e18, "2.5e18")],
)
def test_numbers_of_axes(value: float, said: str) -> None:
    assert axis_number(value) == said


def test_a_legend_reads_from_left_to_right() -> None:
    figure, _ = new_figure(2.0)
    legend = legend_below(figure, [(name, Line2D([], [])) for name in "1234567"], 3)
    figure.draw_without_rendering()
    places = {text.get_text(): text.get_window_extent() for text in legend.get_texts()}
    assert (
        "".join(sorted(places, key=lambda name: (-round(places[name].y0), places[name].x0)))
        == "1234567"
    )


def test_steps_are_whole_and_bars_are_explained_only_where_there_are_some(tmp_path: Path) -> None:
    content = content_of(reported(tmp_path / "one", seeds=1, steps=range(1, 4)))
    (axes,) = content.curves["dev/nll"][0].figure.axes
    assert all(tick == int(tick) for tick in axes.get_xticks())
    assert "95 % interval" not in page_of(content)
    assert "Error bars" not in page_of(content)
