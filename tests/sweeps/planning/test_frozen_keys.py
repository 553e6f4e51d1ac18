"""The trial keys of all rows at each scale, for each corpus: no change of the code may change
one."""

import json
from pathlib import Path

import pytest

from sweeps.planning.continuation import plan_sweep

KEYS = Path(__file__).parents[1] / "keys"
FILES = [
    f"data.{name}=['{KEYS}/text/{name}.en','{KEYS}/text/{name}.de']"
    for name in ("train", "dev", "test")
]


@pytest.mark.parametrize("data", ["synthetic", "multi30k", "files"])
def test_the_keys_of_all_rows_are_frozen(data: str, tmp_path: Path) -> None:
    words = [f"data={data}", *(FILES if data == "files" else [])]
    for scale, keys in json.loads((KEYS / "keys.json").read_text("utf-8"))[data].items():
        plan = plan_sweep([*words, f"scale={scale}"], here=tmp_path)
        assert {planned.trial.row: planned.trial.key for planned in plan.trials} == keys
