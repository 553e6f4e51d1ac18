"""Which environment variables of the user's code are recorded."""

import pytest

from sweeps.worker.user_code.environment import AT_START, variables
from tracking.code import Code

READ = (
    "import os; x = os.environ['NAME']",
    "import os; x = os.environ.get('NAME', '1')",
    "import os; x = os.getenv('NAME')",
    "from os import getenv; x = getenv('NAME')",
    "from os import environ; x = environ['NAME']",
    "import os; x = 'NAME' in os.environ",
    "import os; x = 'NAME' not in os.environ",
)
NOT_READ = (
    "import os; os.environ['NAME'] = '1'",
    "import os; os.environ.setdefault('NAME', '1'); x = os.environ['NAME']",
    "import os; name = 'NAME'; x = os.environ[name]",
    "x = {'NAME': 1}.get('NAME')  # environment",
    "import os; x = os.environ['",
)


def recorded(text: str) -> dict[str, str | None]:
    return variables(Code({"task.py": text.encode()}))


@pytest.mark.parametrize("text", READ)
def test_a_name_that_is_read_is_recorded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorded(text) == {"NAME": None}
    monkeypatch.setitem(AT_START, "NAME", "value")
    assert recorded(text) == {"NAME": "value"}


@pytest.mark.parametrize("text", NOT_READ)
def test_what_the_code_sets_itself_is_not(text: str) -> None:
    assert recorded(text) == {}


@pytest.mark.parametrize("name", ["RANK", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"])
def test_where_a_process_runs_is_not(name: str) -> None:
    assert recorded(READ[0].replace("NAME", name)) == {}


def test_a_secret_is_recorded_as_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = set[str | None]()
    for value in ("one", "two"):
        monkeypatch.setitem(AT_START, "MY_TOKEN", value)
        hashes |= {*recorded(READ[0].replace("NAME", "MY_TOKEN")).values()}
        monkeypatch.setitem(AT_START, "NAME", f"https://me:{value}@host/")
        hashes |= {*recorded(READ[0]).values()}
    assert len(hashes) == 4
    assert all(str(text).startswith("*** (") for text in hashes)
