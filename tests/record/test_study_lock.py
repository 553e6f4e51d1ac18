"""A study that was locked before its first result: what the lock holds, and what every output says
of it."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from place import STUDY, TOY, Place

ROWS = "sweep.rows=[base,size_2]"
WORDS = ("task=toy", STUDY, ROWS, "sweep.seeds=[1,2]")
FOLLOWS = re.compile(r"Follows its lock of \d{4}-\d\d-\d\d \d\d:\d\d UTC, digest ([0-9a-f]{12})\.")
DEVIATES = "Deviates from its lock of"
SECOND_METRIC = 'metrics = (Metric("score", set="test"), Metric("half", set="test", tabled=False))'


def lock_of(project: Place) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((project.study / "lock.json").read_text("utf-8"))
    return content


def line(project: Place, *words: str) -> str:
    """Everything that the table says, on one line."""
    return " ".join(project.must("table", STUDY, *words, "--format", "md").split())


def outputs(project: Place) -> dict[str, str]:
    """The text of every output that speaks of the study, on one line each."""
    project.must("report", STUDY)
    texts = {
        "table": project.must("table", STUDY),
        **{form: project.must("table", STUDY, "--format", form) for form in ("md", "tex", "html")},
        "short": project.must("table", STUDY, "--short"),
        "compare": project.must("compare", "base", "size_2", STUDY),
        "compare --json": project.must("compare", "base", "size_2", STUDY, "--json"),
        "report": (project.study / "report.html").read_text("utf-8"),
        "status": project.must("status", STUDY),
    }
    return {name: " ".join(text.replace("\\_", "_").split()) for name, text in texts.items()}


@pytest.fixture(scope="module")
def _complete(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    project = Place(tmp_path_factory.mktemp("locked") / "here", database)
    half = TOY.replace('metrics = (Metric("score", set="test"),)', SECOND_METRIC)
    project.write({"toy.py": half.replace('{"score": done}', '{"score": done, "half": done / 2}')})
    project.must("plan", *WORDS, "--lock")
    for row in ("base", "size_2"):
        for seed in (1, 2):
            project.train(row, f"sweep.seeds=[{seed}]", "--add")
    return project.folder


@pytest.fixture
def complete(tmp_path: Path, _complete: Path) -> Place:
    """Two rows of two seeds were locked, and all four trials are trained."""
    return Place(Path(shutil.copytree(_complete, tmp_path / "here")))


def test_a_lock_holds_rows_seeds_metrics_and_tests_with_their_digest(place: Place) -> None:
    output = place.must(
        "plan", *WORDS, "sweep.base_seeds=[1,2,3]", "sweep.margin={score: 0.5}", "--lock"
    )
    lock = lock_of(place)
    assert lock["rows"] == {"base": {}, "size_2": {"model.size": 2}}
    assert lock["settings"]["train.steps"] == 4
    assert "train.api_key" not in lock["settings"], "what only observes may change at any time"
    trials = [(trial["row"], trial["seed"]) for trial in lock["trials"]]
    assert trials == [("base", 1), ("base", 2), ("base", 3), ("size_2", 1), ("size_2", 2)]
    planned = json.loads(place.must("plan", *WORDS, "sweep.base_seeds=[1,2,3]", "--json"))
    assert [trial["key"] for trial in lock["trials"]] == [trial["key"] for trial in planned]
    assert lock["metrics"] == {"test": ["score"]}
    rule = lock["tests"].pop("rules")["score"]
    assert "a row agrees if" in rule.pop("text")
    assert rule == {"version": 1, "negligible": 0.0, "agrees_within": None}
    assert lock["tests"] == {
        "reference": "base",
        "level": 0.05,
        "paired": False,
        "margins": {"score": 0.5},
    }

    lock = lock_of(place)
    digest = lock.pop("digest")
    text = json.dumps(lock, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert digest in output
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", lock["ts"])
    assert not (place.study / "study.json").exists(), "the plan starts nothing"


def test_other_metrics_and_sets_can_be_locked(place: Place) -> None:
    unlocked = place.refused("plan", *WORDS, "--metric", "score")
    assert "add --lock, or leave it out" in unlocked
    misspelled = place.refused("plan", *WORDS, "--lock", "--metric", "scores")
    assert 'names "scores"' in misspelled
    assert "did you mean score?" in misspelled
    assert not (place.study / "lock.json").exists()
    place.must(
        "plan", *WORDS, "--lock", "--metric", "score", "--set", "test", "--set", "train_sample"
    )
    assert lock_of(place)["metrics"] == {"test": ["score"], "train_sample": ["score"]}


def test_a_second_lock_is_refused(place: Place) -> None:
    place.must("plan", *WORDS, "--lock")
    old_lock = (place.study / "lock.json").read_bytes()
    refusal = place.refused("plan", *WORDS, "sweep.margin={score: 0.5}", "--lock")
    assert f"has its lock of {lock_of(place)['ts'][:10]}" in refusal
    assert f"digest {lock_of(place)['digest'][:12]}" in refusal
    assert "choose another sweep.name" in refusal
    assert (place.study / "lock.json").read_bytes() == old_lock


def test_a_lock_after_a_result_is_refused(complete: Place) -> None:
    (complete.study / "lock.json").unlink()
    assert "comes too late: toy has the result of base-s1" in complete.refused(
        "plan", STUDY, "--lock"
    )
    words = ("task=toy", "sweep.name=second", ROWS, "sweep.seeds=[2]")
    assert "comes too late: base-s2 is taken from toy" in complete.refused("plan", *words, "--lock")
    complete.must("plan", *words, "sweep.share=false", "--lock")
    complete.must("drop", "size_2", STUDY, "--yes")
    for seed in (1, 2):
        shutil.rmtree(complete.study / f"base-s{seed}")
    assert "comes too late: toy has shown results" in complete.refused("plan", STUDY, "--lock")
    assert not (complete.study / "lock.json").exists()


def test_every_output_of_a_study_that_follows_its_lock_says_so(complete: Place) -> None:
    digest = lock_of(complete)["digest"][:12]
    texts = outputs(complete) | {"plan": " ".join(complete.must("plan", STUDY).split())}
    stated = {name: FOLLOWS.findall(text) for name, text in texts.items()}
    comparison = {name: stated.pop(name) for name in ("compare", "compare --json")}
    assert stated.pop("report") == [digest, digest], (
        "below results, and in the paragraph on methods"
    )
    assert stated == {name: [digest] for name in stated}
    assert "Not locked: half on test." in texts["report"]
    assert comparison == {"compare": [], "compare --json": []}, (
        "compare shows every metric, and one was not locked"
    )
    message = complete.must("compare", "base", "size_2", STUDY, "--metric", "score")
    assert FOLLOWS.findall(" ".join(message.split())) == [digest]


def test_until_all_locked_trials_are_there_no_test_should_be_published(place: Place) -> None:
    place.must("plan", *WORDS, "--lock")
    place.train("base")
    place.train("size_2", "--add")
    for name, text in outputs(place).items():
        assert (
            "2 of 4 locked trials are missing (base-s2 and size_2-s2): publish no test" in text
        ), name
    assert FOLLOWS.search(line(place))


def add_a_seed(project: Place) -> str:
    return project.train("size_2", "sweep.seeds=[3]", "--add")


def add_a_row(project: Place) -> str:
    return project.train("size_3", "--add")


def drop_a_row(project: Place) -> str:
    return project.must("drop", "size_2", STUDY, "--yes")


def drop_a_seed(project: Place) -> str:
    return project.must("drop", "size_2-s2", STUDY, "--yes")


def rename_a_row(project: Place) -> str:
    return project.must("rename", "toy", "size_2", "double")


def score_again(project: Place) -> str:
    return project.must("sweep", STUDY, "train.cut=0.7")


def edit_the_lock(project: Place) -> str:
    path = project.study / "lock.json"
    path.write_text(path.read_text("utf-8").replace('"level": 0.05', '"level": 0.01'), "utf-8")
    return ""


DEVIATIONS: dict[Callable[[Place], str], str] = {
    add_a_seed: "Seeds added: 3 of size_2.",
    add_a_row: "Rows added: size_3.",
    drop_a_row: "Rows dropped: size_2. 2 of 4 locked trials are missing",
    drop_a_seed: "Seeds dropped: 2 of size_2. 1 of 4 locked trials is missing",
    rename_a_row: "Rows renamed: size_2 is double now.",
    score_again: "Settings changed: train.cut 0.5, now 0.7 (every row).",
    edit_the_lock: "lock.json was edited after it was written: its digest is not that of its content. Tests changed: "
    "level of the tests 0.01, now 0.05.",
}


@pytest.mark.parametrize("deviate", DEVIATIONS, ids=lambda deviate: deviate.__name__)
def test_every_deviation_from_the_lock_is_listed(
    deviate: Callable[[Place], str], complete: Place
) -> None:
    deviate(complete)
    table_line = line(complete)
    assert DEVIATES in table_line
    assert DEVIATIONS[deviate] in table_line
    assert "Follows" not in table_line


def test_every_output_lists_the_deviations(complete: Place) -> None:
    add_a_seed(complete)
    for name, text in outputs(complete).items():
        assert DEVIATES in text, name
        assert "Seeds added: 3 of size_2." in text, name
        assert not FOLLOWS.search(text), name


def test_a_metric_or_a_choice_that_was_not_locked_is_listed(complete: Place) -> None:
    assert "Shown but not locked: half on test." in line(
        complete, "--metric", "score", "--metric", "half"
    )
    assert "Differences are from size_2, not from base." in line(complete, "--base", "size_2")
    assert "Seeds left out here: 2 of base; 2 of size_2." in line(complete, "sweep.seeds=[1]")
    compared = " ".join(complete.must("compare", "base", "size_2", STUDY).split())
    assert "Shown but not locked: half on test." in compared
    assert FOLLOWS.search(line(complete)), "a choice of output is no deviation of the study"


def test_a_plan_or_a_sweep_that_would_deviate_says_so_before_it_starts(place: Place) -> None:
    place.must("plan", *WORDS, "--lock")
    assert FOLLOWS.search(" ".join(place.must("plan", *WORDS).split()))
    words = (
        "task=toy",
        STUDY,
        "sweep.rows=[base,size_3]",
        "train.steps=5",
        "sweep.margin={score: 0.5}",
    )
    expected = (
        "Rows added: size_3. Settings changed: train.steps 4, now 5 (base). "
        "Tests changed: sweep.margin none, now"
    )
    assert expected in " ".join(place.must("plan", *words).split())
    output = " ".join(place.must("sweep", *words).split())
    assert 0 <= output.find(expected) < output.find("trials to run")
    assert expected in line(place)


def test_other_data_or_another_version_of_the_task_deviates(place: Place) -> None:
    place.must("plan", *WORDS, "--lock")
    place.write({"toy.py": TOY.replace('Task("toy", 1,', 'Task("toy", 2,')})
    expected = (
        "Trials with other data, or of another version of the task: base-s1, base-s2, "
        "size_2-s1 and size_2-s2."
    )
    place.environment = {"NEW": "process"}  # that imports the task again
    assert expected in " ".join(place.must("plan", *WORDS).split())


def test_another_rule_deviates_and_other_words_for_it_do_not(place: Place) -> None:
    stated = 'Metric("score", set="test", agrees_within=0.5)'
    for task, metric in {"toy.py": stated, "later.py": stated.replace("0.5", "0.7")}.items():
        place.write({task: TOY.replace('Metric("score", set="test")', metric)})
    place.must("plan", *WORDS, "--lock")
    path = place.study / "lock.json"
    path.write_text(
        path.read_text("utf-8").replace("Rule for score:", "The rule for score:"), "utf-8"
    )
    place.environment = {"NEW": "process"}  # that imports the task again
    assert 'The rule for "agrees" changed' not in place.must("plan", *WORDS)
    place.write({"toy.py": (place.folder / "later.py").read_text("utf-8")})
    assert 'The rule for "agrees" changed: score.' in " ".join(place.must("plan", *WORDS).split())


def test_a_damaged_lock_is_named_and_left_alone(complete: Place) -> None:
    (complete.study / "lock.json").write_text('{"ts": 1}', "utf-8")
    for name, text in outputs(complete).items():
        assert "lock.json is damaged: must have text as its ts; nobody can tell" in text, name
    assert "lock.json" in complete.refused("plan", STUDY, "--lock")
    assert (complete.study / "lock.json").read_text("utf-8") == '{"ts": 1}'


def test_a_copied_or_moved_study_keeps_its_lock(complete: Place) -> None:
    moved = Place(Path(shutil.move(complete.folder, complete.folder.with_name("there"))))
    assert FOLLOWS.search(line(moved))
    moved.must("rename", "toy", "renamed")
    assert FOLLOWS.search(" ".join(moved.must("status", "sweep.name=renamed").split()))


def test_a_study_without_a_lock_says_nothing_of_locks(complete: Place) -> None:
    """Its outputs are those of the locked study, but for the line on the lock."""
    with_lock = outputs(complete)
    (complete.study / "lock.json").unlink()
    without = outputs(complete)
    assert "lock of" in with_lock["md"]
    for name in ("table", "md", "tex", "html", "short", "status"):
        assert without[name] == re.sub(
            rf"( <p>)? ?{FOLLOWS.pattern}(</p>)?", "", with_lock[name]
        ), name
    assert not [name for name, text in without.items() if "its lock" in text]
