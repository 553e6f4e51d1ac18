"""SVG files in a trial's folder `pictures` come into report, MLflow and the published study."""

import base64
import re
from pathlib import Path

import pytest
from reported import reported

from tracking.mlflow.pages import run_files
from tracking.published_study import copy_finished
from tracking.report.page import Content, page
from tracking.study import Study
from tracking.table.study_table import whole_table

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two trials of one row have a picture."""
    study = reported(tmp_path / "runs" / "whole")
    for trial in study.trials[1:3]:
        folder = study.folder / trial.name / "pictures"
        folder.mkdir()
        (folder / "attention.svg").write_text(f"{PICTURE}<!-- {trial.seed} -->", "utf-8")
    return study


def test_the_report_shows_one_picture_of_a_row_as_an_image_that_runs_nothing(study: Study) -> None:
    text = page(Content(whole_table(study)))
    (encoded,) = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', text)
    seed = study.trials[1].seed
    assert base64.b64decode(encoded).decode() == f"{PICTURE}<!-- {seed} -->"
    assert "alert(1)" not in text
    assert f"base, seed {seed}: attention" in text
    without_figures = page(Content(whole_table(study), drawn=False))
    assert "<img" not in without_figures


def test_a_run_of_mlflow_has_it_as_soon_as_the_trial_has_ended(study: Study) -> None:
    folder = study.trial_folder(study.trials[1])
    path = "pictures/attention.svg"
    assert run_files(folder, is_running=False)[path].startswith(PICTURE)
    assert path not in run_files(folder, is_running=True)
    assert path not in run_files(study.trial_folder(study.trials[0]), is_running=False)


def test_a_published_study_keeps_it(study: Study, tmp_path: Path) -> None:
    copy_finished(study, tmp_path / "published")
    name = f"{study.trials[1].name}/pictures/attention.svg"
    copied = (tmp_path / "published" / name).read_text("utf-8")
    assert copied == (study.folder / name).read_text("utf-8")
