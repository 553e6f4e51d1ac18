"""The report is one page that needs nothing from elsewhere, runs nothing of a study's texts, and is always the same."""

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from other_tasks import digits, make, tagging
from reported import HOSTILE, SPOKEN, TEXTS, reported
from studies_on_disk import make_study

from tracking.report.elements import Html, element
from tracking.report.written import report_page
from tracking.study import Study


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
        if tag not in ("meta", "input", "link", "br", "path", "use", "rect"):
            self.within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.within:
            while self.within.pop() != tag:
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
    return report_page(study, TEXTS)


@pytest.fixture(scope="module")
def read(page: str) -> Read:
    return Read(page)


def ids(read: Read) -> Iterator[str]:
    return (str(attributes["id"]) for _, attributes in read.tags if "id" in attributes)


def test_it_takes_nothing_from_elsewhere(page: str, read: Read) -> None:
    addresses = [of.get(name) for _, of in read.tags for name in ("href", "src", "xlink:href") if of.get(name)]
    assert all(str(address).startswith(("#", "data:")) for address in addresses)
    assert set(re.findall(r"\w+://[^\"\s]+", page)) <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}
    assert "@import" not in page


def test_texts_of_a_study_are_shown_and_never_run(page: str, read: Read) -> None:
    assert len(read.all("script")) == 1
    assert read.all("i") == []
    assert "a cat" not in read.said("b")
    for text in (HOSTILE, "<b>a cat</b>", "<i>Katze</i>"):
        assert any(text in said for said in read.said()), text
    assert any(SPOKEN.split()[0] in said for said in read.said("mark"))
    assert any(HOSTILE in said for said in read.said("text")), "figures take $ and < as they are"


def test_every_id_is_there_once_and_every_reference_leads_somewhere(page: str, read: Read) -> None:
    counted = Counter(ids(read))
    assert [name for name, count in counted.items() if count > 1] == []
    assert len(read.all("svg")) >= 8
    references = set(re.findall(r'(?:url\(|href=")#([^")]+)', page))
    assert len(references) > 20
    assert references <= set(counted)


def test_every_row_can_be_hidden_without_javascript(page: str, read: Read) -> None:
    boxes = [of for of in read.all("input") if of.get("type") == "checkbox"]
    assert [of["id"] for of in boxes] == ["show-0", "show-1", "show-2"]
    for place in range(3):
        assert f"body:has(#show-{place}:not(:checked)) .row.row-{place} {{ display: none; }}" in page
        parts = [name for name, of in read.tags if f"row row-{place}" in str(of.get("class"))]
        assert {"tr", "g"} <= set(parts)
        assert parts.count("tr") == 2, "results and costs"


def test_table_verdict_and_costs_say_what_the_study_says(read: Read) -> None:
    cells, notes = read.said("td"), " ".join(read.said("p"))
    assert "25.2" in cells
    assert "−5.2*" in cells, "25.2 − 30.4, by both tests"
    assert "in all" in read.said("th")
    assert "9 h 15 min" in cells, "nine trials of 3 700 s"
    assert "8.57e18" in cells, "nine trials of 9.52e17 FLOPs"
    assert "BLEU against the paper, rows: agrees 1, not shown 1." in notes
    assert any("three seeds" in text or "3 seeds" in text for text in read.said("p")), "the methods"
    assert "9 of 9 trials finished" in notes


def test_where_it_comes_from_is_told(read: Read) -> None:
    assert {"c0ffee", "node", "cpu"} <= set(read.said("dd"))
    assert "ablate sweep" in read.said("code")
    assert "All 9 trials" in read.said("summary")


def test_texts_stand_next_to_what_was_wanted(read: Read) -> None:
    said = read.said("dd", "mark", "del")
    assert {"<b>a cat</b>", "eine <i>Katze</i>"} <= set(said)
    assert "Line 1" in read.said("h3")
    assert "Line 2" not in read.said("h3"), "all rows agree on it"


def test_the_same_study_gives_the_same_page(study: Study, page: str) -> None:
    assert report_page(study, TEXTS) == page


def test_a_study_in_which_nothing_ran_has_a_page(tmp_path: Path) -> None:
    read = Read(report_page(make_study(tmp_path / "fresh", {"base": [1], "a_heads_1": [1]})))
    assert read.said("td").count("missing") == 4, "two rows and two trials"
    assert read.said("h2") == ["Results", "Provenance"]
    assert read.all("svg") == []
    assert "0 of 2 trials finished" in " ".join(read.said("p"))


def test_a_task_with_unknown_flops_and_nothing_published(tmp_path: Path) -> None:
    read = Read(report_page(digits(tmp_path / "digits", 0.5, 0.75, 0.875, 1.0)))
    titles = read.said("h2")
    assert titles == ["Results", "Differences from base", "Score against cost", "Costs", "Methods", "Provenance"]
    assert "0.938" in " ".join(read.said("td"))
    assert "accuracy against parameters" in [str(of.get("aria-label")).partition(":")[0] for of in read.all("svg")]
    assert not any("FLOPs" in text for text in read.said("th", "text"))
    assert not any("ublished" in text for text in read.said("p", "th", "td", "text", "dd"))


def test_a_task_with_several_metrics_and_one_seed(tmp_path: Path) -> None:
    settings = {"predict.threshold": 0.5, "predict.vote": 1}
    read = Read(report_page(tagging(tmp_path / "tagging", settings, settings)))
    assert {"F1 [micro]", "error", "accuracy"} <= set(read.said("th"))
    assert "not tested" in read.said("text")


def test_a_damaged_journal_and_a_missing_provenance_leave_a_page(tmp_path: Path) -> None:
    study = reported(tmp_path / "damaged", seeds=1)
    folder = study.trial_folder(study.trials[0])
    folder.journal_path.write_text("no json\n" * 3, "utf-8")
    folder.provenance_path.unlink()
    folder.hypotheses_path("dev").write_bytes(b"\xff\xfe broken \xff\n" * 3)
    read = Read(report_page(study, TEXTS))
    assert "Learning curves" in read.said("h2")


def test_rows_of_another_name_than_base_are_all_shown(tmp_path: Path) -> None:
    study = make(tmp_path / "odd", digits(tmp_path / "first", 0.5).task, {"one": {"hidden": 1}}, (1,))
    assert "change of one" in Read(report_page(study)).said("span")


def test_texts_are_escaped_wherever_they_stand() -> None:
    made = element("p", "<&>", Html("<i>"), title='"<', data_row=3, hidden=True, open=False)
    assert made == '<p title="&quot;&lt;" data-row="3" hidden>&lt;&amp;&gt;<i></p>'
    assert element("input", type="checkbox") == '<input type="checkbox">'
