"""Journals read from their ends give what a reader of everything gives."""

from pathlib import Path

import pytest
import yaml

from tracking.damage import DamagedFileError
from tracking.journal_end import read_end, reports_behind
from tracking.look import look
from tracking.replay import rollback_safe
from tracking.translation_card import TRANSLATION
from tracking.trial_config import key_of, plain_yaml, recorded_runs
from tracking.trial_folder import TrialFolder


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    """A trial with 300 reports, of which every 50th has a checkpoint; the last line is torn."""
    folder = TrialFolder(tmp_path / "base-s1")
    folder.begin_attempt(1, "elsewhere", 1)
    for step in range(10, 3010, 10):
        metrics = {"train/loss": 1.0 / step} | ({"dev/ppl": float(step)} if step % 1000 == 0 else {})
        folder.report(1, step, metrics, ts=1000.0 + step / 5, checkpoint=step - 10 if step % 500 == 0 else None)
    with folder.journal_path.open("a") as file:
        file.write('{"ts": 1, "attempt": 1, "step": 99999')
    return folder


@pytest.mark.parametrize("window", [50, 120, 4000, 1 << 20])
def test_the_newest_reports_come_first_whatever_the_window(folder: TrialFolder, window: int) -> None:
    everything = folder.journal()[::-1]
    end = read_end(folder.journal_path, TRANSLATION, window)
    found = list(end.newest_first())
    assert found
    assert found == everything[: len(found)]
    assert (len(found) == len(everything)) == (window == 1 << 20), "a window without a whole line is widened"
    assert list(end.newest_first(holding="dev/ppl")) == [report for report in found if "dev/ppl" in report.metrics]


def test_as_many_reports_are_behind_as_a_replay_would_send(folder: TrialFolder) -> None:
    journal = folder.journal()
    for everything in (False, True):
        for after in (-1, 0, 10, 15, 1500, 2480, 2490, 2500, 2990, 3000, 4000):
            expected = len(rollback_safe(journal, after, everything))
            assert reports_behind(folder.journal_path, TRANSLATION, after, everything) == expected, (after, everything)
    assert reports_behind(folder.path / "none.jsonl", TRANSLATION, -1, True) == 0


def test_the_checkpoints_of_version_0_1_0_count_too(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path / "base-s1")
    folder.begin_attempt(1, "elsewhere", 1)
    for step in range(1, 9):
        folder.report(1, step, {"loss": 1.0} | ({"checkpoint": 6.0} if step == 6 else {}))
    assert reports_behind(folder.journal_path, TRANSLATION, -1, False) == 6


@pytest.mark.parametrize("bad", ["garbage", '{"ts": 1, "attempt": 1}', "\0" * 40, '["a list"]'])
def test_damage_at_the_end_is_named_with_its_line(folder: TrialFolder, bad: str) -> None:
    read_end(folder.journal_path, TRANSLATION).check()
    lines = folder.journal_path.read_text().split("\n")
    folder.journal_path.write_text("\n".join([*lines[:-1], bad, ""]))
    damaged = read_end(folder.journal_path, TRANSLATION)
    for read in (damaged.check, lambda: list(damaged.newest_first())):
        with pytest.raises(DamagedFileError, match=":301: "):
            read()


def test_a_look_has_the_last_report_the_last_score_and_the_pace(folder: TrialFolder) -> None:
    seen = look(folder, "key")
    assert seen.newest is not None
    assert (seen.newest.step, seen.score, len(seen.attempts)) == (3000, 3000.0, 1)
    assert seen.pace == pytest.approx(0.2)
    assert seen.seconds_left(4000, now=seen.newest.ts + 30) == pytest.approx(170)
    assert seen.seconds_left(4000, now=seen.newest.ts + 900) == 0
    assert seen.seconds_left(None) is None
    folder.begin_attempt(2, "elsewhere", 2)
    assert look(folder, "key").pace is None, "reports of an earlier attempt are no pace"


def test_a_folder_without_files_can_be_looked_at(tmp_path: Path) -> None:
    seen = look(TrialFolder(tmp_path / "base-s1"), "key")
    assert (seen.state, seen.newest, seen.score, seen.pace, seen.note) == ("missing", None, None, None, "")


TEXTS = [
    "key: abc\nrow:\n  change: d_k 16\n  published: {ppl: 5.0, bleu: null}\ntrain:\n  steps: 1000\n  lr: 1e-3\n",
    "key: 'ä: b'\nlist: []\ndate: 2030-01-01\nyes: on\nnumber: 012\ntext: |\n  a\n  b\n",
    "",
    "just text",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_fast_reader_of_yaml_agrees_with_the_plain_one(text: str) -> None:
    assert plain_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "\t- x", "a: !!python/object:os.system {}", "[" * 100_000, "- " * 9000]
)
def test_its_errors_are_those_of_the_plain_one(text: str) -> None:
    with pytest.raises((yaml.YAMLError, ValueError, RecursionError)) as expected:
        yaml.safe_load(text)
    with pytest.raises(type(expected.value)) as found:
        plain_yaml(text)
    assert str(found.value).partition("\n")[0][:20] == str(expected.value).partition("\n")[0][:20]


def test_the_key_and_the_places_are_read_without_the_rest(tmp_path: Path) -> None:
    places = {"a-s1": "runs: /old", "a-s2": "runs: /old", "b-s1": "runs: /new", "c-s1": "runs: [", "d-s1": "other: 1"}
    for name, place in places.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"key: {name}\nrow: 1\npaths:\n  {place}\n")
    assert recorded_runs(tmp_path) == ["/old", "/new"]
    assert key_of(tmp_path / "a-s1/config.yaml") == "a-s1"
    (tmp_path / "a-s1/config.yaml").write_text("row: 1\n")
    assert (key_of(tmp_path / "a-s1/config.yaml"), key_of(tmp_path / "none")) == (None, None)
