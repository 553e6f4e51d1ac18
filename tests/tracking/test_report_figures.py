"""The report's figures: their numbers by hand, and files that are the same each time."""

import re
from pathlib import Path

import pytest
from reported import NLL, SCORE, reported

from tracking.report.curves import Curves, read_curves
from tracking.report.drawing import WIDTH
from tracking.report.figures import Figures, differences
from tracking.report.forest import Difference, _edges
from tracking.report.inline_svg import Mark, finished
from tracking.report.page import Content
from tracking.report.palette import SERIES, group_styles, line_style
from tracking.report.row_entries import Entry, panels
from tracking.report.samples_section import marked
from tracking.report.ticks import counted, late_range, powered
from tracking.report.written import figure_files, whole_content
from tracking.study import Study
from tracking.translation_card import TRANSLATION


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return reported(tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def content(study: Study) -> Content:
    return whole_content(study)


@pytest.fixture(scope="module")
def files(content: Content) -> dict[str, bytes]:
    return dict(figure_files(few(content.figures)))


def few(figures: Figures) -> Figures:
    """One of each kind."""
    curves = {name: of[:1] for name, of in list(figures.curves.items())[:1]}
    return Figures(figures.differences[:1], figures.scores[:1], curves)


def entry(place: int, row: str, group: str) -> Entry:
    return Entry(place, row, group, row)


def test_a_curve_is_the_mean_of_the_seeds_and_their_range(study: Study) -> None:
    curves = read_curves(study)
    assert curves.names == ["train/loss", "dev/nll"], "a loss comes before a metric that the table does not show"
    curve = curves.row("dev/nll", "base")
    assert curve is not None
    assert curve.steps == [10, 20, 30, 40, 50]
    assert curve.mean[-1] == pytest.approx(0.51 + 0.2)
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((0.50 + 0.2, 0.52 + 0.2))
    assert curve.seeds == 3


def test_a_long_journal_is_thinned_by_means_and_keeps_its_last_step() -> None:
    long = {step: float(step) for step in range(1, 1001)}
    curve = Curves(TRANSLATION, {"loss": {"base": [long]}}).row("loss", "base")
    assert curve is not None
    assert len(curve.steps) == 143, "1000 steps by sevens"
    assert curve.steps[-1] == 1000
    assert curve.mean[-1] == 997.0, "the mean of 994 to 1000"
    assert curve.steps[0] == 6, "the rest: 1 to 6"
    assert curve.mean[0] == 3.5


def test_seeds_that_reported_at_other_steps_count_where_they_did() -> None:
    curve = Curves(TRANSLATION, {"loss": {"base": [{1: 2.0, 2: 4.0}, {2: 6.0, 3: 8.0}]}}).row("loss", "base")
    assert curve is not None
    assert (curve.steps, curve.mean) == ([1, 2, 3], [2.0, 5.0, 8.0])
    assert (curve.low, curve.high) == ([2.0, 4.0, 8.0], [2.0, 6.0, 8.0])


def test_differences_have_the_tests_of_the_table(content: Content) -> None:
    metric = content.study.task.tabled[1]
    first, second = differences(metric, content.rows, content.entries, content.findings)
    assert first.value == pytest.approx(sum(SCORE["a_heads_1"]) / 3 - sum(SCORE["base"]) / 3)
    assert first.interval is not None
    assert first.interval[0] < first.value < first.interval[1] < 0
    assert (first.shown, first.mark) == (True, "*")
    assert second.interval is not None
    assert second.interval[0] < 0 < second.interval[1]
    assert (second.shown, second.mark) == (False, "")
    assert second.published == pytest.approx(23.7 - 25.8)


def test_perplexity_is_compared_as_the_table_does(content: Content) -> None:
    first, _ = differences(content.study.task.tabled[0], content.rows, content.entries, content.findings)
    assert first.value == pytest.approx(2.7182818 ** (sum(NLL["a_heads_1"]) / 3) - 2.7182818**0.51, rel=1e-6)


def test_published_differences_have_their_own_scale_if_one_would_hide_the_other() -> None:
    here = entry(1, "wide", "A")
    alike = [Difference(here, 1.0, (0.5, 1.5), published=2.0), Difference(here, -1.0, (-1.5, -0.5), published=-1.0)]
    assert _edges(alike) == (2.0, 2.0)
    unlike = [Difference(here, 10.0, (8.0, 12.0), published=0.5), Difference(here, -9.0, (-11.0, -7.0), published=0.4)]
    assert _edges(unlike) == (12.0, 0.5)
    assert _edges([Difference(here, 0.0, published=0.0)]) == (1.0, 1.0)
    far = [*[Difference(here, 1.0)] * 4, Difference(here, 1e6)]
    assert _edges(far) == (12.0, 12.0), "a row that diverged does not press the others together"


def test_files_are_the_same_each_time(study: Study, files: dict[str, bytes]) -> None:
    again = figure_files(few(whole_content(study).figures))
    assert sorted(files) == sorted(again)
    assert [name for name in files if files[name] != again[name]] == []


def test_files_fit_a_column_and_carry_no_date(files: dict[str, bytes]) -> None:
    kinds = {Path(name).suffix for name in files}
    assert kinds == {".svg", ".pdf", ".png"}
    for name, content in files.items():
        assert b"Date" not in content, name
        if name.endswith(".pdf"):
            assert content.startswith(b"%PDF")
            assert re.search(rb"/MediaBox \[ 0 0 (\d+\.?\d*)", content)[1] == b"237.6"  # type: ignore[index]
        elif name.endswith(".png"):
            assert content.startswith(b"\x89PNG")
            assert int.from_bytes(content[16:20], "big") == round(300 * WIDTH)
        else:
            assert b'width="237.6pt"' in content
            assert b"var(--" not in content


def test_svg_of_a_page_has_ids_classes_titles_and_variables() -> None:
    svg = (
        '<?xml version="1.0"?>\n<svg xmlns="x" viewBox="0 0 9 9" version="1.1"><metadata>date</metadata><defs><style>'
        '*{}</style></defs><g id="mark-0"><path id="p" style="fill: #0072b2"/></g><use xlink:href="#p"/>'
        '<text style="font: bold 8px \'DejaVu Sans\'">id="p" fill: #0072b2 &lt;</text></svg>\n'
    )
    made = finished(svg, "one", "a <figure>", {"mark-0": Mark(3, "a & b")}, variables=True)
    assert made.startswith('<svg viewBox="0 0 9 9" role="img" aria-label="a &lt;figure&gt;"')
    assert '<g id="one-mark-0" class="row row-3"><title>a &amp; b</title>' in made
    assert '<path id="one-p" style="fill: var(--series-1)"/>' in made
    assert '<use xlink:href="#one-p"/>' in made
    assert 'font-size: 8px; font-weight: 600">id="p" fill: #0072b2 &lt;' in made, "texts stay as they are"
    assert "metadata" not in made
    assert "<style" not in made


def test_panels_hold_whole_groups_while_they_fit() -> None:
    rows = [entry(0, "base", "base"), *(entry(n, f"r{n}", "AABCCCCCCC"[n]) for n in range(10))]
    assert [[each.group for each in part] for part in panels(rows)] == [["A", "A", "B"], ["C"] * 7]
    many = [entry(n, f"r{n}", "mine") for n in range(20)]
    assert [len(part) for part in panels(many)] == [8, 8, 4]


def test_no_two_lines_of_a_panel_look_alike() -> None:
    styles = [line_style(place) for place in range(8)]
    assert len({str(style) for style in styles}) == 8
    assert len({color for color, _ in styles[:6]}) == 6
    groups = group_styles([f"g{n}" for n in range(12)], "g0")
    assert len(set(groups.values())) == 12
    assert len(set(SERIES)) == 6


def test_numbers_at_axes_are_short() -> None:
    assert [counted(value) for value in (5, 500, 1500, 2e6, 1e12, 5e11)] == ["5", "500", "1.5k", "2M", "10¹²", "5·10¹¹"]
    assert powered(2e-7) == "2·10⁻⁷"


def test_the_range_of_a_curve_is_that_of_its_second_half_and_a_little_more() -> None:
    falling = [(1.0, 100.0), (2.0, 50.0), (6.0, 3.0), (8.0, 2.0), (10.0, 1.0)]
    low, high = late_range(falling, 10) or (0.0, 0.0)
    assert (low, high) == pytest.approx((1 - 0.12, 5 + 0.12))
    assert late_range([], 10) is None
    low, high = late_range([(1.0, 4.0), (10.0, 4.0)], 10) or (0.0, 0.0)
    assert low < 4 < high


def test_words_that_differ_are_marked_and_those_left_out_struck() -> None:
    assert " ".join(marked("a b c", "a x c")) == "a <mark>b</mark> c"
    assert " ".join(marked("a c", "a b c")) == "a <del>b</del> c"
    assert " ".join(marked("<i>", "a")) == "<mark>&lt;i&gt;</mark>"
    assert " ".join(marked("", "a")) == "<em>nothing</em>"
