"""Numbers and names as text."""

from tracking.words import ranges, without_study


def test_a_study_is_named_only_beside_another() -> None:
    assert without_study(["one/base-s1", "one/big-s1"]) == {
        "one/base-s1": "base-s1",
        "one/big-s1": "big-s1",
    }
    both = {"one/base-s1": "one/base-s1", "two/base-s1": "two/base-s1"}
    assert without_study(both) == both


def test_three_numbers_in_a_row_become_a_range() -> None:
    assert ranges([]) == ""
    assert ranges([1, 2]) == "1, 2"
    assert ranges([1, 2, 3, 5, 7, 8, 9, 10]) == "1 to 3, 5, 7 to 10"
    assert ranges([3, 4, 5], "s") == "s3 to s5"
