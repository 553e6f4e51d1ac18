"""A node that joins the cluster while a sweep runs: nothing has compared its packages yet."""

from importlib.metadata import version
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, write_paced_task
from machines import machines, needs_namespaces
from other_packages import with_others
from studies import wait_until

OURS = version("ablate-sweeps")
pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults, needs_namespaces]
WORDS = ("sweep", "task=small", "sweep.name=s", "sweep.rows=[base,square]", "sweep.max_failures=0", "train.steps=50")


def test_no_trial_is_trained_by_other_code(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "work"
    write_paced_task(folder)
    train_to(5, folder)
    trials = folder / "runs" / "s"
    with machines("head") as made:
        sweep = made.head.start(*WORDS, f"cluster.address={made.address}", cwd=folder)
        wait_until(lambda: sweep.ended() or (trials / "base-s1" / "journal.jsonl").exists(), "the first trial")
        assert not sweep.ended(), sweep.end().output
        other = with_others(made.add("other"), tmp_path / "software")
        made.start_ray(other)
        wait_until(
            lambda: sweep.ended() or (trials / "square-s1" / "error.txt").exists(), "the end of the second trial"
        )
        train_to(1000, folder)
        ended = sweep.end()
    assert ended.code == 1, ended.output
    (reason,) = reasons(trials / "square-s1")
    assert f"other: ablate-sweeps {OURS} in {other.env['PYTHONPATH']}/sweeps differs from {OURS}" in reason
    assert "must be the same version or commit on every node" in reason
    assert not (trials / "square-s1" / "journal.jsonl").exists()
    assert reasons(trials / "base-s1") == ["finished"]
