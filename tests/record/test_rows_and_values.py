"""What is planned is what was typed: a row for each value, and none that changes by itself."""

import json

import pytest
from place import HEAD, TOY, Place

BASE_FILE = "conf/task/toy/base.yaml"
KEYS = """    size: Annotated[int, Range(1)]
    tags: list[str]
    note: str | None
"""
BASE = (
    "model:\n  size: 1\n  tags: [x]\n  note: {note}\ntrain: {{steps: 4, api_key: none, cut: 0.5}}\n"
)


def write_toy(project: Place, note: str = "none", work: str = "") -> None:
    """The toy with a list and a text among its keys, and further lines at the start of its work."""
    source = TOY.replace("    size: Annotated[int, Range(1)]\n", KEYS)
    source = source.replace(
        "    from parts.one import one\n\n    if", f"    from parts.one import one\n{work}\n    if"
    )
    project.write({"toy.py": source, "conf/task/toy/base.yaml": BASE.format(note=note)})


def planned(project: Place, *words: str) -> list[dict[str, str]]:
    """The trials of a plan; for each: its row, key and change."""
    trials: list[dict[str, str]] = json.loads(project.must("plan", "task=toy", *words, "--json"))
    return trials


@pytest.mark.parametrize(
    "words",
    [
        "sweep.vary={model.tags: [[a+b],[a,b],[],[''],['','']]}",
        "model.tags=[a+b],[a,b],[a],[],['']",
        "sweep.vary={model.note: [null,'null',None,'','1']}",
    ],
)
def test_each_value_of_a_list_is_a_row_with_a_name_and_a_key_of_its_own(
    place: Place, words: str
) -> None:
    write_toy(place)
    trials = planned(place, words)
    assert len(trials) == 6
    for field in ("row", "key", "change"):
        assert len({trial[field] for trial in trials}) == 6, field


def test_two_values_that_no_name_can_tell_apart_are_refused_by_the_name(place: Place) -> None:
    write_toy(place)
    place.write(
        {"conf/task/toy/row/size_7.yaml": HEAD % ("other", 7) + "train: {cut: 0.9, steps: 5}\n"}
    )
    refusal = place.refused(
        "plan", "task=toy", "row=base,size_7", "model.size=7,8", "model.note=a,b"
    )
    assert "makes two rows with the name size_7-note_a" in refusal


@pytest.mark.parametrize("note", ["${now:%S%f}", "a ${now:%H}", "${oc.decode:${now:%f}}"])
def test_a_value_that_changes_from_call_to_call_is_refused_with_its_line(
    place: Place, note: str
) -> None:
    """Also where another key refers to it. A key that only observes may change."""
    write_toy(place, f"'{note}'")
    refusal = place.refused("plan", "task=toy")
    assert (
        f"model.note (conf/task/toy/base.yaml:4) is {note}, which changes from call to call"
        in refusal
    )
    write_toy(place)
    refusal = place.refused(
        "plan", "task=toy", "train.api_key=x${now:%f}", "model.note=${train.api_key}"
    )
    assert refusal.count("which changes from call to call") == 1
    assert "model.note (command line)" in refusal


PARSES = """
    import argparse
    import sys

    argparse.ArgumentParser().parse_args()
    if trial.config.model.size == 2:
        sys.exit(3)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_the_work_sees_no_arguments_and_its_exit_is_its_error(place: Place) -> None:
    """In a sweep and in `train`. An exit is not tried again: it would come again."""
    write_toy(place, work=PARSES)
    process = place.type("sweep", "task=toy", "sweep.name=toy", "sweep.rows=[base,size_2]")
    assert process.returncode == 1, process.stdout + process.stderr
    assert place.score("base-s1") == 4.0
    attempts = [
        json.loads(line)
        for line in (place.study / "size_2-s1" / "attempts.jsonl").read_text().splitlines()
    ]
    assert {line["attempt"] for line in attempts} == {1}
    assert "SystemExit: 3" in (place.study / "size_2-s1" / "error.txt").read_text()
    assert place.must("train", "task=toy", "sweep.name=alone", "row=base")


FACE = '# @package _global_\nrow: {group: A, change: "\\ud83d\\ude00 face"}\nmodel: {size: 7}\n'


def test_a_face_as_json_writes_it_is_recorded_as_one_letter(place: Place) -> None:
    place.write({"conf/task/toy/row/face.yaml": FACE})
    place.train("face")
    study = json.loads((place.study / "study.json").read_text("utf-8"))
    assert [trial["change"] for trial in study["trials"]] == ["😀 face"]
    assert "😀 face" in place.table()


LONG = "x y" * 6000


def test_a_text_of_eighteen_thousand_letters_is_trained_and_cut_in_tables(place: Place) -> None:
    write_toy(place)
    _, trial = planned(place, "sweep.name=other", f"sweep.vary={{model.note: ['{LONG}']}}")
    assert trial["change"].startswith("note x yx y")
    assert trial["change"].endswith("… (18000 characters)")
    assert len(trial["row"].encode()) <= 120
    row = (
        f"# @package _global_\nrow: {{group: A, change: my own words}}\nmodel: {{note: '{LONG}'}}\n"
    )
    place.write({"conf/task/toy/row/long.yaml": row})
    place.train("long")
    assert place.score("long-s1") == 4.0
    assert "my own words" in place.table()
    for form in ("csv", "md", "tex"):
        assert LONG not in place.table(form)


def test_scores_of_settings_that_differ_replace_no_file(place: Place) -> None:
    """However little they differ."""
    place.train("base")
    for cut in ("0.12345678", "0.12345679", "0.7"):
        place.must("again", "toy/base-s1", "task=toy", f"train.cut={cut}")
    names = sorted(path.name for path in place.study.glob("base-s1/statistics/*.jsonl"))
    assert names == ["test@cut0.12345678.jsonl", "test@cut0.12345679.jsonl", "test@cut0.7.jsonl"]


OPTIONS = {
    "conf/task/toy/base.yaml": "defaults: [train: slow, _self_]\nmodel: {size: 1}\n",
    "conf/task/toy/train/slow.yaml": "steps: 4\napi_key: none\ncut: 0.5\n",
    "conf/task/toy/train/fast.yaml": "steps: 2\napi_key: none\ncut: 0.5\n",
    "conf/task/toy/train/long.yaml": "steps: 9\napi_key: none\ncut: 0.5\n",
}
QUICK = "# @package _global_\ndefaults: [{override /train: fast}, _self_]\nrow: {group: A}\n"


def test_an_option_that_a_row_chooses_itself_is_not_erased(place: Place) -> None:
    place.write(OPTIONS | {"conf/task/toy/row/quick.yaml": f"{QUICK}model: {{size: 2}}\n"})
    refusal = place.refused("plan", "task=toy", "row=base,quick", "train=long")
    assert "train (command line) is changed by row quick" in refusal
    assert [trial["row"] for trial in planned(place, "row=base,size_3", "train=long")] == [
        "base",
        "size_3",
    ]


@pytest.mark.parametrize("rows", ["quick", "base,quick"])
def test_an_option_that_the_row_of_a_grid_chooses_itself_is_not_erased(
    place: Place, rows: str
) -> None:
    """Whether the row is left out, or its cells equal those of base."""
    place.write(OPTIONS | {"conf/task/toy/row/quick.yaml": f"{QUICK}model: {{size: 2}}\n"})
    words = ("plan", "task=toy", f"row={rows}", "model.size=7,8")
    assert "train (command line) is changed by row quick" in place.refused(*words, "train=long")
    assert "is changed by row" not in place.must(*words, "train=fast")


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        ("1,8", ["base", "size_8", "model_big-size_1", "model_big-size_8"]),
        ("1,7", ["base", "size_7", "model_big-size_1", "model_big"]),
    ],
)
def test_a_grid_has_each_value_that_was_asked_for(
    place: Place, sizes: str, rows: list[str]
) -> None:
    write_toy(place)
    place.write(
        {
            "conf/task/toy/base.yaml": "defaults: [model: small, _self_]\n"
            "train: {steps: 4, api_key: none, cut: 0.5}\n",
            "conf/task/toy/model/small.yaml": "size: 1\ntags: [x]\nnote: none\n",
            "conf/task/toy/model/big.yaml": "size: 7\ntags: [y]\nnote: none\n",
        }
    )
    trials = planned(place, "model=small,big", f"model.size={sizes}")
    assert [trial["row"] for trial in trials] == rows


def test_a_grid_over_a_row_with_an_option_of_its_own_has_the_default_one(place: Place) -> None:
    place.write(OPTIONS | {"conf/task/toy/row/quick.yaml": f"{QUICK}model: {{size: 2}}\n"})
    rows = [trial["row"] for trial in planned(place, "row=quick", "train=slow,fast,long")]
    assert rows == ["base", "quick-train_slow", "quick", "quick-train_long"]


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["row=option", "train=slow,fast"], ["base", "option"]),
        (["row=base,option", "train=slow,fast"], ["base", "train_fast"]),
        (
            ["row=quick", "train=slow,long", "model.size=1,2"],
            ["base", "quick-train_slow", "quick-train_long-size_1", "quick-train_long"],
        ),
    ],
)
def test_a_cell_of_a_grid_that_equals_base_is_base(
    place: Place, words: list[str], rows: list[str]
) -> None:
    """Whether the grid starts from base or from a row with an option of its own."""
    place.write(OPTIONS | {"conf/task/toy/row/quick.yaml": f"{QUICK}model: {{size: 2}}\n"})
    place.write({"conf/task/toy/row/option.yaml": QUICK})
    assert [trial["row"] for trial in planned(place, *words)] == rows


def test_a_row_with_an_option_that_trains_is_no_row_that_only_scores(place: Place) -> None:
    place.write(OPTIONS | {"conf/task/toy/row/quick.yaml": f"{QUICK}train: {{cut: 0.9}}\n"})
    merged = "row: {group: A}\nmodel: {<<: {size: 2}}\ntrain: {cut: 0.9}\n"
    place.write({"conf/task/toy/row/merged.yaml": f"# @package _global_\n{merged}"})
    plan = place.must("plan", "task=toy", "row=base,quick,merged", "sweep.seeds=[1]")
    assert "to score" not in plan
    assert "Trained, not only scored: quick" in plan


def test_a_row_that_goes_back_to_the_default_option_of_a_group_is_trained(place: Place) -> None:
    back = "# @package _global_\ndefaults: [quick, {override /train: slow}, _self_]\n"
    place.write(OPTIONS | {"conf/task/toy/row/quick.yaml": f"{QUICK}model: {{size: 2}}\n"})
    place.write({"conf/task/toy/row/back.yaml": f"{back}train: {{cut: 0.9}}\n"})
    plan = place.must("plan", "task=toy", "row=base,quick,back", "sweep.seeds=[1]")
    assert "Trained, not only scored: back" in plan


def with_bits(kind: str, base: str) -> dict[str, str]:
    """The files of a toy whose model also has ``bits`` of this type."""
    size = "    size: Annotated[int, Range(1)]\n"
    source = TOY.replace(size, f"{size}    bits: {kind}\n")
    model = f"model: {{size: 1, bits: '{base}'}}\n"
    return {
        "toy.py": source.replace("Annotated\n", "Annotated, Literal\n"),
        BASE_FILE: f"{model}train: {{steps: 4, api_key: none, cut: 0.5}}\n",
    }


@pytest.mark.parametrize(
    "words", ["model.bits=16,bf16", "sweep.vary={model.bits: [16, bf16]}", "row=base,half"]
)
def test_a_name_of_digits_alone_is_text(place: Place, words: str) -> None:
    half = "# @package _global_\nrow: {group: A}\nmodel: {bits: 16}\n"
    files = with_bits('Literal["16", "32", "bf16"]', "32")
    place.write(files | {"conf/task/toy/row/half.yaml": half})
    if words.startswith("row"):
        assert "did you mean '16'?" in place.refused("plan", "task=toy", words)
    else:
        assert [trial["change"] for trial in planned(place, words)][1:] == ["bits 16", "bits bf16"]


@pytest.mark.parametrize(
    ("kind", "words", "change"),
    [
        ("str", "model.bits=1.9,1.10", "bits 1.10"),
        ("str", "model.bits=choice('1.1',1.10)", "bits 1.10"),
        ("str", "sweep.vary={model.bits: [19, '1.10']}", "bits 1.10"),
        ('Literal["1e-3", "1e-4", "x"]', "model.bits=1e-3,1e-4", "bits 1e-4"),
    ],
)
def test_a_text_of_a_decimal_is_the_one_that_was_typed(
    place: Place, kind: str, words: str, change: str
) -> None:
    place.write(with_bits(kind, "x"))
    assert [trial["change"] for trial in planned(place, words)][2:] == [change]


@pytest.mark.parametrize(
    "words", ["sweep.vary={model.bits: [1.9, 1.10]}", "model.bits=sort(1.9,1.10)"]
)
def test_a_decimal_for_a_text_is_refused_if_what_was_typed_is_lost(
    place: Place, words: str
) -> None:
    place.write(with_bits("str", "x"))
    assert "must be a string" in place.refused("plan", "task=toy", words)
