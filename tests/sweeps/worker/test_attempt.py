"""What a task's work says, and what becomes of it: one worker in this process, by the driver that
every trial has."""

import json
import math
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from driven_trial import driver_of, events_of

from sweeps.processes.events import (
    About,
    Evaluated,
    Event,
    Finished,
    Noticed,
    Report,
)
from sweeps.task import StateError

CALLS = """\
trial.report(1, {"train/loss": 1.0})
trial.report(2, {"train/loss": 0.5})
trial.checkpoint(2, {"total": 1.0})
trial.about({"points": 3})
trial.notice("half of it")
trial.spent(Costs(params=7))
trial.report(4, {"train/loss": 0.25})
trial.checkpoint(4, {"total": 2.0})
trial.evaluated("dev", {"score": 2.0}, {"texts/dev.txt": "one\\n"}, [{"part": 1}, {"part": 3}])
"""
DIVERGES = "raise DivergedError('loss is nan', 4)"


def test_all_calls_become_events_in_their_order(tmp_path: Path) -> None:
    events = events_of(tmp_path, CALLS)
    reports = [event for event in events if isinstance(event, Report)]
    assert [(report.step, report.checkpoint) for report in reports][-1] == (4, 4)
    assert reports[-1].synced
    assert [type(event).__name__ for event in events] == [
        *("Started", "About", "Report", "Report", "About", "Noticed", "Report"),
        *("About", "Evaluated", "About", "Finished"),
    ]
    rate, description, *_ = [event for event in events if isinstance(event, About)]
    assert rate == About({"sustained": {"flops_per_s": 1e12, "source": "typed"}})
    assert description == About({"about": {"points": 3}})
    (evaluated,) = [event for event in events if isinstance(event, Evaluated)]
    assert evaluated.artifacts["texts/dev.txt"] == "one\n"
    assert evaluated.artifacts["statistics/dev.jsonl"].count("\n") == 3
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.step, finished.steps, finished.costs["params"]) == (4, None, 7)
    assert finished.scores["dev"]["score"] == 2.0


def test_the_report_of_the_step_at_which_it_diverges_is_sent(tmp_path: Path) -> None:
    body = "from sweeps.task import DivergedError\n" + "\n".join(
        [*(f'trial.report({step}, {{"train/loss": 1.0}})' for step in (1, 2, 3, 4)), DIVERGES]
    )
    events = events_of(tmp_path, body)
    assert [event.step for event in events if isinstance(event, Report)] == [1, 2, 3, 4]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.step, finished.diverged) == (4, 4)


@pytest.mark.parametrize(
    ("steps", "early", "planned"), [(2, False, 4), (2, True, None), (4, False, None)]
)
def test_an_end_before_the_last_step_is_told_unless_the_task_stops_early(
    tmp_path: Path, steps: int, early: bool, planned: int | None
) -> None:
    body = f'trial.report({steps}, {{"train/loss": 1.0}})\ntrial.evaluated("dev", {{"score": 1.0}})'
    finished = events_of(tmp_path, body, early_stop=early)[-1]
    assert isinstance(finished, Finished)
    assert (finished.step, finished.steps) == (steps, planned)


def test_keeping_scores_between_steps_takes_no_time_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """\
for step in range(1, 5):
    trial.notice("10 s of training")
    trial.report(step, {"train/loss": 1.0})
    trial.evaluated("dev", {"score": 1.0})
    trial.evaluated("test", {"score": 1.0})
"""
    seconds = [100.0]
    events = list[Event]()

    def tell(event: Event) -> None:
        events.append(event)
        seconds[0] += {Noticed: 10.0, Evaluated: 500.0}.get(type(event), 0.0)

    clock = SimpleNamespace(
        monotonic=lambda: seconds[0], time=time.time, process_time=time.process_time
    )
    for module in ("attempt_costs", "pace"):
        monkeypatch.setattr(f"sweeps.worker.{module}.time", clock)
    driver = driver_of(tmp_path, body, tell)
    driver.newest()
    driver.work(0, 1, "", lambda: False)
    assert isinstance(events[-1], Finished)
    assert events[-1].costs["seconds"] == pytest.approx(40.0)


SPLIT = """\
for step in range(trial.saved.step + 1 if trial.saved else 1, 5):
    trial.report(step, {"train/loss": 1.0, "rate": 0.5})
    trial.stopping()
    trial.checkpoint(step, step)
    trial.report(step, {"eval/loss": 3.0, "rate": 0.25})
trial.report(4, {"runtime": 9.0})
trial.evaluated("dev", {"score": 1.0})
"""


def test_reports_of_one_step_are_merged_and_the_later_value_counts(tmp_path: Path) -> None:
    """As a Trainer reports training and evaluation apart; again after a resume that has only to
    evaluate."""
    events = events_of(tmp_path, SPLIT)
    # the last of each step
    reports = {event.step: event.metrics for event in events if isinstance(event, Report)}
    values = []
    for metrics in reports.values():
        values.append({name: value for name, value in metrics.items() if "system/" not in name})
    merged = {"train/loss": 1.0, "rate": 0.25, "eval/loss": 3.0}
    assert values == [merged, merged, merged, {**merged, "runtime": 9.0}]
    notices = [event for event in events if isinstance(event, Noticed)]
    assert len(notices) == 1
    assert notices[0].quiet
    assert (
        "step 1 was reported more than once; later values replace earlier ones" in notices[0].text
    )
    second_events = events_of(tmp_path, SPLIT, attempt=2)
    assert [event.step for event in second_events if isinstance(event, Report)] == [4]


def test_a_resumed_attempt_that_trains_its_saved_step_again_fails(tmp_path: Path) -> None:
    events_of(
        tmp_path,
        "trial.report(2, {})\ntrial.checkpoint(2, 2)\ntrial.evaluated('dev', {'score': 1})",
    )
    with pytest.raises(TypeError, match=r"must continue after trial\.saved\.step"):
        events_of(tmp_path, "trial.report(trial.saved.step, {})", attempt=2)


LOOP = """\
for step in range(trial.saved.step + 1 if trial.saved else 1, 5):
    stops = trial.stopping()
    trial.report(step, {"train/loss": 1.0 / step})
    trial.checkpoint(step, {"step": step})
    if stops:
        return
trial.evaluated("dev", {"score": 1.0})
"""


@pytest.mark.parametrize("recorded", [True, False])
def test_a_checkpoint_holds_the_reports_that_the_journal_may_lack(
    tmp_path: Path, recorded: bool
) -> None:
    body = """\
for step in range(1, 8_001):
    trial.report(step, {"train/loss": 1.0 / step, "train/rate": 0.1})
    if step % 2_000 == 0:
        trial.checkpoint(step, {"step": step})
trial.evaluated("dev", {"score": 1.0})
"""
    events: list[Event] = []

    def tell(event: Event) -> None:
        events.append(event)
        if recorded and isinstance(event, Report):
            driver.recorded(event.step)

    driver = driver_of(tmp_path, body, tell, steps=8_000)
    driver.newest()
    driver.work(0, 1, "", lambda: False)
    (manifest,) = tmp_path.glob("checkpoints/*/a1/step-8000/manifest.json")
    assert (manifest.stat().st_size < 100_000) is recorded
    synced = [event.step for event in events if isinstance(event, Report) and event.synced]
    assert max(later - earlier for earlier, later in pairwise(synced)) <= 100


def test_cpu_seconds_stay_unknown_where_an_earlier_version_counted_none(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, LOOP, lambda event: None)
    driver.store.save(2, {"step": 2}, 1.0, None, ())
    driver.store.settle()
    finished = events_of(tmp_path, LOOP, attempt=2)[-1]
    assert isinstance(finished, Finished)
    assert finished.step == 4
    assert finished.costs["seconds"] > 1.0
    assert finished.costs["cpu_seconds"] is None


DRAWN = 'trial.evaluated("dev", {"score": first, "later": random.random()})'
RANDOM = f"""\
import random
trial.checkpoint(1, 1.0, random=True)
first = random.random()
{DRAWN}
"""
READING = f"""\
import random
trial.saved
random.random()
trial.saved
first = random.random()
trial.stopping()
trial.saved
{DRAWN}
"""


def test_reading_the_start_restores_random_numbers_until_training_goes_on(tmp_path: Path) -> None:
    saved = events_of(tmp_path, RANDOM)[-1]
    resumed = events_of(tmp_path, READING, attempt=2)[-1]
    assert isinstance(saved, Finished)
    assert isinstance(resumed, Finished)
    assert resumed.scores == saved.scores


def test_random_numbers_of_several_workers_are_not_saved(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, RANDOM, lambda event: None)
    driver.newest()
    with pytest.raises(TypeError, match="random=True keeps the random numbers of one worker"):
        driver.work(0, 2, "127.0.0.1:1", lambda: False)


WRONG = [
    ('trial.report(1, {"a": "x"})', TypeError, "has a 'x', which is not a number"),
    ('trial.report(1, {"lone \\ud800": 1.0})', TypeError, "which must be printable text"),
    ('trial.report(1, {"": 1.0})', TypeError, "which must be printable text"),
    ("trial.report(1, {3: 1.0})", TypeError, "which must be printable text"),
    ('trial.report("x", {})', TypeError, "which is not a whole number"),
    ("trial.report(2, {})\ntrial.report(1, {})", TypeError, "steps must increase"),
    ("trial.report(0, {})", TypeError, "steps must increase"),
    ("trial.checkpoint(2, 1)\ntrial.checkpoint(1, 1)", TypeError, "steps must increase"),
    ("trial.checkpoint(2, object())", StateError, "give the task `save` and `load`"),
    ('trial.evaluated("a\\nb", {})', TypeError, "which must be printable text"),
    (
        'trial.evaluated("dev", {"score": 1}, {"result.json": "x"})',
        TypeError,
        "must be in a folder, such as",
    ),
    (
        'trial.evaluated("dev", {"score": 1}, {"a/" + 300 * "x": ""})',
        TypeError,
        "has a name that is too long",
    ),
    ('trial.evaluated("dev", {"score": 1}, {"a/b": b"x"})', TypeError, "must be text, not bytes"),
    ('trial.evaluated("dev", {"score": 1}, {"a/b": "\\ud800"})', TypeError, "a lone surrogate"),
    ('trial.evaluated("dev", {"score": 1}, {}, [3])', TypeError, "must map names to numbers"),
    (
        'trial.evaluated("dev", {}, {}, [{"lone \\ud800": []}])',
        TypeError,
        "which must be printable text",
    ),
    ("trial.spent(Costs(params='x'))", TypeError, "which is not a number"),
    ("trial.about({'a': object()})", TypeError, "must hold plain values"),
    ("trial.about({'a': '\\ud800'})", TypeError, "must hold plain values"),
    ('trial.evaluated("test", {"score": 1})', TypeError, "work ended without score of dev"),
    ("pass", TypeError, "work ended without score of dev"),
]


@pytest.mark.parametrize(("body", "kind", "words"), WRONG, ids=[case[0][:50] for case in WRONG])
def test_what_cannot_be_used_fails_the_trial(
    tmp_path: Path, body: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as failed:
        events_of(tmp_path, body)
    assert words in str(failed.value)


def test_what_is_not_finite_is_told_once_and_left_out(tmp_path: Path) -> None:
    body = """\
for step in range(1, 5):
    trial.report(step, {"train/loss": float("nan"), "b": 1})
trial.notice("one \\ud800 and \\x1b[1m")
trial.evaluated("dev", {"score": float("inf")})
"""
    events = events_of(tmp_path, body)
    texts = [event.text for event in events if isinstance(event, Noticed)]
    assert texts[0] == "train/loss is nan at step 1; the journal omits non-finite values"
    assert texts[1:] == [r"one \ud800 and \x1b[1m"]
    assert all("train/loss" not in event.metrics for event in events if isinstance(event, Report))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert math.isinf(finished.scores["dev"]["score"])


def test_a_secret_of_the_worker_s_own_environment_is_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "of-this-node")
    (started, _, notice, *_) = events_of(tmp_path, 'trial.notice("of-this-node")\n' + LOOP)
    assert notice == Noticed("***")
    assert "of-this-node" not in str(started)


def test_scores_are_given_only_to_an_attempt_that_resumes_with_the_weights_that_they_are_of(
    tmp_path: Path,
) -> None:
    body = LOOP.replace("trial.evaluated", "if not trial.scored:\n    trial.evaluated")
    events = events_of(tmp_path, body.replace("1.0})", "1.0}, samples=[{}])"))
    (evaluated,) = [event for event in events if isinstance(event, Evaluated)]
    head = json.loads(evaluated.artifacts["statistics/dev.jsonl"].splitlines()[0])
    head["scores"]["score"] = 9.0

    def score(attempt: int) -> float:
        finished = events_of(tmp_path, body, attempt=attempt, evaluated={"dev": head})[-1]
        assert isinstance(finished, Finished)
        return float(finished.scores["dev"]["score"])

    assert score(2) == 9.0
    for manifest in tmp_path.glob("checkpoints/*/a1/step-4/manifest.json"):
        manifest.write_text("damaged")
    # the third trains anew, and the fourth resumes with its weights
    assert [score(3), score(4)] == [1.0, 1.0]
