"""Text that changes while a study runs changes no score, and pairs that are left out are reported."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from ablate_in_folder import plan
from finished_trials import finish
from rich.console import Console
from small_text import LETTERS, TEXT, sentences, write_text
from studies import SMALL, Running, wait_until
from typed import typed

from sweeps.events import Started
from sweeps.planning.plan import Plan
from sweeps.running.open_study import open_study
from sweeps.running.recorder import Recorder
from tracking.describe import result_points
from tracking.translation_card import TRANSLATION
from transformer.data.prepare import prepare
from transformer.schema import RefusedError

LONG = " ".join(LETTERS * 10) + "\n"
DATA = [*TEXT, "sweep.name=own", "model.max_positions=64"]
STEPS = ["train.steps=30", "train.checkpoint_every=20"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Without a database: a refused study leaves no `runs/`."""
    return write_text(tmp_path)


def result(folder: Path, trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "runs" / "own" / trial / "result.json").read_text())
    return content


@pytest.mark.ray
@pytest.mark.slow
def test_text_that_changes_while_rows_are_trained_changes_no_score(
    workplace: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, control = ("base", "e_learned_positions"), furnish(workplace / "control")
    for row in rows:
        undisturbed = typed(control, "train", *SMALL, *DATA, *STEPS, f"row={row}", "--add")
        assert undisturbed.exit_code == 0, undisturbed.output
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 1}')  # one row after the other
    words = [*SMALL, *DATA, *STEPS, f"sweep.rows=[{','.join(rows)}]"]
    trials = [workplace / "runs" / "own" / f"{row}-s1" for row in rows]
    running = Running.start("sweep", *words, cwd=workplace, trial=trials[0])
    wait_until(lambda: running.ended() or any((trial / "provenance.json").exists() for trial in trials), "a row", 600)
    with (workplace / "train.txt").open("a") as file:
        file.write(sentences(50, seed=9))
    (workplace / "dev.txt").write_text((workplace / "dev.txt").read_text().replace("\n", " h\n", 1))
    (workplace / "test.txt").unlink()
    assert not all((trial / "provenance.json").exists() for trial in trials)  # the other row comes after the change
    code, output = running.finish(timeout=600)
    assert code == 0, output
    for trial in trials:
        assert result(workplace, trial.name)["scores"] == result(control, trial.name)["scores"]
    evaluated = typed(workplace, "evaluate", str(trials[1]), "--json")
    assert evaluated.exit_code == 0, evaluated.stderr


def test_left_out_pairs_are_reported_and_counted_in_the_result(workplace: Path) -> None:
    with (workplace / "train.txt").open("a") as file:
        file.write("\n" * 25 + LONG * 50)
    done = typed(workplace, "train", *SMALL, *DATA, *STEPS)
    assert done.exit_code == 0, done.output
    told = "75 of 375 training pairs are left out: 25 blank, 50 longer than model.max_positions (64)"
    assert done.stdout.count(told) == 1
    assert result(workplace, "base-s1")["pairs"] == {"train": 300, "blank": 25, "too_long": 50}


@pytest.mark.parametrize("verb", ["train", "sweep"])
def test_a_study_of_which_hardly_a_pair_is_left_is_refused_before_it_starts(folder: Path, verb: str) -> None:
    (folder / "train.txt").write_text("a b\n" + LONG * 299)
    rows = ["sweep.rows=[base]"] if verb == "sweep" else []
    refused = typed(folder, verb, *SMALL, *DATA, *STEPS, *rows)
    assert refused.exit_code == 2, refused.output
    assert "is 64; 299 of 300 training pairs are left out: 299 longer than model.max_positions (64)" in refused.stderr
    assert "Nothing was started." in refused.stderr
    assert not (folder / "runs").exists()


def test_damaged_prepared_text_is_refused_before_a_study_starts(folder: Path) -> None:
    planned = plan(folder, *SMALL, *DATA, *STEPS, "sweep.rows=[base]")
    settings = planned.trials[0].settings
    path = prepare(settings.trial.data, Path(settings.paths.data)).folder / "test.target.txt"
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    with (
        pytest.raises(RefusedError, match=r"test\.target\.txt was changed after it was prepared"),
        open_study(planned, [], Console()),
    ):
        pass
    assert not (folder / "runs").exists()


@pytest.fixture
def two(folder: Path) -> Plan:
    """Two interrupted trials."""
    planned = plan(folder, *SMALL, *DATA, *STEPS, "sweep.rows=[base,e_learned_positions]")
    settings = planned.trials[0].settings
    prepare(settings.trial.data, Path(settings.paths.data))
    for trial in planned.trials:
        recorder = Recorder(trial)
        recorder.begin()
        recorder.take(1, Started("cpu", 1))
        recorder.end("interrupted")
    return planned


def test_a_damaged_provenance_stops_no_trial(two: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    path = two.trials[0].folder.provenance_path
    path.write_bytes(path.read_bytes()[:40])
    with open_study(two, ["ablate"], Console(width=400)):
        pass
    said = capsys.readouterr().out
    assert "base-s1: provenance.json:1 is damaged" in said
    assert "record of the vocabulary is lost" in said
    assert path.with_name("provenance.json.damaged").exists()


@pytest.mark.parametrize("finished", [False, True])
def test_the_vocabulary_of_a_damaged_provenance_is_known_by_the_other_trial(two: Plan, finished: bool) -> None:
    first, second = two.trials
    first.folder.provenance_path.write_text("{")
    if finished:
        finish(second)
    content = json.loads(second.folder.provenance_path.read_text()) | {"vocabulary": "another"}
    second.folder.provenance_path.write_text(json.dumps(content))
    for _ in range(2):  # the second time, the damaged file is gone
        with (
            pytest.raises(RefusedError, match="another vocabulary of this text than e_learned_positions-s1"),
            open_study(two, [], Console(file=StringIO())),
        ):
            pass
        assert not first.folder.provenance_path.exists()
    assert not (two.folder / "study.json").exists()


def test_counts_of_pairs_are_carried_to_mlflow() -> None:
    result = {"step": 7, "pairs": {"train": 300, "blank": None, "too_long": 50}, "scores": {}}
    assert [(p.name, p.value) for p in result_points(TRANSLATION, result, 0)] == [
        ("pairs/train", 300.0),
        ("pairs/too_long", 50.0),
    ]
