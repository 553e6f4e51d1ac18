"""docs/mlflow.md names what the code writes."""

import re
from pathlib import Path
from typing import Any

import pytest
from other_tasks import digits

from tracking.card import COSTS
from tracking.mlflow import names
from tracking.mlflow.notes import SAMPLES
from tracking.mlflow.replay import Replay
from tracking.mlflow.store import open_store

TEXT = (Path(__file__).parents[2] / "docs" / "mlflow.md").read_text("utf-8")
CELLS = [name for line in TEXT.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line)]


def test_every_kind_of_metric_is_explained() -> None:
    kinds = [value for name, value in vars(names).items() if name.isupper() and str(value).endswith("/")]
    assert len(kinds) == 7
    for kind in kinds:
        assert f"{kind}<metric>" in CELLS
    assert set(COSTS) <= set(CELLS)


def test_every_tag_and_file_is_explained() -> None:
    room = Path(names.__file__).parent
    source = "".join((room / f"{name}.py").read_text() for name in ("describe", "notes"))
    tags = set(re.findall(r'"([a-z]+\.[a-z]+|seed|attempt|host|commit|dirty|device)"', source))
    assert {"sweep.id", "trial.key", "data.fingerprint", "curve.csv", "error.txt"} <= tags
    assert tags <= {*CELLS, "table.md", "table.csv", "report.html"}
    assert {"kind", "row", f"{names.ROW}<metric>", "device_flops", "mfu"} <= set(CELLS)
    assert SAMPLES in CELLS
    for name in ("group", "row", "change", "order"):
        assert f'{{about}}.{name}"' in source
        assert f"table3.{name}" in CELLS


def test_the_documented_searches_find_trials_and_not_the_study(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = digits(runs / "synthetic-tiny", 0.9, 0.92, 0.95, 0.95)
    store, uri = open_store(None, runs, None, study.folder)
    assert Replay(study.folder, store, uri).once().problems == ()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    ours = {name: (found[name]["tags.sweep.id"] == study.name).sum() for name in ("of_row", "of_seed", "of_study")}
    assert ours == {"of_row": 2, "of_seed": 2, "of_study": 4}
    assert len(found["of_study"]) == 4
