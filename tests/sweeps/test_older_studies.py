"""Studies of older versions are still read, finished and compared, and later features keep their keys."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from older_study import NAME, OLDER, copied, corpus_words, frozen_keys, result_of
from studies import ablate

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
    text = path.read_text("utf-8").replace("import Formerly,", "import Formerly, Neutral,")
    for after, field in ADDED.values():
        assert text.count(after) == 1
        text = text.replace(after, f"{after}    {field}\n")
    path.write_text(text, "utf-8")
    return tmp_path / "later"


def by(version: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the code of a version."""
    environment = {**os.environ, "PYTHONPATH": str(version)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("data", ["synthetic", "multi30k", "files"])
def test_the_keys_of_all_rows_are_frozen(data: str, tmp_path: Path) -> None:
    for scale, keys in frozen_keys()[data].items():
        plan = plan_sweep([*corpus_words(data), f"scale={scale}"], here=tmp_path)
        assert {planned.trial.row: planned.trial.key for planned in plan.trials} == keys


def test_a_field_that_is_added_later_changes_no_key(later_version: Path, tmp_path: Path) -> None:
    studies = [(data, scale) for data, scales in frozen_keys().items() for scale in scales]
    words = [[*corpus_words(data), f"scale={scale}"] for data, scale in studies]
    done = by(later_version, tmp_path, "-c", KEYS, json.dumps(words))
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [frozen_keys()[data][scale] for data, scale in studies]


@pytest.mark.parametrize("word", ["model.norm=pre", "train.weight_decay=0.1", "data.lowercase=true"])
def test_another_value_of_an_added_field_is_another_trial(later_version: Path, tmp_path: Path, word: str) -> None:
    done = by(later_version, tmp_path, "-c", KEYS, json.dumps([[word]]))
    assert not set(json.loads(done.stdout).values()) & set(frozen_keys()["synthetic"]["tiny"].values())


def test_a_later_version_scores_nothing_again_and_refuses_another_value(later_version: Path, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    cli = ("-m", "sweeps.cli")
    planned = by(later_version, folder, *cli, "plan", NAME, "--json")
    assert [line["state"] for line in json.loads(planned.stdout)] == ["finished", "interrupted"], planned.stderr
    refused = by(later_version, folder, *cli, "plan", NAME, "model.norm=pre")
    assert refused.returncode == 2
    assert "is pre, but files-small is recorded with post" in " ".join(refused.stderr.split())
    scored = by(later_version, folder, *cli, "evaluate", "base-s1", NAME, "--json")
    assert [line["decoded"] for line in json.loads(scored.stdout)] == [False, False], scored.stderr


def test_every_reading_verb_works_on_an_older_study_in_any_place(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    status = json.loads(ablate("status", NAME, "--json", cwd=folder).stdout)
    assert [line["state"] for line in status] == ["finished", "interrupted"]
    table = json.loads(ablate("table", NAME, "--format", "json", cwd=folder).stdout)
    assert [round(row["ppl"] or 0, 2) for row in table] == [9.75, 0]
    scored = ablate("evaluate", "base-s1", NAME, "decode.beam=1", "--json", cwd=folder)
    assert [line["set"] for line in json.loads(scored.stdout)] == ["dev", "test"], scored.stderr
    source = folder / "text/test.en"
    translated = ablate("translate", "base-s1", NAME, "--input", str(source), cwd=folder)
    assert len(translated.stdout.splitlines()) == 4, translated.stderr
    exported = ablate("export", "base-s1", NAME, "--to", "safetensors", "--output", "model", cwd=folder)
    assert exported.returncode == 0, exported.stderr
    again = ablate("translate", "model", "--input", str(source), cwd=folder)
    assert again.stdout == translated.stdout


@pytest.mark.ray
def test_a_sweep_of_an_older_study_resumes_where_it_stopped(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    before = result_of(folder, "base-s1")
    done = ablate("sweep", NAME, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 2 trials to run" in done.stdout
    assert result_of(folder, "base-s1") == before
    assert (result_of(folder, "d_smoothing_0-s1")["step"], result_of(folder, "d_smoothing_0-s1")["attempt"]) == (40, 2)
    steps = [
        json.loads(line)["step"]
        for line in (folder / "runs/files-small/d_smoothing_0-s1/journal.jsonl").read_text("utf-8").splitlines()
    ]
    assert steps == [10, 20, 24, 30, 40]


def test_an_older_study_without_prepared_data_prepares_its_text_again(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    shutil.rmtree(folder / "data")
    scored = ablate("evaluate", "base-s1", NAME, "decode.beam=1", "--json", cwd=folder)
    assert len(json.loads(scored.stdout)) == 2, scored.stderr


def test_other_semantics_are_refused_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied(tmp_path)
    monkeypatch.setattr("sweeps.planning.load_task._loaded", lambda name, here: replace(TRANSLATION, version=4))
    with pytest.raises(RefusedError) as caught:
        plan_sweep([NAME], here=folder)
    assert [problem.key for problem in caught.value.problems] == ["sweep.name"] * 2
    assert "base-s1 was trained with semantics 3" in str(caught.value.problems[0])


def test_reading_verbs_ignore_the_semantics(later_version: Path, tmp_path: Path) -> None:
    path = later_version / "transformer" / "config.py"
    path.write_text(path.read_text("utf-8").replace("SEMANTICS = 3", "SEMANTICS = 4"), "utf-8")
    folder = copied(tmp_path)
    cli = ("-m", "sweeps.cli")
    for words in (["status"], ["table"], ["evaluate", "base-s1", "decode.beam=1"], ["translate", "base-s1"]):
        more = ["--input", str(folder / "text/dev.en")] if words[0] == "translate" else []
        done = by(later_version, folder, *cli, *words, NAME, *more)
        assert done.returncode == 0, done.stderr
    refused = by(later_version, folder, *cli, "sweep", NAME)
    assert refused.returncode == 2
    assert "was trained with semantics 3" in refused.stderr


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
