"""`python -m benchmarks.pictures REPORT.html`: the pictures of a report in docs/, taken by Chromium."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
CHROMIUM = "/usr/bin/chromium"
SIZES = {"light": (1400, 1180), "dark": (1400, 1180), "narrow": (400, 900)}


def take(page: Path, folder: Path = DOCS) -> list[Path]:
    """One picture per name of SIZES; dark ones begin at the differences."""
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for name, (width, height) in SIZES.items():
            scheme = "dark" if name == "dark" else "light"
            shown = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            shown.goto(page.absolute().as_uri() + ("#differences" if scheme == "dark" else ""))
            taken.append(folder / f"report-{name}.png")
            shown.screenshot(path=taken[-1])
        browser.close()
    return taken


if __name__ == "__main__":
    for path in take(Path(sys.argv[1])):
        print(f"{path}: {path.stat().st_size // 1000} kB")
