"""A node that joins the cluster while a sweep runs: nothing has compared its packages yet."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, write_paced_task
from machines import machines, needs_namespaces
from other_packages import python_without_ours, with_others, without_ours
from studies import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults, needs_namespaces]
WORDS = ("sweep", "task=small", "sweep.name=s", "sweep.rows=[base,square]", "sweep.seeds=[1,2]", "train.steps=50")
OURS = version("ablate-sweeps")


def test_a_node_without_our_packages_trains_nothing(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "work"
    write_paced_task(folder)
    train_to(5, folder)
    trials = folder / "runs" / "s"
    with machines("head") as made:
        words = *WORDS, f"cluster.address={made.address}"
        sweep = made.head.start(*words, cwd=folder)
        wait_until(lambda: sweep.ended() or (trials / "base-s1" / "journal.jsonl").exists(), "the first trial")
        made.start_ray(without_ours(made.add("bare")), python_without_ours(tmp_path / "python"))
        ended = sweep.end()
    said = " ".join(ended.output.split())
    assert ended.code == 1, ended.output
    assert re.search(r"Failed: .* found no ablate-sweeps; install it for the Python that starts Ray there", said), said
    assert reasons(trials / "base-s1") == ["interrupted"]
    assert not [*trials.glob("*/error.txt")]


@pytest.mark.parametrize("failures", [0, 2])
def test_no_trial_is_trained_by_other_code(failures: int, tmp_path: Path) -> None:
    """The sweep stops, and no trial fails. Typed again it is refused until that node is right."""
    folder = tmp_path.resolve() / "work"
    write_paced_task(folder)
    train_to(5, folder)
    trials = folder / "runs" / "s"
    with machines("head") as made:
        words = *WORDS, f"sweep.max_failures={failures}", f"cluster.address={made.address}"
        sweep = made.head.start(*words, cwd=folder)
        wait_until(lambda: sweep.ended() or (trials / "base-s1" / "journal.jsonl").exists(), "the first trial")
        assert not sweep.ended(), sweep.end().output
        other = with_others(made.add("other"), tmp_path / "software")
        made.start_ray(other)
        ended, again = sweep.end(), made.head.ablate(*words, cwd=folder)
    differs = f"ablate-sweeps {OURS} in {other.env['PYTHONPATH']}/sweeps differs from {OURS}"
    assert ended.code == 1, ended.output
    assert f"Failed: other: {differs}" in " ".join(ended.output.split())
    assert "To continue, run again: ablate sweep" in " ".join(ended.output.split())
    assert "it resumes with the next sweep" in ended.output
    assert "starting another attempt" not in ended.output
    assert "here; must be the same version or commit on every node, and unchanged while a sweep runs. Stopping" in (
        " ".join(ended.output.split())
    )
    assert again.code == 2
    assert differs in " ".join(again.output.split())
    assert reasons(trials / "base-s1") == ["interrupted"]
    assert not [*trials.glob("*/error.txt")]
    assert [path.parent.name for path in trials.glob("*/journal.jsonl")] == ["base-s1"]
