"""The checkpoint that a lost trial of a command goes on from."""

import os
from pathlib import Path

from sweeps.command_task.trial.resuming import beginning_of


def write_checkpoint(out: Path, step: int, *names: str) -> Path:
    """A folder of these files, each written at this second."""
    folder = out / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("state")
        os.utime(folder / name, (step, step))
    os.utime(folder, (step, step))
    return folder


def test_a_checkpoint_that_a_kill_has_cut_short_is_passed_over(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def start() -> Path | None:
        return beginning_of(out, "checkpoint-*", tmp_path, None, 0).checkpoint

    assert start() is None
    first = write_checkpoint(out, 10, "model.bin", "step-10.json")
    assert start() == first
    second = write_checkpoint(out, 20, "model.bin")
    assert start() == first
    write_checkpoint(out, 20, "model.bin", "step-20.json")
    assert start() == second
