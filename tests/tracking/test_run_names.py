"""Names of runs in MLflow."""

from pathlib import Path

from tracking.run_names import WIDTH, run_names
from tracking.study import Study, Trial


def names(*rows: tuple[str, str, str], seeds: tuple[int, ...] = (1,)) -> list[str]:
    """Of the rows (row, group, change)."""
    trials = [Trial(row, group, change, seed, f"{row}-{seed}", {}) for row, group, change in rows for seed in seeds]
    return list(run_names(Study(Path("study"), tuple(trials), {}, ())).values())


def test_base_and_a_row_that_is_its_own_group_are_named_once() -> None:
    assert names(("base", "base", "N 6, d_model 512"), ("big", "big", "d_model 1024"), seeds=(3,)) == [
        *("base s3", "big s3"),
    ]


def test_a_run_is_named_by_what_its_row_changes() -> None:
    rows = [("c_width_1024", "C", "d_model 1024, d_k = d_v = 128"), ("c_ff_1024", "C", "d_ff 1024")]
    assert names(*rows, seeds=(1, 2)) == ["C d_model 1024 s1", "C d_model 1024 s2", "C d_ff 1024 s1", "C d_ff 1024 s2"]


def test_a_long_change_gives_way_to_the_name_of_its_row() -> None:
    long = "learned positional embedding instead of sinusoids"
    assert names(("e_learned_positions", "E", long)) == ["E learned positions s1"]


def test_names_fit_and_are_unique() -> None:
    long = "a change in the words of a person that no list has room for"
    rows = [(f"a_row_with_a_very_long_name_{end}", "mine", long) for end in ("one", "two")]
    found = names(("only_one_of_these_is_cut_to_size", "mine", long), *rows)
    assert found == [
        "mine only one of t… s1",
        "a_row_with_a_very_long_name_one s1",
        "a_row_with_a_very_long_name_two s1",
    ]
    assert len(set(found)) == 3


def test_rows_with_the_same_first_value_are_told_apart() -> None:
    rows = [("h1", "A", "h 1"), ("h1_and_more", "A", "h 1, d_k = d_v = 512 and N 12")]
    assert names(*rows) == ["h1 s1", "h1_and_more s1"]


def test_a_shortened_name_has_room_for_its_seed() -> None:
    (name,) = names(("of_a_row_with_a_long_name", "mine", "x" * 40), seeds=(2_000_000_000,))
    assert name.endswith("… s2000000000")
    assert len(name) <= WIDTH
