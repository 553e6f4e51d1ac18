"""A study as pandas frames: the columns and types on which notebooks rely."""

import re
import shutil
from pathlib import Path

import pytest
from studies_on_disk import begin, finish, make_study, report

import allelse
from tracking.files import DamagedFileError
from tracking.study import Study, StudyMissing
from tracking.table.frames import StudyFrames

TEXT = "string"
WHOLE = "Int64"
NUMBER = "float64"
NAMES = {"trial": TEXT, "row": TEXT, "seed": WHOLE}
ABOUT = dict.fromkeys(("group", "change", "key", "state", "note"), TEXT)
COUNTS = dict.fromkeys(("attempts", "step", "params"), WHOLE)
VALUE = {"metric": TEXT, "value": NUMBER}
COSTS = ("flops", "seconds", "cpu_seconds", "device_flops", "mfu")
COLUMNS = {
    "trials": {**NAMES, **ABOUT, **COUNTS, **dict.fromkeys(COSTS, NUMBER)},
    "scores": {**NAMES, "set": TEXT, **VALUE},
    "curves": {**NAMES, "attempt": WHOLE, "step": WHOLE, "time": "datetime64[ns, UTC]", **VALUE},
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Base is finished, a row failed, and another was never begun."""
    study = make_study(tmp_path / "runs/mine", {"base": [1], "a_heads_1": [1], "c_layers_2": [1]})
    base, failed_trial, _ = study.trials
    attempt = begin(study.trial_folder(base))
    report(study.trial_folder(base), attempt, range(10, 30, 10))
    finish(study, base, attempt, 30, bleu=None)
    begin(study.trial_folder(failed_trial))
    study.trial_folder(failed_trial).attempts.end(1, "failed")
    study.trial_folder(failed_trial).write_error("OutOfMemoryError: too wide\n")
    return study


def types(frames: StudyFrames) -> dict[str, dict[str, str]]:
    column_types = {}
    for name in COLUMNS:
        dtypes = getattr(frames, name).dtypes
        column_types[name] = {column: str(dtype) for column, dtype in dtypes.items()}
    return column_types


def test_the_columns_and_types_are_fixed(study: Study, tmp_path: Path) -> None:
    frames = allelse.load(study.folder)
    assert types(frames) == COLUMNS
    assert types(allelse.load(make_study(tmp_path / "runs/empty", {}).folder)) == COLUMNS
    assert [list(types(frames)[name]) for name in COLUMNS] == [
        list(columns) for columns in COLUMNS.values()
    ]


def test_what_the_frames_hold(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study.folder.parent)
    frames = allelse.load(study.name)
    assert frames.name == "mine"
    states = [(line.trial, line.state, line.note) for line in frames.trials.itertuples()]
    assert states == [
        ("base-s1", "finished", ""),
        ("a_heads_1-s1", "failed", "OutOfMemoryError: too wide"),
        ("c_layers_2-s1", "missing", ""),
    ]
    assert frames.trials.params.isna().tolist() == [False, True, True]
    scores = frames.scores.pivot(index="row", columns=["set", "metric"], values="value")
    assert (scores.loc["base", ("dev", "ppl")], scores.loc["base", ("test", "bleu")]) == (4.5, 30.0)
    assert frames.scores.query("set == 'dev' and metric == 'bleu'").value.isna().tolist() == [True]
    losses = [
        (line.step, line.value) for line in frames.curves.query("metric == 'loss'").itertuples()
    ]
    assert losses == [(10, 20.0), (20, 30.0)]


DAMAGES = [  # file, pattern, what stands there instead, and what is said of it
    (
        "journal.jsonl",
        r"\A.*\n",
        "{}\n",
        "journal.jsonl:1 is damaged: must have a whole number as its step",
    ),
    (
        "attempts.jsonl",
        '"pid": .*?, ',
        "",
        "attempts.jsonl:1 is damaged: must have a whole number as its pid",
    ),
    (
        "attempts.jsonl",
        '"end": true, ',
        "",
        "attempts.jsonl:2 is damaged: must have text as its host",
    ),
    (
        "result.json",
        '"ppl": .*?,',
        '"ppl": NaN,',
        "result.json is damaged: must have a number as its scores.dev.ppl",
    ),
]


@pytest.mark.parametrize(("name", "pattern", "damage", "said"), DAMAGES)
def test_a_damaged_trial_is_kept_and_named(
    study: Study, name: str, pattern: str, damage: str, said: str
) -> None:
    edit(study.folder / "base-s1" / name, pattern, damage)
    frames = allelse.load(study.folder)
    assert said in frames.trials.note[0]
    assert len(frames.curves.query("row == 'base'")) == (0 if name == "journal.jsonl" else 2)
    assert frames.scores.empty == (name == "result.json")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("margins", "null", "an object as its margins"),
        ("margins", '{"ppl": "0.1"}', "a number as its margins.ppl"),
        ("code", "[{}]", "text as its code.0"),
    ],
)
def test_a_damaged_study_is_one_clear_error(study: Study, key: str, value: str, said: str) -> None:
    edit(study.folder / "study.json", rf'"{key}": .*?,\n', f'"{key}": {value},\n')
    with pytest.raises(DamagedFileError, match=rf"study\.json: not a study: must have {said}$"):
        allelse.load(study.folder)


def edit(path: Path, pattern: str, text: str) -> None:
    new_text, count = re.subn(pattern, text, path.read_text(), count=1)
    assert count == 1
    path.write_text(new_text)


def test_a_wrong_folder_is_one_clear_error(study: Study) -> None:
    shutil.copytree(study.folder, study.folder.parent / "apart")
    for folder in (
        study.folder / "base-s1",
        study.folder.parent / "mien",
        study.folder.parent.parent / "mien",
    ):
        with pytest.raises(StudyMissing, match=rf"^no study at /.*such as {study.folder}$"):
            allelse.load(folder)
    with pytest.raises(StudyMissing):
        allelse.load("/nope")
    (study.folder / "study.json").write_text("{")
    with pytest.raises(DamagedFileError, match=r"study\.json"):
        allelse.load(study.folder)
