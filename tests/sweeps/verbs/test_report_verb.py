"""`allelse report`: where it writes, what it refuses, and what it says next."""

import os
from pathlib import Path

import pytest
from allelse_in_folder import contents
from other_tasks import digits
from studies import allelse
from typed import printed, refusal

KINDS = ("svg", "pdf", "png")


def test_the_page_stands_in_the_folder_of_its_study(trained: Path) -> None:
    study = trained / "runs" / "copies"
    output = printed(trained, "report", "sweep.name=copies")
    page = (study / "report.html").read_text("utf-8")
    assert f"Wrote {study}/report.html; open it in a browser" in output
    assert output.splitlines()[-1].startswith("Next: allelse ui")
    assert '<h2 id="samples-1-title">Hypotheses</h2>' in page
    source = (trained / "dev.txt").read_text("utf-8").splitlines()
    assert any(line in page for line in source), (
        "translations stand next to what was to be translated"
    )


def test_page_and_figures_go_where_they_are_told(tmp_path: Path) -> None:
    digits(tmp_path / "runs/digits", 0.5, 0.75, 0.875, 1.0)
    output = printed(
        tmp_path,
        "report",
        "--output",
        "out/page.html",
        "--figures",
        "out/figures",
        "sweep.name=digits",
    )
    names = {
        f"{name}.{suffix}"
        for name in ("accuracy-against-params", "differences-accuracy")
        for suffix in KINDS
    }
    assert {path.name for path in (tmp_path / "out/figures").iterdir()} == names
    assert "Wrote 6 files of figures to out/figures" in output
    figures_before = {path.name: path.read_bytes() for path in (tmp_path / "out/figures").iterdir()}
    printed(tmp_path, "report", "--figures", "again", "sweep.name=digits")
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()
    } == figures_before, "they carry no date"
    assert (tmp_path / "runs/digits/report.html").read_bytes() == (
        tmp_path / "out/page.html"
    ).read_bytes()
    assert "Wrote out/page.html; open it in a browser" in output
    assert "<title>digits: ablation study</title>" in (tmp_path / "out/page.html").read_text(
        "utf-8"
    )


def test_seeds_are_chosen_as_for_the_table_and_figures_left_out(tmp_path: Path) -> None:
    digits(tmp_path / "runs/digits", 0.5, 0.75, 0.875, 1.0)
    printed(tmp_path, "report", "--no-figures", "sweep.name=digits", "sweep.seeds=[2]")
    page = (tmp_path / "runs/digits/report.html").read_text("utf-8")
    assert "2 of 2 trials finished" in page
    assert "<svg" not in page
    seeds_message = refusal(tmp_path, "report", "sweep.name=digits", "sweep.seeds=[7]")
    assert 'sweep.seeds names "7", which is not a seed of the study' in seeds_message
    message = refusal(
        tmp_path, "report", "--no-figures", "--figures", "figures", "sweep.name=digits"
    )
    assert "can't be combined with --figures" in message


def test_everything_wrong_with_the_places_is_refused_before_anything_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    message = refusal(
        tmp_path, "report", "--output", "file/page.pdf", "--figures", f"{tmp_path}/file"
    )
    assert "Refused, for 3 reasons" in message
    assert (
        "--output is file/page.pdf must be a file that ends in .html did you mean --output "
        "file/page.html?" in message
    )
    for option in ("--output", "--figures"):
        assert f"{option} is in {tmp_path}/file must be in a writable folder" in message
    assert message.endswith("Nothing was written.")
    assert contents(tmp_path) == ["file"]


@pytest.mark.parametrize("backend", ["module://matplotlib_inline.backend_inline", "none_such"])
def test_the_backend_of_a_notebook_changes_nothing(tmp_path: Path, backend: str) -> None:
    digits(tmp_path / "runs/digits", 0.5, 0.75, 0.875, 1.0)
    outcome = allelse(
        "report", "sweep.name=digits", cwd=tmp_path, env=os.environ | {"MPLBACKEND": backend}
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "<svg" in (tmp_path / "runs/digits/report.html").read_text("utf-8")
