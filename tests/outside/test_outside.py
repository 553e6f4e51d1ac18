"""The program as its users meet it: real commands, what programs read of them, files, MLflow,
weights."""

import pytest
from cases import COMMANDS, FIELDS, OF_STUDY, POINTS, SWEEP, TAGS, Case
from installation import Installation
from served_commands import PROGRAM

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Three rows of Table 3 with two seeds each. two_versions.py also compares refusals, and the
    task of ``init``."""
    installation = Installation(PROGRAM, tmp_path_factory.mktemp("outside").resolve() / "small")
    installation.must(SWEEP)
    return installation


def test_a_study_has_the_files_and_fields_of_the_contract(small: Installation) -> None:
    files = small.study("small")
    first = {
        file: files[file][0] if isinstance(files[file], list) else files[file] for file in FIELDS
    }
    assert {file: set(first[file] or ()) for file in FIELDS} == {
        file: set(FIELDS[file].split()) for file in FIELDS
    }
    assert [line["step"] for line in files["base-s1/journal.jsonl"]] == [10, 15, 20, 30]
    assert set(files["base-s1/result.json"]["scores"]) == {"dev", "test"}


def test_mlflow_has_a_run_per_trial_with_each_point_once(small: Installation) -> None:
    runs = small.runs("small")
    assert [run["status"] for run in runs.values()] == ["FINISHED"] * 7
    run = runs["base s1"]
    assert (set(run["points"]), set(run["tags"])) == (set(POINTS.split()), set(TAGS.split()))
    assert [step for step, _ in run["points"]["train/loss"]] == [10, 15, 20, 30]
    assert (run["params"]["model.d_model"], run["params"]["train.steps"]) == ("64", "30")


@pytest.mark.parametrize("case", [*OF_STUDY, *COMMANDS], ids=lambda case: case.words)
def test_a_command_answers_as_users_and_programs_expect(small: Installation, case: Case) -> None:
    answer = small.observe(case)
    assert (answer["code"], answer["missing"], answer["new"]) == (
        case.code,
        [],
        case.writes.split(),
    )
    first = (
        answer["data"][0] if isinstance(answer["data"], list) and answer["data"] else answer["data"]
    )
    assert not case.fields or set(first) == set(case.fields.split())


def test_one_key_trains_the_same_weights_with_ray_and_without(small: Installation) -> None:
    assert small.weights("alone", "base") == small.weights("small", "base")
