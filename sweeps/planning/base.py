"""Base as Hydra composes it from the shipped options, kept like Python keeps bytecode: Hydra takes a second."""

import hashlib
import importlib.util
import json
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sweeps.planning.yaml_files import SHIPPED
from tracking.files import write_atomic

Options = tuple[tuple[str, str], ...]


@cache
def composed(options: Options) -> dict[str, Any]:
    """Base with one shipped option per group, before references are resolved."""
    kept = _kept(options)
    try:
        content: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    except (OSError, ValueError):  # not composed before with these files, or a damaged copy
        content = _by_hydra(options)
        _keep(kept, content)
    return content


def _by_hydra(options: Options) -> dict[str, Any]:
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(SHIPPED), version_base="1.3"):
        overrides = ["~row", "~scale", *(f"{group}={name}" for group, name in options)]
        content = OmegaConf.to_container(compose("config", overrides=overrides))
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


def _kept(options: Options) -> Path:
    """Next to our bytecode. Its name is a hash of all that decides the content."""
    files = [SHIPPED / "config.yaml", *(SHIPPED / group / f"{name}.yaml" for group, name in options)]
    digest = hashlib.sha256(repr((version("hydra-core"), options)).encode())
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return Path(importlib.util.cache_from_source(__file__)).with_name(f"base.{digest.hexdigest()[:32]}.json")


def _keep(kept: Path, content: dict[str, Any]) -> None:
    with suppress(OSError):  # a folder of another user: every command composes
        write_atomic(kept, json.dumps(content))
