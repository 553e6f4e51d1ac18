"""What a checkpoint holds, read from its folder."""

from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from sweeps.checkpoints.files import CheckpointFiles
from sweeps.checkpoints.plain_state import Parts


def saved_state(folder: Path) -> Any:
    """The state in the folder of a checkpoint."""
    files = CheckpointFiles(LocalFileSystem())
    manifest = files.manifest(str(folder))
    assert manifest is not None, f"{folder} is not finished"
    return Parts.read(manifest.outline, files.parts(str(folder), manifest)).state()
