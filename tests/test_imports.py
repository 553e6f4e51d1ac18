"""Imports run one way, and one outside library has one place."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tracking
import transformer

ROOT = Path(transformer.__file__).parents[1]
OURS = {"transformer", "tracking", "sweeps"}


@cache
def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def named(path: Path) -> set[str]:
    """Everything a file imports, at its head or inside a function, with what it takes from
    there."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call):
            names |= imported_by_name(node)
    return names


def imported_by_name(call: ast.Call) -> set[str]:
    """The module of ``import_module("literal")``, however that function was imported."""
    function = ast.unparse(call.func).rpartition(".")[2]
    literals = [arg.value for arg in call.args[:1] if isinstance(arg, ast.Constant)]
    return {str(literal) for literal in literals if function in ("import_module", "__import__")}


def imported(path: Path) -> set[str]:
    """The packages that it imports."""
    return {module.split(".")[0] for module in named(path)}


def our_modules(path: Path) -> set[str]:
    """The modules of ours that it imports."""
    return named(path) & known_modules()


@cache
def known_modules() -> set[str]:
    return {module_name(module) for package in OURS for module in modules(package)}


def reached(starts: list[Path], *ends: str) -> set[Path]:
    """These files and what they import of ours, directly or through others; modules in ``ends`` are
    not followed."""
    waiting = list(starts)
    visited = set[Path]()
    while waiting:
        path = waiting.pop()
        visited.add(path)
        waiting += [
            file
            for module in our_modules(path) - {*ends}
            if (file := file_of(module)) not in visited
        ]
    return visited


def file_of(module: str) -> Path:
    stem = ROOT / module.replace(".", "/")
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def folder_name(module: str) -> str:
    """sweeps.planning of sweeps.planning.plan; a file directly in a package stands for itself."""
    return ".".join(module.split(".")[:2])


def test_transformer_is_a_task_like_any_other() -> None:
    for path in modules("transformer"):
        foreign_modules = {
            module for module in our_modules(path) if not module.startswith("transformer")
        }
        assert foreign_modules <= {"sweeps.task"}, path
        assert not imported(path) & {"ray", "hydra", "omegaconf"}, path


def test_model_data_and_decoding_know_nothing_of_the_platform() -> None:
    """Configuration keys have its roles, and training, which decoding measures with, has its trial:
    neither lends."""
    knowing = {"transformer.config", *map(module_name, modules("transformer/training"))}
    task_names = {
        f"{module}.{platform_name.rpartition('.')[2]}"
        for module in knowing
        for platform_name in platform_names(file_of(module))
    }
    inside = [
        path for room in ("model", "data", "decoding") for path in modules(f"transformer/{room}")
    ]
    visited = reached(inside, *knowing)
    assert "transformer.config.Problem" in task_names
    assert {*inside, ROOT / "transformer/faults.py"} <= visited
    assert not [
        name(path)
        for path in visited
        if imported(path) & {"sweeps", "tracking"} or named(path) & task_names
    ]


def platform_names(path: Path) -> set[str]:
    return {
        imported_name for imported_name in named(path) if imported_name.startswith("sweeps.task.")
    }


def test_the_facade_holds_only_the_task_interface_and_load_and_no_package_of_ours_needs_it() -> (
    None
):
    facade, callbacks = sorted(modules("allelse"))
    imported_modules = {module for module in our_modules(facade) if "." in module}
    assert imported_modules == {
        "sweeps.function_task",
        "sweeps.task",
        "tracking.table.frames",
        "tracking.written.report",
    }
    assert len(facade.read_text("utf-8").splitlines()) <= 50
    needed = {module for module in our_modules(callbacks) if "." in module}
    assert needed == {"sweeps.random_states", "sweeps.task"}
    users = [
        name(path) for package in OURS for path in modules(package) if "allelse" in imported(path)
    ]
    assert users == ["sweeps/verbs/template/starter.py"]


def test_tracking_imports_nothing_of_ours_and_neither_torch_nor_a_scheduler() -> None:
    for path in modules("tracking"):
        assert not imported(path) & (
            OURS - {"tracking"} | {"torch", "ray", "hydra", "omegaconf"}
        ), path


@pytest.mark.parametrize(
    ("library", "places"),
    [
        ("hydra", ("sweeps/config/hydra",)),
        ("omegaconf", ("sweeps/config/hydra",)),
        ("sentencepiece", ("transformer/data/vocabulary.py",)),
        ("sacrebleu", ("transformer/decoding", "transformer/data/sacrebleu_sets.py")),
        ("sacremoses", ("transformer/decoding/evaluation.py",)),
        ("safetensors", ("sweeps/checkpoints/plain_state.py", "transformer/decoding/export.py")),
        ("ctranslate2", ("transformer/decoding/export.py",)),
        ("mlflow", ("tracking", "transformer/verbs/export.py")),
        ("pandas", ("tracking/table/frames.py",)),
        ("scipy", ("tracking/statistics",)),
        ("matplotlib", ("tracking/report", "transformer/pictures/paper_files.py")),
        ("plotext", ("sweeps/status/curves.py",)),
    ],
)
def test_an_outside_library_has_its_place(library: str, places: tuple[str, ...]) -> None:
    users = [
        name(path)
        for package in sorted(OURS)
        for path in modules(package)
        if library in imported(path)
    ]
    assert users
    for user in users:
        assert any(user == home or user.startswith(f"{home}/") for home in places), users


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """A way that leads back to its start; [] without one."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_neither_files_nor_folders_import_in_a_circle() -> None:
    files = {module_name(path): our_modules(path) for package in OURS for path in modules(package)}
    folders: dict[str, set[str]] = {}
    for module, targets in files.items():
        own_folder = folder_name(module)
        folders.setdefault(own_folder, set()).update(
            folder_name(target) for target in targets if folder_name(target) != own_folder
        )
    assert {"sweeps.planning", "transformer.training"} <= set(folders)
    assert circle(files) == []
    assert circle(folders) == []


@pytest.mark.parametrize(
    "call", ['importlib.import_module("a.b")', 'import_module("a.b")', '__import__("a.b")']
)
def test_an_import_by_name_is_an_import(call: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(f"def late():\n    return {call}\n", "utf-8")
    assert named(tmp_path / "file.py") == {"a.b"}


def test_rooms_that_run_nothing_import_neither_the_one_that_does_nor_ray() -> None:
    for path in [
        path for room in ("planning", "processes", "worker") for path in modules(f"sweeps/{room}")
    ]:
        assert not {
            module for module in our_modules(path) if module.startswith("sweeps.running")
        }, path
        assert "ray" not in imported(path) or path.name == "ray_private.py", path


def test_one_trial_in_this_process_needs_no_ray() -> None:
    visited = reached([ROOT / "sweeps/running/single_process.py"])
    assert not [name(path) for path in visited if "ray" in imported(path)]
    assert len(visited) > 30


def test_the_platform_imports_no_transformer_and_speaks_of_no_translation() -> None:
    """Tables of other names, and the packages that `doctor` looks for, hold words of translation as
    data."""
    for path in modules("sweeps"):
        assert "transformer" not in imported(path), path
        text = path.read_text("utf-8").replace("sacreBLEU", "").replace("sacrebleu", "")
        spoken = re.search(r"bleu|ppl(?!i|y|e)|\bbeam", text, re.IGNORECASE)
        assert spoken is None or name(path) == "sweeps/config/overrides.py", path


def test_the_packages_looked_at_are_the_ones_imported_here() -> None:
    assert Path(tracking.__file__).parents[1] == ROOT
    assert all(len(modules(package)) > 5 for package in OURS)
