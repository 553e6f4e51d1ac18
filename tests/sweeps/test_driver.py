"""A task's work as the platform drives it, in this process."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_task import write_task

from sweeps.events import Evaluated, Evaluating, Event, Finished, Noticed, Report, Resumed, Started, Stopped
from sweeps.running.driver import work
from sweeps.task import Assignment, RefusedError

CONFIG = {
    "model": {"size": 8, "kind": "round"},
    "train": {"steps": 4, "rate": 0.5, "every": 2, "cut": 0.5},
}
WORK = 'yield Evaluation("dev", {"score": total})'


def assignment(folder: Path, attempt: int = 1, **more: Any) -> Assignment:
    places = {"data_folder": str(folder / "data"), "data_fingerprint": "", "checkpoints": str(folder / "checkpoints")}
    return Assignment("small", str(folder), CONFIG, 3, attempt, **{**places, **more}, key="k" * 64)


def never() -> bool:
    return False


def after(calls: int) -> Callable[[], bool]:
    """Asked to stop from this call on."""
    counter = itertools.count(1)
    return lambda: next(counter) >= calls


def events(folder: Path, attempt: int = 1, stop: Callable[[], bool] = never, rank: int = 0) -> list[Event]:
    return [_without_system_metrics(event) for event in work(assignment(folder, attempt), rank, 1, "", stop)]


def _without_system_metrics(event: Event) -> Event:
    if not isinstance(event, Report):
        return event
    own = {name: value for name, value in event.metrics.items() if not name.startswith("system/")}
    return replace(event, metrics=own)


def kinds(found: list[Event]) -> list[type]:
    return [type(event) for event in found]


def only(found: list[Event], kind: type) -> Any:
    (one,) = [event for event in found if isinstance(event, kind)]
    return one


def test_a_whole_trial(tmp_path: Path) -> None:
    found = events(write_task(tmp_path))
    assert kinds(found) == [Started, Report, Report, Evaluating, Evaluated, Finished]
    assert [(each.step, each.checkpoint) for each in found if isinstance(each, Report)] == [(2, None), (4, 2)]
    finished = only(found, Finished)
    assert finished.scores == {"dev": {"score": 6.0, "decode": {"train.cut": 0.5}}}
    assert (finished.step, finished.costs["params"], finished.costs["flops"]) == (4, None, None)
    assert finished.costs["seconds"] > 0


def test_it_stops_at_the_next_checkpoint_and_goes_on_from_there(tmp_path: Path) -> None:
    stopped = events(write_task(tmp_path), stop=after(1))
    assert kinds(stopped) == [Started, Report, Stopped]
    assert only(stopped, Stopped) == Stopped(2)
    resumed = events(tmp_path, attempt=2)
    assert kinds(resumed) == [Started, Resumed, Report, Evaluating, Evaluated, Finished]
    assert only(resumed, Resumed).reports == tuple(each for each in stopped if isinstance(each, Report))
    whole = events(write_task(tmp_path / "whole"))
    assert only(resumed, Finished).scores == only(whole, Finished).scores


def test_at_the_last_checkpoint_it_does_not_stop(tmp_path: Path) -> None:
    assert only(events(write_task(tmp_path), stop=after(2)), Finished).step == 4


def test_a_trial_that_ended_during_evaluation_is_only_evaluated(tmp_path: Path) -> None:
    before = only(events(write_task(tmp_path)), Finished)
    found = events(tmp_path, attempt=2)
    assert kinds(found) == [Started, Resumed, Evaluating, Evaluated, Finished]
    assert only(found, Finished).scores == before.scores


def test_only_rank_zero_tells_and_saves(tmp_path: Path) -> None:
    assert events(write_task(tmp_path), rank=1) == []
    assert not (tmp_path / "checkpoints").exists()


def test_costs_from_the_work_replace_those_of_the_plan(tmp_path: Path) -> None:
    write_task(tmp_path, {WORK: f"yield Costs(params=7, flops=3.0)\n    {WORK}"})
    costs = only(events(tmp_path), Finished).costs
    assert (costs["params"], costs["flops"]) == (7, 3.0)


def test_notices_and_texts_arrive(tmp_path: Path) -> None:
    scored = 'yield Evaluation("dev", {"score": total}, {"texts/dev.txt": "a"})'
    write_task(tmp_path, {WORK: f'yield Noticed("look")\n    {scored}'})
    found = events(tmp_path)
    assert Noticed("look") in found
    assert only(found, Evaluated).artifacts == {"texts/dev.txt": "a"}


def test_samples_become_a_file_with_the_scores_in_its_head(tmp_path: Path) -> None:
    scored = (
        'yield Evaluation("dev", {"score": total}, samples=[{"hit": True, "n": (1, 2)}, {"hit": 0.5, "n": [3, 4]}])'
    )
    write_task(tmp_path, {WORK: scored})
    (text,) = only(events(tmp_path), Evaluated).artifacts.items()
    lines = [json.loads(line) for line in text[1].splitlines()]
    assert text[0] == "statistics/dev.jsonl"
    assert set(lines[0]) == {"key", "step", "scores"}
    assert lines[1:] == [{"hit": 1.0, "n": [1.0, 2.0]}, {"hit": 0.5, "n": [3.0, 4.0]}]


def test_training_may_go_on_after_an_evaluation(tmp_path: Path) -> None:
    write_task(
        tmp_path,
        {
            "            yield Checkpoint(step, total)\n": "            yield Checkpoint(step, total)\n            "
            + WORK
            + "\n"
        },
    )
    found = events(tmp_path)
    assert kinds(found).count(Evaluating) == 1
    assert [type(event) for event in found].count(Evaluated) == 3
    assert only(found, Finished).scores["dev"]["score"] == 6.0


def test_a_loss_that_is_not_finite_is_told_once_and_left_out(tmp_path: Path) -> None:
    write_task(tmp_path, {"1 / total": 'float("nan"), "train/size": 1'})
    found = events(tmp_path)
    assert [event.text.partition(";")[0] for event in found if isinstance(event, Noticed)] == [
        "train/loss is nan at step 2"
    ]
    assert [event.metrics for event in found if isinstance(event, Report)] == [{"train/size": 1.0}] * 2


WRONG: list[tuple[dict[str, str], str]] = [
    ({WORK: "return"}, "work ended without score of dev, which the table shows"),
    ({WORK: 'yield Evaluation("test", {"score": total})'}, "work ended without score of dev"),
    ({WORK: 'yield Evaluation("dev", {"scores": total})'}, "work ended without score of dev"),
    (
        {WORK: 'yield Evaluation("dev", {"score": "good"})'},
        "the evaluation of dev has score 'good', which is not a number",
    ),
    (
        {WORK: 'yield Evaluation("dev", {"score": total}, samples=[{"hit": "yes"}])'},
        "sample 1 of dev has hit 'yes', which is not a number",
    ),
    (
        {WORK: 'yield Evaluation("dev", {"score": total}, samples=[{"hit": 1}, 2])'},
        "sample 2 of dev must map names to numbers, but is 2",
    ),
    ({WORK: 'yield Evaluation("dev", {"score": None})'}, "the evaluation of dev has score None, which is not a number"),
    ({WORK: "yield total"}, "work must yield Report, Checkpoint, Evaluation, Noticed or Costs, not float"),
    ({WORK: 'yield {"score": total}'}, "Noticed or Costs, not dict"),
    ({WORK: 'raise KeyError("gone")'}, "gone"),
    ({"1 / total": "None"}, "the report of step 2 has train/loss None, which is not a number"),
    ({"Report(step,": "Report(2,"}, "a report of step 2 follows that of step 2, but steps must increase"),
    ({"Checkpoint(step,": "Checkpoint(2,"}, "a checkpoint of step 2 follows that of step 2"),
    ({"Checkpoint(step,": "Checkpoint(0,"}, "a checkpoint of step 0 follows that of step 0"),
    ({"Report(step,": "Report(step / 2,"}, "a report has step 1.0, which is not a whole number"),
    ({"work=work": "work=lambda trial: None"}, "work must be a generator function, but it returned None"),
    *(
        ({WORK: f'yield Evaluation("dev", {{"score": total}}, {{"{name}": "a"}})'}, f"the artifact {name} must lie")
        for name in ("result.json", "../a.txt", "/a/b.txt", "a/../../b.txt", "checkpoints/a", "statistics/dev.jsonl")
    ),
    ({WORK: 'yield Evaluation("dev", {"score": total}, {"a/b": 3})'}, "the artifact a/b must be text, not int"),
]


@pytest.mark.parametrize(("replaced", "cause"), WRONG, ids=[case[1][:60] for case in WRONG])
def test_what_a_work_gets_wrong_fails_with_its_cause(tmp_path: Path, replaced: dict[str, str], cause: str) -> None:
    write_task(tmp_path, replaced)
    with pytest.raises((TypeError, KeyError)) as caught:
        events(tmp_path)
    assert cause in str(caught.value)


def test_a_resume_that_repeats_steps_fails(tmp_path: Path) -> None:
    write_task(tmp_path, {"range(trial.saved.step + 1 if trial.saved else 1,": "range(1,"})
    events(tmp_path, stop=after(1))
    with pytest.raises(TypeError, match="a resumed trial must go on after"):
        events(tmp_path, attempt=2)


def test_numbers_of_other_libraries_are_numbers(tmp_path: Path) -> None:
    write_task(
        tmp_path,
        {
            'Report(step, {"train/loss": 1 / total})': 'Report(numpy.int64(step), {"a": numpy.float32(2)})',
            "Checkpoint(step,": "Checkpoint(numpy.int64(step),",
            "from dataclasses": "import numpy\nfrom dataclasses",
        },
    )
    found = events(tmp_path)
    assert [(type(each.step), each.metrics) for each in found if isinstance(each, Report)] == [(int, {"a": 2.0})] * 2
    assert only(events(tmp_path, attempt=2), Resumed).step == 4


def prepared(folder: Path, body: str, attempt: int = 1) -> list[Event]:
    more = {
        "work=work": "work=work, prepare=prepare, fingerprint=lambda config: 'f'",
        "task = Task": f"def prepare(config, folder):\n    {body}\n\n\ntask = Task",
        WORK: 'yield Evaluation("dev", {"score": int((trial.data / "n").read_text())})',
    }
    write_task(folder, more)
    return list(work(assignment(folder, attempt, data_fingerprint="f"), 0, 1, "", never))


def test_data_is_prepared_once(tmp_path: Path) -> None:
    found = prepared(tmp_path, '(folder / "n").write_text("5")')
    assert only(found, Finished).scores["dev"]["score"] == 5.0
    (place,) = [path for path in (tmp_path / "data" / "small").iterdir() if path.is_dir()]
    (place / "n").write_text("6")
    again = list(work(assignment(tmp_path, 2, data_fingerprint="f"), 0, 1, "", never))
    assert only(again, Finished).scores["dev"]["score"] == 6.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('raise RefusedError([Problem("data", "is gone", "restore it")])', "data: is gone"),
        ('(folder / "half").write_text("x"); 1 / 0', "whose prepare fails: ZeroDivisionError"),
    ],
)
def test_a_preparation_that_fails_leaves_nothing(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        prepared(tmp_path, body)
    assert not (tmp_path / "data").exists()
