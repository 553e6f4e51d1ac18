"""What a node says of itself: the digest of our files, and whether locks of another machine hold there."""

import subprocess
import sys
from pathlib import Path

from sweeps.planning.compose import compose_settings
from sweeps.preflight.differences import node_notices
from sweeps.preflight.node_facts import digest, facts
from sweeps.preflight.nodes import Node


def test_a_file_that_is_being_edited_changes_nothing_until_it_is_saved(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("1")
    before = digest([str(tmp_path)])
    (tmp_path / ".#one.py").symlink_to("me@host.42:1")  # Emacs' lock
    (tmp_path / "two.txt").write_text("2")
    assert digest([str(tmp_path)]) == before
    (tmp_path / "one.py").write_text("2")
    assert digest([str(tmp_path)]) != before


HOLDS = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); input()"


def test_a_lock_that_does_not_hold_on_a_node_is_reported(tmp_path: Path) -> None:
    file, settings = tmp_path / "file", compose_settings([f"paths.runs={tmp_path}"])
    question = {"files": {"paths.runs": str(file)}, "digest": "another", "trials": {}}
    file.touch()
    nodes = [Node({}, name="10.77.0.2", answer=facts(question))]
    (notice,) = node_notices(nodes, settings)
    assert notice.startswith(f"paths.runs: {tmp_path} has no locks between this machine and 10.77.0.2: ")
    command = [sys.executable, "-c", HOLDS, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        holder.stdout.readline()
        assert facts(question)["unlocked"] == []
        holder.communicate("\n")
