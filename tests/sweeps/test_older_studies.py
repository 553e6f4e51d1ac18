"""Studies of older versions are still read, finished and compared, and later features keep their keys."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from older_study import NAME, OLDER, copied, corpus_words, frozen_keys, result_of
from studies import lines
from typed import typed

from sweeps.planning.continued import plan_sweep
from sweeps.translation.task import TRANSLATION
from transformer.schema import RefusedError

ROOT = Path(__file__).parents[2]
KEYS = """
import json, sys
from pathlib import Path
from sweeps.planning.continued import plan_sweep
for words in json.loads(sys.argv[1]):
    print(json.dumps({t.trial.row: t.trial.key for t in plan_sweep(words, here=Path.cwd()).trials}))
"""
VERBS = """
import json, sys
from typer.testing import CliRunner
from sweeps.cli import app
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    print(json.dumps([done.exit_code, done.stdout, " ".join(done.stderr.split())]))
"""
ADDED = {
    "ModelConfig": ("    relu_dropout: Probability\n", 'norm: Annotated[Literal["post", "pre"], Neutral("post")]'),
    "TrainConfig": (
        "    keep_checkpoints: Annotated[Count, Observes()]\n",
        "weight_decay: Annotated[float, Range(0), Neutral(0.0)]",
    ),
    "DecodeConfig": (
        "    max_extra: Annotated[int, Range(0, LARGEST), Scores()]\n",
        "temperature: Annotated[float, Neutral(1.0), Scores()]",
    ),
    "DataConfig": (
        "    test: Annotated[list[str] | None, Fingerprinted(place=True)]\n",
        "lowercase: Annotated[bool, Neutral(False), Fingerprinted()]",
    ),
}
"""Fields that a later version may add: after which line, and how."""


@pytest.fixture
def later_version(tmp_path: Path) -> Path:
    """The code with one more field per group, which no file of conf/ mentions."""
    for name in ("transformer", "sweeps", "tracking", "conf"):
        shutil.copytree(ROOT / name, tmp_path / "later" / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "later" / "transformer" / "config.py"
    text = path.read_text("utf-8").replace("import Formerly\n", "import Formerly, Neutral\n")
    for after, field in ADDED.values():
        assert text.count(after) == 1
        text = text.replace(after, f"{after}    {field}\n")
    path.write_text(text, "utf-8")
    return tmp_path / "later"


def by(version: Path, folder: Path, script: str, words: list[list[str]]) -> list[Any]:
    """What one process with the code of a version prints for each of these lists of words."""
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(version)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def older(tmp_path: Path, database: Path) -> Path:
    """The folder of the older study, with a database."""
    folder = copied(tmp_path)
    shutil.copy(database, folder / "runs")
    return folder


@pytest.mark.parametrize("data", ["synthetic", "multi30k", "files"])
def test_the_keys_of_all_rows_are_frozen(data: str, tmp_path: Path) -> None:
    for scale, keys in frozen_keys()[data].items():
        plan = plan_sweep([*corpus_words(data), f"scale={scale}"], here=tmp_path)
        assert {planned.trial.row: planned.trial.key for planned in plan.trials} == keys


def test_a_field_that_is_added_later_changes_no_key_unless_it_has_another_value(
    later_version: Path, tmp_path: Path
) -> None:
    studies = [(data, scale) for data, scales in frozen_keys().items() for scale in scales]
    words = [[*corpus_words(data), f"scale={scale}"] for data, scale in studies]
    others = [["model.norm=pre"], ["train.weight_decay=0.1"], ["data.lowercase=true"]]
    found = by(later_version, tmp_path, KEYS, words + others)
    assert found[: len(studies)] == [frozen_keys()[data][scale] for data, scale in studies]
    assert len(found) == len(studies) + len(others)
    for keys in found[len(studies) :]:
        assert not set(keys.values()) & set(frozen_keys()["synthetic"]["tiny"].values())


def test_a_later_version_scores_nothing_again_and_refuses_another_value(later_version: Path, older: Path) -> None:
    verbs = (
        ["plan", NAME, "--json"],
        ["plan", NAME, "model.norm=pre"],
        ["evaluate", "base-s1", NAME, "--json"],
    )
    (_, planned, _), (code, _, refused), (_, scored, said) = by(later_version, older, VERBS, list(verbs))
    assert [line["state"] for line in json.loads(planned)] == ["finished", "interrupted"]
    assert code == 2
    assert "is pre, but files-small is recorded with post" in refused
    assert [line["decoded"] for line in json.loads(scored)] == [False, False], said


def test_every_reading_verb_works_on_an_older_study_in_any_place(older: Path) -> None:
    status = json.loads(typed(older, "status", NAME, "--json").stdout)
    assert [line["state"] for line in status] == ["finished", "interrupted"]
    table = json.loads(typed(older, "table", NAME, "--format", "json").stdout)
    assert [round(row["ppl"] or 0, 2) for row in table] == [9.75, 0]
    scored = typed(older, "evaluate", "base-s1", NAME, "decode.beam=1", "--json")
    assert [line["set"] for line in json.loads(scored.stdout)] == ["dev", "test"], scored.stderr
    source = older / "text/test.en"
    translated = typed(older, "translate", "base-s1", NAME, "--input", str(source))
    assert len(translated.stdout.splitlines()) == 4, translated.stderr
    exported = typed(older, "export", "base-s1", NAME, "--to", "safetensors", "--output", "model")
    assert exported.exit_code == 0, exported.stderr
    again = typed(older, "translate", "model", "--input", str(source))
    assert again.stdout == translated.stdout


@pytest.mark.slow
def test_an_older_study_resumes_where_it_stopped(older: Path) -> None:
    before = result_of(older, "base-s1")
    done = typed(older, "train", NAME, "row=d_smoothing_0")
    assert done.exit_code == 0, done.output
    assert (result_of(older, "d_smoothing_0-s1")["step"], result_of(older, "d_smoothing_0-s1")["attempt"]) == (40, 2)
    steps = [line["step"] for line in lines(older / "runs/files-small/d_smoothing_0-s1/journal.jsonl")]
    assert steps == [10, 20, 24, 30, 40]
    swept = typed(older, "sweep", NAME)
    assert swept.exit_code == 0, swept.output
    assert "0 of 2 trials to run" in swept.stdout
    assert "2 of 2 finished" in swept.stdout
    assert result_of(older, "base-s1") == before


def test_an_older_study_without_prepared_data_prepares_its_text_again(older: Path) -> None:
    shutil.rmtree(older / "data")
    scored = typed(older, "evaluate", "base-s1", NAME, "decode.beam=1", "--json")
    assert len(json.loads(scored.stdout)) == 2, scored.stderr


def test_other_semantics_are_refused_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied(tmp_path)
    monkeypatch.setattr("sweeps.planning.load_task._loaded", lambda name, here: replace(TRANSLATION, version=4))
    with pytest.raises(RefusedError) as caught:
        plan_sweep([NAME], here=folder)
    assert [problem.key for problem in caught.value.problems] == ["sweep.name"] * 2
    assert "base-s1 was trained with semantics 3" in str(caught.value.problems[0])


def test_reading_verbs_ignore_the_semantics(later_version: Path, older: Path) -> None:
    path = later_version / "transformer" / "config.py"
    path.write_text(path.read_text("utf-8").replace("SEMANTICS = 3", "SEMANTICS = 4"), "utf-8")
    verbs = [["status"], ["table"], ["evaluate", "base-s1", "decode.beam=1"]]
    verbs.append(["translate", "base-s1", "--input", str(older / "text/dev.en")])
    *read, (code, _, refused) = by(later_version, older, VERBS, [[*words, NAME] for words in (*verbs, ["sweep"])])
    for done, _, said in read:
        assert done == 0, said
    assert code == 2
    assert "was trained with semantics 3" in refused


def test_former_names_are_read_in_overrides_and_files(tmp_path: Path) -> None:
    words = ["decode.average=2", "cluster.tokens_per_pass=500", "train.keep_checkpoints=2"]
    plan = plan_sweep(words, here=tmp_path)
    assert {planned.settings.trial.decode.average_checkpoints for planned in plan.trials} == {2}
    assert plan.composition.shared.cluster.tokens_per_micro_batch == 500
    path = tmp_path / "conf/decode/mean.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("beam: 4\nalpha: 0.6\nmax_extra: 50\naverage: 1\n", "utf-8")
    assert plan_sweep(["decode=mean"], here=tmp_path).trials[0].settings.trial.decode.average_checkpoints == 1


def test_the_fixture_is_small_and_names_no_machine() -> None:
    files = [path for path in (OLDER / "0.1.0").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 200_000
    assert all(b"/root" not in path.read_bytes() and b"/home" not in path.read_bytes() for path in files)
