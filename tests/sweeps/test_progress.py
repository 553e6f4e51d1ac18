"""The lines that an interrupted run prints about its trials."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from ablate_in_folder import plan
from rich.console import Console

from sweeps.events import Event, Report, Resumed, Started
from sweeps.planning.plan import Plan
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder
from sweeps.running.stopping import Stopping
from sweeps.running.tune_callback import TuneCallback


@pytest.fixture
def resumed(tmp_path: Path) -> Plan:
    """A study whose trial has a checkpoint at step 400, from an earlier run."""
    planned = plan(tmp_path, "sweep.rows=[base]", "train.steps=1000", f"paths.runs={tmp_path}/runs")
    folder = planned.trials[0].folder
    folder.begin_attempt(1, "host", 1)
    for step, metrics in ((390, {"loss": 1.0}), (400, {"checkpoint": 400.0}), (410, {"loss": 1.0})):
        folder.report(1, step, metrics)
    return planned


def left(planned: Plan, *events: Started | Resumed | Report) -> tuple[str, ...]:
    progress = Progress(planned, Console(file=io.StringIO()))
    progress.start("base-s1")
    for event in events:
        progress.take("base-s1", event)
    return progress.left()


def test_a_trial_left_before_its_workers_have_met_resumes_from_its_last_checkpoint(resumed: Plan) -> None:
    assert left(resumed) == ("base-s1 resumes from step 400",)
    assert left(resumed, Started("cpu", 1)) == ("base-s1 resumes from step 400",)
    later = Resumed(400, ()), Report(420, {})
    assert left(resumed, *later) == ("base-s1 resumes from step 400; steps 401 to 420 are lost",)


SAID: list[tuple[tuple[Event, ...], str]] = [
    ((Resumed(400, ()), Report(410, {})), "resumed at step 400"),
    (
        (Started("cpu", 1, ("node-b",)), Report(10, {})),
        "starts at step 1, since no checkpoint is visible on node-b",
    ),
]


@pytest.mark.parametrize(("events", "said"), SAID)
def test_a_trial_that_goes_on_says_from_where_its_workers_do(
    resumed: Plan, events: tuple[Event, ...], said: str
) -> None:
    printed = io.StringIO()
    progress = Progress(resumed, Console(file=printed, width=300))
    progress.start("base-s1")
    for event in events:
        progress.take("base-s1", event)
    assert printed.getvalue() == f"base-s1: {said}\n"


def test_the_live_view_says_where_things_are_and_for_what_trials_wait(resumed: Plan) -> None:
    said = io.StringIO()
    progress = Progress(resumed, Console(file=said, width=300))
    with progress:
        progress.wait("4 GPUs, 2 are free")
        progress.wait("4 GPUs, 2 are free")
    assert "about" not in progress.headline(), "no pace is known"
    shown = said.getvalue()
    assert shown.count("Waiting for 4 GPUs, 2 are free") == 1
    assert "waiting for 4 GPUs, 2 are free" in progress.headline()
    progress.console.print(progress.view())
    for text in (shown, said.getvalue()[len(shown) :]):
        assert "Ctrl-C is safe" in text
        assert f"{resumed.folder}/TRIAL/log.txt" in text
        assert "mlflow.db" in text
    progress.wait("")
    assert "waiting" not in progress.headline()


def test_a_trial_that_alone_is_stopped_leaves_the_others(resumed: Plan) -> None:
    progress = Progress(resumed, Console(file=io.StringIO()))
    progress.stop_one("base-s1", begun=False)
    assert progress.ended() == {"base-s1"}
    assert not progress.stopping


def test_a_narrow_live_view_cuts_the_note_first(resumed: Plan) -> None:
    screen = io.StringIO()
    narrow = Console(file=screen, width=80)
    progress = Progress(resumed, narrow)
    progress.start("base-s1")
    metrics = {"train/loss": 4.1234, "train/tokens_per_s": 12345.0}
    for event in (Started("cpu", 1, ("node-b",)), Resumed(400, ()), Report(410, metrics), Report(420, metrics)):
        progress.take("base-s1", event)
    progress.trials["base-s1"].note = "resumed at step 400, and more than has room here, so that it is cut"
    narrow.print(progress.table())
    (line,) = (text for text in screen.getvalue().splitlines() if " running " in text)
    assert line.split()[:3] == ["base", "1", "running"]
    assert {"420/1000", "4.123", "12,345"} <= {*line.split()}
    assert line.rstrip().endswith("…")


def test_a_trial_that_returned_without_an_event_is_stopped(resumed: Plan) -> None:
    """It was asked to stop after Tune had started it, and before its process looked."""
    progress, recorder = Progress(resumed, Console(file=io.StringIO())), Recorder(resumed.trials[0])
    callback = TuneCallback({"base-s1": recorder}, progress, Stopping(), bell=None, max_failures=3)
    trial = SimpleNamespace(config={"trial": "base-s1"}, temporary_state=SimpleNamespace(ray_actor=None))
    callback.on_trial_start(1, [trial], trial)
    assert progress.trials["base-s1"].state == "starting"
    callback.on_trial_complete(1, [trial], trial)
    assert progress.ended() == {"base-s1"}
    assert progress.trials["base-s1"].state == "stopped"
    assert recorder.folder.attempts()[-1].reason == "interrupted"


def test_a_trial_that_was_to_stop_and_whose_process_died_before_it_began_has_no_attempt(resumed: Plan) -> None:
    progress, recorder = Progress(resumed, Console(file=io.StringIO())), Recorder(resumed.trials[0])
    before, callback = recorder.folder.attempts(), TuneCallback({"base-s1": recorder}, progress, Stopping(), None, 3)
    callback.stopped = {"base-s1"}
    trial = SimpleNamespace(config={"trial": "base-s1"}, pickled_error_file=None)
    callback.on_trial_recover(1, [trial], trial)
    assert "again" not in trial.config
    callback.on_trial_error(1, [trial], trial)
    assert progress.trials["base-s1"].state == "stopped"
    assert recorder.folder.attempts() == before


def test_a_trial_that_did_not_resume_has_no_checkpoint_of_an_earlier_run(resumed: Plan) -> None:
    assert left(resumed, Started("cpu", 1), Report(10, {})) == ("base-s1 resumes from step 0; steps 1 to 10 are lost",)
