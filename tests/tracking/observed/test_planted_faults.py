"""Faults that were planted into runs are found, and clean runs are left in peace."""

import json
from pathlib import Path
from random import Random

import pytest
from runs_in_csv import FAULTS, PECULIARITIES, clean_runs
from typed import printed

from tracking.observed.csv_file import read_csv
from tracking.observed.doubt import Doubt
from tracking.observed.observation import observed
from tracking.observed.roles import Asked

OF_EACH = 5
CLEAN = 20
FEWEST_FOUND = 60
MOST_FALSE_ALARMS = 0


def doubts(words: list[str]) -> tuple[Doubt, ...]:
    """As the command with these words has them, without writing a study."""
    options = dict(zip(words[2::2], words[3::2], strict=True))
    key, _, value = options["--base"].partition("=")
    ignored = (options["--ignore"],) if "--ignore" in options else ()
    request = Asked({key: value}, options.get("--row"), None, (options["--metric"],), ignored)
    return observed(read_csv(Path(words[1])), request).doubts


def test_planted_faults_are_found(tmp_path: Path) -> None:
    missed = []
    for number, plant in enumerate(FAULTS):
        for time in range(OF_EACH):
            runs = clean_runs(Random(1000 * number + time), are_named=time % 2 == 0)
            doubt_kind, names = plant(runs)
            reported_doubts = doubts(runs.write(tmp_path / f"{plant.__name__}-{time}.csv"))
            fitting = [doubt for doubt in reported_doubts if doubt.kind == doubt_kind]
            if not any(not names or {*names} & {*doubt.runs} for doubt in fitting):
                missed.append((plant.__name__, time, runs.form, reported_doubts))
    planted = OF_EACH * len(FAULTS)
    assert planted == 60
    assert planted - len(missed) >= FEWEST_FOUND, missed


def test_clean_runs_raise_few_false_alarms(tmp_path: Path) -> None:
    alarms = list[Doubt]()
    for time in range(CLEAN):
        runs = clean_runs(Random(50_000 + time), are_named=time % 2 == 0)
        PECULIARITIES[time % len(PECULIARITIES)](runs)
        alarms += doubts(runs.write(tmp_path / f"clean-{time}.csv"))
    assert len(alarms) <= MOST_FALSE_ALARMS, alarms


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_is_in_json_and_in_the_report(plant: object, tmp_path: Path) -> None:
    runs = clean_runs(Random(7), are_named=True)
    doubt_kind, names = plant(runs)  # type: ignore[operator]
    answer = json.loads(printed(tmp_path, *runs.write(tmp_path / "mine.csv"), "--json"))
    fitting = [doubt for doubt in answer["doubts"] if doubt["kind"] == doubt_kind]
    assert fitting
    assert not names or any({*names} & {*doubt["runs"]} for doubt in fitting)
    printed(tmp_path, "report", "sweep.name=mine", "--no-figures")
    page = (tmp_path / "runs" / "mine" / "report.html").read_text()
    assert "Doubts about these runs" in page
    assert all(name in page for doubt in fitting for name in doubt["runs"][:1])
