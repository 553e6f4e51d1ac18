"""Imports run one way, and one outside library has one place."""

import ast
from pathlib import Path

import pytest

import tracking
import transformer

ROOT = Path(transformer.__file__).parents[1]
OURS = {"transformer", "tracking", "sweeps"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names of everything a file imports, at its head or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names.add((node.module or "").split(".")[0])
    return names


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules("transformer"), ids=name)
def test_transformer_imports_no_other_package_of_ours_and_no_scheduler(path: Path) -> None:
    assert not imported(path) & {"sweeps", "tracking", "ray", "mlflow", "hydra", "omegaconf"}


@pytest.mark.parametrize("path", modules("tracking"), ids=name)
def test_tracking_imports_nothing_of_ours_and_neither_torch_nor_a_scheduler(path: Path) -> None:
    assert not imported(path) & (OURS - {"tracking"} | {"torch", "ray", "hydra", "omegaconf"})


@pytest.mark.parametrize(
    ("library", "place"),
    [
        ("sentencepiece", "transformer/data/vocabulary.py"),
        ("sacrebleu", "transformer/decoding/score.py"),
        ("sacremoses", "transformer/decoding/score.py"),
        ("safetensors", "transformer/decoding/export.py"),
        ("ctranslate2", "transformer/decoding/ctranslate.py"),
        ("mlflow", "tracking"),
    ],
)
def test_an_outside_library_is_imported_in_one_file_or_folder_only(library: str, place: str) -> None:
    users = [name(path) for package in sorted(OURS) for path in modules(package) if library in imported(path)]
    assert users
    assert all(user == place or user.startswith(f"{place}/") for user in users), users


def test_the_packages_looked_at_are_the_ones_imported_here() -> None:
    assert Path(tracking.__file__).parents[1] == ROOT
    assert all(len(modules(package)) > 5 for package in OURS)
