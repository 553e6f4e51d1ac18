"""`allelse report`: where it writes, what it refuses, and what it says next."""

from pathlib import Path

import pytest
from allelse_in_folder import contents
from other_tasks import digits
from typer.testing import CliRunner, Result

from sweeps.cli import app

KINDS = ("svg", "pdf", "png")


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["report", *arguments])


def test_the_page_stands_in_the_folder_of_its_study(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    study = trained / "runs" / "copies"
    done = typed("sweep.name=copies")
    assert done.exit_code == 0, done.output
    page = (study / "report.html").read_text("utf-8")
    assert f"Wrote {study}/report.html; open it in a browser" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Next: allelse ui")
    assert '<h2 id="samples-1-title">Hypotheses</h2>' in page
    source = (trained / "dev.txt").read_text("utf-8").splitlines()
    assert any(line in page for line in source), "translations stand next to what was to be translated"


def test_page_and_figures_go_where_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(tmp_path / "runs/digits", 0.5, 0.75, 0.875, 1.0)
    monkeypatch.chdir(tmp_path)
    done = typed("--output", "out/page.html", "--figures", "out/figures", "sweep.name=digits")
    assert done.exit_code == 0, done.output
    names = {f"{name}.{kind}" for name in ("accuracy-against-params", "differences-accuracy") for kind in KINDS}
    assert {path.name for path in (tmp_path / "out/figures").iterdir()} == names
    assert "Wrote 6 figures to out/figures" in done.stdout
    before = {path.name: path.read_bytes() for path in (tmp_path / "out/figures").iterdir()}
    assert typed("--figures", "again", "sweep.name=digits").exit_code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == before, "they carry no date"
    assert "Wrote out/page.html; open it in a browser" in done.stdout
    assert "<title>digits: ablation study</title>" in (tmp_path / "out/page.html").read_text("utf-8")


def test_a_page_without_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(tmp_path / "runs/digits", 0.5, 0.75, 0.875, 1.0)
    monkeypatch.chdir(tmp_path)
    done = typed("--no-figures", "sweep.name=digits")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "runs/digits/report.html").read_text("utf-8")
    assert "4 of 4 trials finished" in page
    assert "<svg" not in page
    refused = typed("--no-figures", "--figures", "figures", "sweep.name=digits")
    assert refused.exit_code == 2
    assert "leave one of the two out" in refused.stderr


def test_rows_and_seeds_are_chosen_as_for_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(tmp_path / "runs/digits", 0.5, 0.75, 0.875, 1.0)
    monkeypatch.chdir(tmp_path)
    done = typed("sweep.name=digits", "sweep.seeds=[2]")
    assert done.exit_code == 0, done.output
    assert "2 of 2 trials finished" in (tmp_path / "runs/digits/report.html").read_text("utf-8")
    refused = typed("sweep.name=digits", "sweep.seeds=[7]")
    assert refused.exit_code == 2
    assert 'sweep.seeds names "7", which is not a seed of the study' in refused.stderr


def test_everything_wrong_with_the_places_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    done = typed("--output", str(tmp_path / "page.pdf"), "--figures", str(tmp_path / "file"), f"paths.runs={tmp_path}")
    assert done.exit_code == 2
    said = done.stderr
    assert "Refused, for 2 reasons" in said
    assert f"--output is {tmp_path}/page.pdf" in said
    assert f"did you mean --output {tmp_path}/page.html" in said
    assert f"--figures lies in {tmp_path}/file, which is a file" in said
    assert said.splitlines()[-1] == "Nothing was written."
    assert contents(tmp_path) == ["file"]


@pytest.mark.parametrize(("output", "said"), [("", "a folder"), ("file/page.html", "which is a file")])
def test_a_place_for_no_page_is_refused(tmp_path: Path, output: str, said: str) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    (tmp_path / "folder.html").mkdir()
    done = typed("--output", str(tmp_path / (output or "folder.html")))
    assert done.exit_code == 2
    assert said in done.stderr
