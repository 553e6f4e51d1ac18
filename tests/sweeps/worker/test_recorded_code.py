"""Which modules of a process are the user's, and come from the bytes that a study has recorded."""

import importlib
import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sweeps.worker.recorded_code import use_code, using_code
from tracking.provenance import Code


def code_in(folder: Path, content: bytes = b"value = 'recorded'\n") -> Code:
    return Code({"own_module.py": content}, {"": str(folder)})


@pytest.fixture
def entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, whose module has been edited since it was recorded."""
    (tmp_path / "own_module.py").write_text("value = 'edited'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_module", raising=False)
    return tmp_path


def test_what_a_process_imports_now_is_what_was_recorded(entered: Path) -> None:
    assert importlib.import_module("own_module").value == "edited"
    with using_code(None):
        use_code(code_in(entered))
        assert importlib.import_module("own_module").value == "recorded"


@pytest.mark.parametrize("root", ["/", str(Path(sys.base_prefix).parent), sys.base_prefix])
def test_python_below_the_folder_of_a_task_is_not_the_users(root: str) -> None:
    before = dict(sys.modules)
    with using_code(None):
        use_code(Code({"no_such_module.py": b""}, {"": root}))
        ours = Path(__file__).parents[3]
        lost = {name for name in before.keys() - sys.modules.keys() if not _lies_in(before[name], ours)}
        sys.modules.update(before)
        importlib.import_module("wsgiref.headers")
    assert not {name for name in lost if name.partition(".")[0] in sys.stdlib_module_names}


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return str(getattr(module, "__file__", "")).startswith(str(folder))


def test_a_compiled_module_is_not_imported_twice(entered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("compiled")
    module.__file__ = str(entered / "compiled.so")
    module.__loader__ = importlib.machinery.ExtensionFileLoader("compiled", module.__file__)
    monkeypatch.setitem(sys.modules, "compiled", module)
    with using_code(None):
        use_code(code_in(entered))
        assert sys.modules["compiled"] is module
