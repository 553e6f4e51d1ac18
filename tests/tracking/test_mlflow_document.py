"""docs/mlflow.md names what runs have, and its searches find them."""

import re
from pathlib import Path
from typing import Any

import pytest
from other_tasks import digits
from studies_on_disk import opened, runs_of, send

from tracking.card import COSTS
from tracking.mlflow import pages
from tracking.uri import default_uri

TEXT = (Path(__file__).parents[2] / "docs" / "mlflow.md").read_text("utf-8")
HEADS = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
CELLS = [name for head in HEADS for name in re.findall(r"`([^`]+)`", head)]
EXPLAINED = re.compile("|".join(re.sub("<[a-z]+>", "[a-z_]+", re.escape(cell)) for cell in CELLS))


def test_every_kind_of_metric_is_explained() -> None:
    kinds = [
        value for name, value in vars(pages).items() if name.isupper() and str(value).endswith("/")
    ]
    assert len(kinds) == 7
    assert {*COSTS, *(f"{prefix}<metric>" for prefix in kinds)} <= set(CELLS)


def test_runs_have_what_is_explained_and_the_searches_find_them(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = digits(runs / "synthetic-tiny", 0.9, 0.92, 0.95, 0.95)
    send(study, None)
    store = opened(default_uri(runs), study.name)
    run = runs_of(study, store)[0]
    tags = [
        name.replace("study.", "table3.")
        for name in run.data.tags
        if not name.startswith("mlflow.")
    ]
    files = [file.path for file in store[0].list_artifacts(run.info.run_id)]
    names = [*tags, *run.data.metrics, *files]
    assert {"sweep.id", "final/accuracy"} <= set(names)
    assert [name for name in names if not EXPLAINED.fullmatch(name)] == ["checkpoint"], (
        "a metric of the task's own"
    )

    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(runs))
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    tables: dict[str, Any] = {}
    exec(code, tables)
    ours = {
        name: (tables[name]["tags.sweep.id"] == study.name).sum()
        for name in ("of_row", "of_seed", "of_study")
    }
    assert ours == {"of_row": 2, "of_seed": 2, "of_study": 4}
    assert len(tables["of_study"]) == 4
