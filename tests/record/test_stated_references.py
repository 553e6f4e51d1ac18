"""`sweep.references`: with which row each is compared, as a plan, a lock and a record hold it, and
what is refused."""

import json

import pytest
from place import STUDY, Place

ROWS = "sweep.rows=[base,size_2,size_3,size_4]"
WORDS = ("task=toy", STUDY, ROWS, "sweep.seeds=[1,2]")


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def test_plan_and_lock_hold_the_references_and_references_have_the_seeds_of_base(
    place: Place,
) -> None:
    stated = "sweep.references={size_3: size_2, size_4: size_2}"
    words = (*WORDS, stated, "sweep.base_seeds=[1,2,3]")
    text = on_one_line(place.must("plan", *words))
    assert "Differences: size_3 and size_4 from size_2; all other rows from base." in text
    planned = json.loads(place.must("plan", *words, "--json"))
    seeds = [(trial["row"], trial["seed"]) for trial in planned if trial["seed"] == 3]
    assert seeds == [("base", 3), ("size_2", 3)]
    assert {trial["row"]: trial["reference"] for trial in planned} == {
        "base": "base",
        "size_2": "base",
        "size_3": "size_2",
        "size_4": "size_2",
    }
    place.must("plan", *words, "--lock")
    lock = json.loads((place.study / "lock.json").read_text("utf-8"))
    assert lock["tests"]["references"] == {"size_3": "size_2", "size_4": "size_2"}
    followed = on_one_line(place.must("plan", *words))
    assert "Follows its lock" in followed
    output = on_one_line(place.must("plan", *WORDS, "sweep.references={size_3: size_2}"))
    changed = "sweep.references size_3 with size_2, size_4 with size_2, now size_3 with size_2"
    assert f"Tests changed: {changed}" in output


def test_a_plan_without_references_has_none(place: Place) -> None:
    (line, *_) = json.loads(place.must("plan", *WORDS, "--json"))
    assert "reference" not in line
    assert "Differences:" not in place.must("plan", *WORDS)


@pytest.mark.parametrize(
    ("references", "reason"),
    [
        ("{size_3: size_22}", 'compares size_3 with "size_22", which is no row of this sweep'),
        ("{size_33: size_2}", 'names "size_33", which is no row of this sweep'),
        (
            "{size_3: size_2, size_2: size_3}",
            "compares in a circle: size_3 with size_2 with size_3",
        ),
        ("{size_3: size_3}", "compares in a circle: size_3 with size_3"),
        ("{base: size_3}", "compares in a circle: base with size_3 with base"),
        ("{cut: size_3}", "names cut, which only scores the weights of base"),
        ("{size_3: cut}", "names cut, which only scores the weights of base"),
    ],
)
def test_a_reference_that_is_none_is_refused(place: Place, references: str, reason: str) -> None:
    row = "# @package _global_\nrow: {group: A, change: cut}\ntrain: {cut: 0.9}\n"
    place.write({"conf/task/toy/row/cut.yaml": row})
    words = ("task=toy", STUDY, "sweep.rows=[base,size_2,size_3,cut]")
    refusal = place.refused("plan", *words, f"sweep.references={references}")
    assert "sweep.references" in refusal
    assert reason in refusal
    assert "Nothing was started." in refusal


def test_references_are_recorded_kept_and_fixed_by_the_first_result(place: Place) -> None:
    """They follow a renamed row, and the row that others are compared with cannot be dropped."""
    stated = "sweep.references={size_3: size_2}"
    for row in ("base", "size_2", "size_3"):
        place.train(row, stated, "--add")
    record = json.loads((place.study / "study.json").read_text("utf-8"))
    assert record["references"] == {"size_3": "size_2"}
    refusal = place.refused("plan", *WORDS[:2], "sweep.references={size_2: size_3}", "--add")
    assert "compares size_2 with size_3, but toy compares it with base and has results" in refusal
    dropped = place.refused("drop", "size_2", STUDY, "--yes")
    assert "is size_2, which size_3 are compared with" in dropped
    place.must("rename", "toy", "size_2", "two")
    record = json.loads((place.study / "study.json").read_text("utf-8"))
    assert record["references"] == {"size_3": "two"}
    (line,) = [
        row
        for row in json.loads(place.must("table", STUDY, "--format", "json"))
        if row["row"] == "size_3"
    ]
    assert line["reference"] == "two"
    assert line["delta_score"] == pytest.approx(4.0)
