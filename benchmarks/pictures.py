"""`python -m benchmarks.pictures STUDY [FOLDER]`: the pictures of a study's report and of MLflow in
docs/ or another folder, taken by Chromium.

docs/table3-mlflow.png is mlflow-table.png of the published study multi30k-quarter, copied to runs/
and sent by `allelse sync`.

Both need `fonts-liberation`: other fonts of a server are wider than those of its users, and cut
what a column shows.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tracking.mlflow.database import answers, free_port, ui_command, ui_environment
from tracking.mlflow.ledger import experiment_of
from tracking.mlflow.view import page_address
from tracking.report.page import Content, page
from tracking.study import Study, read_study
from tracking.table.study_table import whole_table
from tracking.uri import default_uri

DOCS = Path(__file__).parents[1] / "docs"
CHROMIUM = "/usr/bin/chromium"
# MLflow opens it in a new browser
ASSISTANT_OPENED = "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1"
SIZES = {"light": (1400, 1320), "dark": (1400, 1180), "narrow": (400, 900)}
MODES = {"table": "", "charts": "CHART"}
CLOSE_SECTIONS = "for (const part of document.querySelectorAll('details')) part.open = false"
"""The scores on every set would hide the figures below the table."""
DRAWN_MS = 8000  # until MLflow's charts stand still


@contextmanager
def served(study: Study) -> Iterator[str]:
    """The address of what `allelse ui` starts."""
    runs = study.folder.parent
    port = free_port(0)
    command = ui_command(runs, port=port)
    server = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env=ui_environment(default_uri(runs)), stdout=log, stderr=log
        )
        try:
            assert answers(server, 240)
            yield server
        finally:
            process.terminate()
            process.wait()


def of_report(browser: Any, study: Study, target: Path) -> Iterator[Path]:
    """One picture per name of SIZES; dark ones begin at the differences."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "report.html"
        file.write_text(page(Content(whole_table(study))), "utf-8")
        for name, (width, height) in SIZES.items():
            scheme = "dark" if name == "dark" else "light"
            view = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            view.goto(file.as_uri() + ("#differences" if scheme == "dark" else ""))
            view.evaluate(CLOSE_SECTIONS)
            view.screenshot(path=target / f"report-{name}.png")
            yield target / f"report-{name}.png"


def of_mlflow(browser: Any, study: Study, target: Path) -> Iterator[Path]:
    """One picture per name of MODES."""
    experiment = experiment_of(study.folder, default_uri(study.folder.parent))
    assert experiment is not None, "run `allelse sync` first"
    with served(study) as server:
        for name, mode in MODES.items():
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.add_init_script(f"localStorage.setItem('{ASSISTANT_OPENED}', 'true')")
            page.goto(page_address(server, experiment, study.mark, mode))
            page.get_by_text("matching runs").wait_for()
            page.wait_for_timeout(DRAWN_MS)
            page.screenshot(path=target / f"mlflow-{name}.png")
            yield target / f"mlflow-{name}.png"


def main(folder: Path, target: Path = DOCS) -> None:
    study = read_study(folder.resolve())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for path in (*of_report(browser, study, target), *of_mlflow(browser, study, target)):
            print(f"{path}: {path.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
