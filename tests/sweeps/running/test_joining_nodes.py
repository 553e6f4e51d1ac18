"""A node that joins the cluster while a sweep runs: nothing has compared its packages yet."""

from importlib.metadata import version
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, write_paced_task
from machines import machines
from other_packages import with_others
from studies import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
WORDS = (
    "sweep",
    "task=small",
    "sweep.name=s",
    "sweep.rows=[base,square]",
    "sweep.seeds=[1,2]",
    "train.steps=50",
)
OURS = version("allelse")


def test_no_trial_is_trained_by_other_code(tmp_path: Path) -> None:
    """The sweep, which had the head alone, stops, and no trial fails. Typed again it is refused
    until the node fits."""
    folder = write_paced_task(tmp_path.resolve() / "work")
    trials = folder / "runs" / "s"
    train_to(5, folder)
    with machines("head") as cluster:
        words = *WORDS, f"cluster.address={cluster.address}"
        running = cluster.head.start(*words, cwd=folder)
        wait_until(
            lambda: running.ended() or (trials / "base-s1" / "journal.jsonl").exists(),
            "the first trial",
        )
        assert not running.ended(), running.end().output
        machine = with_others(cluster.add("other"), tmp_path / "software")
        cluster.start_ray(machine)
        outcome = running.end()
        refusal = cluster.head.allelse(*words, cwd=folder)
    differs = f"allelse {OURS} in {machine.env['PYTHONPATH']}/sweeps differs from {OURS}"
    output = " ".join(outcome.output.split())
    assert outcome.code == 1, outcome.output
    assert f"Failed: other: {differs}" in output
    assert "To continue, run again: allelse sweep" in output
    assert "it resumes with the next sweep" in output
    assert "starting another attempt" not in output
    assert (
        "must be the same version or commit on every node, and unchanged while a sweep runs. "
        "Stopping" in output
    )
    assert refusal.code == 2
    assert differs in " ".join(refusal.output.split())
    assert reasons(trials / "base-s1") == ["interrupted"]
    assert not [*trials.glob("*/error.txt")]
    assert [path.parent.name for path in trials.glob("*/journal.jsonl")] == ["base-s1"]
