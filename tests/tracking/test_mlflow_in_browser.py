"""MLflow's pages of a study in a real browser: the links of `allelse ui` open on the comparison."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_stores import mlflow_server
from studies_on_disk import DECODE, begin, finish, make_study, opened, send

from tracking.mlflow.view import page_address
from tracking.study import Study

CHROMIUM = Path("/usr/bin/chromium")
SEEDS = [1, 2, 3]
# MLflow opens it in a new browser
ASSISTANT_OPENED = "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1"
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shown(runs: Path) -> Study:
    """Nine finished runs."""
    study = make_study(runs / "a study", dict.fromkeys(("base", "a_heads_1", "c_layers_2"), SEEDS))
    for index, trial in enumerate(study.trials):
        folder = study.trial_folder(trial)
        attempt = begin(folder)
        for step in (10, 20, 30):
            folder.report(
                attempt,
                step,
                {"train/loss": 9.0 - step / 10, "dev/ppl": 60 / step},
                checkpoint=step,
            )
        folder.write_artifact("hypotheses/dev.txt", f"Satz von {trial.name}.\n")
        finish(study, trial, attempt, 30, ppl=4.5 + index / 8, bleu=30.0 - index, decode=DECODE)
    send(study, None)
    return study


@pytest.fixture(scope="module")
def server(shown: Study) -> Iterator[str]:
    """What `allelse ui` starts."""
    served = mlflow_server(shown.folder.parent)
    try:
        served.start()
        yield served.uri
    finally:
        served.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        shown_by = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield shown_by
        shown_by.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a browser in which MLflow's assistant was closed once: it takes a quarter of the
    first page."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.add_init_script(f"localStorage.setItem('{ASSISTANT_OPENED}', 'true')")
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    context.close()


def link(server: str, study: Study, mode: str = "") -> str:
    _, experiment = opened(server, study.name)
    return page_address(server, experiment, study.mark, mode)


def test_the_first_page_is_the_table_without_scrolling(
    page: Any, server: str, shown: Study
) -> None:
    page.goto(link(server, shown))
    page.get_by_text("10 matching runs").wait_for()
    for name in (
        "seed",
        "row.ppl",
        "row.bleu",
        "final/ppl",
        "final/bleu",
        "params",
        "flops",
        "seconds",
    ):
        head = page.get_by_role("columnheader").filter(has_text=name).first
        head.wait_for()
        box = head.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 1400, f"{name} is at {box}"
    run_links = page.locator("a").filter(has_text=re.compile(r" s\d$"))
    run_links.nth(8).wait_for()
    runs = run_links.all()
    texts = [
        run.inner_text().strip() for run in sorted(runs, key=lambda run: run.bounding_box()["y"])
    ]
    assert texts == [
        f"{row} s{seed}" for row in ("base", "A heads 1", "C layers 2") for seed in SEEDS
    ]
    text = page.inner_text("body")
    assert "23.0 ± 1.0, −6.0▼" in text, "mean, deviation, difference and mark of the last row"


def test_texts_stand_side_by_side(page: Any, server: str, shown: Study) -> None:
    page.goto(link(server, shown, "ARTIFACT"))
    cells = [page.get_by_text(f"Satz von base-s{seed}.", exact=True).first for seed in SEEDS[:2]]
    for cell in cells:
        cell.wait_for()
    first, second = (cell.bounding_box() for cell in cells)
    assert first["y"] == second["y"], "one line for one sentence"
    assert first["x"] + first["width"] <= second["x"] or second["x"] + second["width"] <= first["x"]
