"""Numbers and names as text."""

from tracking.words import without_study


def test_a_study_is_named_only_beside_another() -> None:
    assert without_study(["one/base-s1", "one/big-s1"]) == {
        "one/base-s1": "base-s1",
        "one/big-s1": "big-s1",
    }
    both = {"one/base-s1": "one/base-s1", "two/base-s1": "two/base-s1"}
    assert without_study(both) == both
