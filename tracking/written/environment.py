"""The variables of a program whose metrics are read."""

from pathlib import Path

from tracking.written.report import REPORT_VARIABLE
from tracking.written.source_kinds import REPORT_FILE


def environment(folder: Path) -> dict[str, str]:
    """MLflow writes below the folder, ``allelse.report`` has its file, and Python writes each line
    of output at once.

    MLflow's store of files needs no set-up; SQLite's takes some seconds for each new store.
    """
    return {
        REPORT_VARIABLE: str(folder / REPORT_FILE),
        "MLFLOW_TRACKING_URI": (folder / "mlruns").resolve().as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "PYTHONUNBUFFERED": "1",
    }
