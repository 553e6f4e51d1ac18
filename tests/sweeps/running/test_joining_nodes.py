"""A node that joins the cluster while a sweep runs: nothing has compared its packages yet."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, write_paced_task
from machines import Inside, Machines, machines, needs_namespaces
from other_packages import python_without_ours, with_others, without_ours
from studies import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults, needs_namespaces]
WORDS = ("sweep", "task=small", "sweep.name=s", "sweep.rows=[base,square]", "sweep.seeds=[1,2]", "train.steps=50")
OURS = version("allelse")


@dataclass
class Held:
    """A sweep that runs on the head alone, and waits for the nodes that join."""

    made: Machines
    folder: Path
    words: tuple[str, ...]
    sweep: Inside

    @property
    def trials(self) -> Path:
        return self.folder / "runs" / "s"

    def check_nothing_else_began(self) -> None:
        assert reasons(self.trials / "base-s1") == ["interrupted"]
        assert not [*self.trials.glob("*/error.txt")]
        assert [path.parent.name for path in self.trials.glob("*/journal.jsonl")] == ["base-s1"]


@contextmanager
def held(tmp_path: Path) -> Iterator[Held]:
    folder = write_paced_task(tmp_path.resolve() / "work")
    train_to(5, folder)
    with machines("head") as made:
        words = *WORDS, f"cluster.address={made.address}"
        sweep = made.head.start(*words, cwd=folder)
        held = Held(made, folder, words, sweep)
        began = held.trials / "base-s1" / "journal.jsonl"
        wait_until(lambda: sweep.ended() or began.exists(), "the first trial")
        assert not sweep.ended(), sweep.end().output
        yield held


def test_a_node_without_our_packages_trains_nothing(tmp_path: Path) -> None:
    with held(tmp_path) as running:
        made = running.made
        made.start_ray(without_ours(made.add("bare")), python_without_ours(tmp_path / "python"))
        ended = running.sweep.end()
    said = " ".join(ended.output.split())
    assert ended.code == 1, ended.output
    assert re.search(
        r"Failed: on \S+ \(bare\): allelse is not installed; install .* for the Python that starts Ray there",
        said,
    ), said
    running.check_nothing_else_began()


def test_no_trial_is_trained_by_other_code(tmp_path: Path) -> None:
    """The sweep stops, and no trial fails. Typed again it is refused until that node is right."""
    with held(tmp_path) as running:
        made = running.made
        other = with_others(made.add("other"), tmp_path / "software")
        made.start_ray(other)
        ended, again = running.sweep.end(), made.head.allelse(*running.words, cwd=running.folder)
    differs = f"allelse {OURS} in {other.env['PYTHONPATH']}/sweeps differs from {OURS}"
    said = " ".join(ended.output.split())
    assert ended.code == 1, ended.output
    assert f"Failed: other: {differs}" in said
    assert "To continue, run again: allelse sweep" in said
    assert "it resumes with the next sweep" in said
    assert "starting another attempt" not in said
    assert "must be the same version or commit on every node, and unchanged while a sweep runs. Stopping" in said
    assert again.code == 2
    assert differs in " ".join(again.output.split())
    running.check_nothing_else_began()
