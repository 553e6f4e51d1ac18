"""What is odd about a text is counted while it is prepared, and said before training."""

from pathlib import Path

from small_trials import files_data, prepared_text

from transformer.data.text_notes import caution

CLEAN = (
    ["a dog", "a cat", "two men", "a child"],
    ["ein Hund", "eine Katze", "zwei Männer", "ein Kind"],
)
OTHER = (["a man", "a tree"], ["ein Mann", "ein Baum"])


def noted(
    folder: Path, train: tuple[list[str], list[str]], **sets: tuple[list[str], list[str]]
) -> str | None:
    prepared = prepared_text(
        files_data(folder, 300, train=train, **{"dev": OTHER, "test": OTHER} | sets), folder
    )
    return caution(prepared.folder)


def test_nothing_is_said_of_text_without_oddities(tmp_path: Path) -> None:
    assert noted(tmp_path, CLEAN) is None


def test_only_whole_pairs_count_as_standing_in_train_each_time(tmp_path: Path) -> None:
    dev = (["a dog", "a dog", "a dog", "a man"], ["ein Hund", "ein Hund", "eine Katze", "ein Mann"])
    test = (["a cat", "a tree"], ["eine Katze", "ein Baum"])
    expected = "pairs that are also in train: 2 of 4 in dev, 1 of 2 in test"
    assert noted(tmp_path, CLEAN, dev=dev, test=test) == expected


def test_blank_pairs_are_counted_in_every_set(tmp_path: Path) -> None:
    train = ([*CLEAN[0], "", "a man"], [*CLEAN[1], "ein Mann", " "])
    dev = (["a man", ""], ["ein Mann", ""])
    assert (
        noted(tmp_path, train, dev=dev) == "pairs with a blank side: 2 of 6 in train, 1 of 2 in dev"
    )


def test_a_target_that_is_the_source_is_named(tmp_path: Path) -> None:
    nearly = ([*CLEAN[0], "x"], [*CLEAN[0], "y"])
    assert noted(tmp_path, nearly) is None
    expected = "targets identical to their sources: train, test"
    assert noted(tmp_path, (CLEAN[0], CLEAN[0]), test=(OTHER[0], OTHER[0])) == expected


def test_data_of_an_earlier_version_has_no_notes(tmp_path: Path) -> None:
    prepared = prepared_text(
        files_data(tmp_path, 300, train=CLEAN, dev=CLEAN, test=OTHER), tmp_path
    )
    (prepared.folder / "notes.json").unlink()
    assert caution(prepared.folder) is None
