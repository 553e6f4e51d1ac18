"""What is looked at before anything starts: places, names, the tracking store, the cluster, memory
and disk."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allelse_in_folder import contents, own_row
from machines import NOTICED_SOON
from studies import wait_until
from typed import refusal, typed

BASE = "sweep.rows=[base]"
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a file, a link to nowhere and a link to itself."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "deeper")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    return tmp_path


REFUSED = [
    *((f"paths.{key}=file", "which is not a folder") for key in ("runs", "data", "checkpoints")),
    ("paths.data=file/far/below", "is not a folder"),
    ("paths.runs=/dev/null", "which is not a folder"),
    ("paths.runs=/proc/runs", "no file can be written in /proc"),
    ("paths.runs=''", "is empty"),
    ("paths.runs='runs\nmore'", "unprintable"),
    ("paths.data='~nobody-of-this-name/x'", "no such home folder"),
    (f"paths.runs={'é' * 200}", "File name too long"),
    *(
        (
            f"paths.{key}={{here}}/runtime_resources/working_dir_files/_ray_pkg_1/x",
            f"such as paths.{key}=/shared/x",
        )
        for key in ("runs", "data", "checkpoints")
    ),
    (f"paths.runs={'/'.join(['x' * 200] * 21)}", "File name too long"),
    ("paths.runs=s3://bucket/runs", "only paths.checkpoints takes other filesystems"),
    ("paths.data=file:///tmp/data", "only paths.checkpoints takes other filesystems"),
    ("paths.checkpoints=S3://bucket/x", "did you mean s3://?"),
    ("paths.checkpoints=gs://bucket/x", "Please install gcsfs"),
    ("paths.checkpoints=memory://x", "lives in the memory of one process"),
    ("paths.checkpoints=http://127.0.0.1:1/x", "cannot be written to"),
    ("paths.checkpoints=file:///proc/x", "no file can be written in /proc"),
    *(
        (f"sweep.name={name}", "must be the name of a folder")
        for name in ("' '", "..", ".x", "../x", "'x '")
    ),
    (f"sweep.name={'x' * 300}", "is a name of 300 bytes"),
    *(
        (f"tracking.uri={uri}", "must be http(s)://HOST:PORT, sqlite:////PATH")
        for uri in (
            "htp://host:5000",
            "http://host:99999",
            "127.0.0.1:5000",
            "sqlite:x.db",
            "sqlite:///:memory:",
            "/tmp/x",
        )
    ),
    ("tracking.uri=sqlite:///{here}/gone/x.db", "which does not exist create that folder"),
    ("tracking.uri=sqlite:////proc/x.db", "which can't be written to"),
    ("tracking.uri=sqlite:///{here}/folder", "has a folder at"),
    ("tracking.uri=sqlite:///{here}/file", "is not an SQLite database"),
    ("tracking.uri=mysql://user:word@host/db", "No module named 'MySQLdb'"),
    (f"tracking.experiment={'x' * 257}", "tracking.experiment (command line)"),
    ("cluster.address=ray://10.0.0.1:10001", "must be HOST:PORT of a Ray head"),
    ("cluster.address=10.0.0.1", "must be HOST:PORT of a Ray head"),
    ("cluster.address='head:65536'", "must be HOST:PORT of a Ray head"),
    ("cluster.address=no.such.host.invalid:6379", "nothing answers there"),
    ("cluster.address=127.0.0.1:1", "nothing answers there: Connection refused"),
    ("cluster.workers=40", "must be at most"),
    ("cluster=gpu", "each worker must fit"),
    ("model.n_layers=1000000000", "must fit into each worker's share of the memory"),
    ("data=multi30k data.mirror=.", "lacks train.en.gz"),
    ("data=multi30k data.target=xx", 'data.target (command line) is "xx"'),
]


@pytest.mark.parametrize(
    ("override", "words"), REFUSED, ids=[override[:40] for override, _ in REFUSED]
)
def test_what_cannot_work_is_refused_by_its_key_and_leaves_nothing(
    here: Path, override: str, words: str
) -> None:
    files_before = contents(here)
    overrides = override.split() if override.startswith("data=") else [override.format(here=here)]
    message = refusal(here, "plan", "--check", BASE, *overrides)
    assert message.startswith("Refused, for ")
    assert words in message
    assert "word@" not in message, "a password"
    assert message.endswith("Nothing was started.")
    assert contents(here) == files_before


@pytest.mark.parametrize(
    "places", [("folder", "new/deeper/still", "nowhere"), (".", "ein Ordner", "日本")]
)
def test_a_place_that_can_be_created_is_tried_and_left_as_it_was(
    here: Path, places: tuple[str, str, str]
) -> None:
    files_before = contents(here)
    keys = ("runs", "data", "checkpoints")
    words = [f"paths.{key}='{path}'" for key, path in zip(keys, places, strict=True)]
    outcome = typed(here, "plan", "--check", BASE, *words)
    assert outcome.exit_code == 0, outcome.output
    assert contents(here) == files_before


@pytest.mark.parametrize(
    "override",
    [
        *(f"sweep.name='{name}'" for name in ("Größe", "名前", "a b", "x" * 240, "null")),
        *(
            "tracking.uri=https://user:word@host/path",
            "tracking.uri=databricks",
            "tracking.uri=sqlite:///new.db",
        ),
    ],
)
def test_unusual_names_and_addresses_are_taken(here: Path, override: str) -> None:
    outcome = typed(here, "plan", BASE, override)
    assert outcome.exit_code == 0, outcome.output


def test_a_store_without_credentials_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(here / "gone"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(here / "gone"))
    message = refusal(
        here, "plan", "--check", BASE, "paths.checkpoints=s3://allelse-bucket/checkpoints"
    )
    assert "cannot be written to" in message
    assert "credentials" in message


def test_a_wrong_address_of_the_environment_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    message = refusal(here, "plan", "--check", BASE, "cluster.address=auto")
    assert 'is auto, and RAY_ADDRESS is "http://head:8265" must be HOST:PORT' in message


def test_a_ray_that_a_sweep_cannot_start_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a job of a cluster, and with a dashboard that is not installed. `train` needs no
    Ray."""
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.setitem(sys.modules, "grpc", None)
    words = ["cluster.address=null", "cluster.dashboard=true"]
    for verb in (("plan", "--check"), ("sweep",)):
        message = refusal(here, *verb, BASE, *words)
        assert "cluster.address (command line) is null, but a Ray job can't start" in message
        assert "type cluster.address=auto, which uses this cluster" in message
        assert re.search(
            r"Ray's dashboard lacks packages here: .*grpc.* type `pip install \"allelse\[dash",
            message,
        )
    assert "for 1 reason" in refusal(here, "train", "row=base", *words, "paths.runs=file")


MISMATCH = (
    "RuntimeError: Version mismatch: The cluster was started with: Ray: 2.0.0, Python: 3.11.2"
)
UNJOINED = {  # what Ray prints, and what is said of it
    MISMATCH: f"{MISMATCH} must run the same Python and the same Ray as this machine",
    "": "Ray's node process on this machine may be gone type `ray status` to see the nodes",
    "Something else is wrong": (
        "but Something else is wrong must be the address of a running Ray cluster"
    ),
}


@contextlib.contextmanager
def a_cluster(
    folder: Path, patch: pytest.MonkeyPatch, prints: str = "", says: str = ""
) -> Iterator[str]:
    """The address of a head: the process that asks it for its nodes prints this, and ``says`` that
    on its end."""
    python = folder / "python"
    python.write_text(
        f"#!/bin/sh\necho noise\nprintf '%s\\n' '{prints}'\nprintf '%s' '{says}' >&2\nexit 1\n"
    )
    python.chmod(0o755)
    patch.setattr(sys, "executable", str(python))
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("says", UNJOINED)
def test_why_a_cluster_cannot_be_joined_is_told_with_what_to_do(
    says: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_cluster(here, monkeypatch, says=says) as address:
        message = refusal(here, "plan", "--check", BASE, f"cluster.address={address}")
    assert f"cluster.address (command line) is {address}, but" in message
    assert UNJOINED[says] in message


@contextlib.contextmanager
def closing_server() -> Iterator[str]:
    """A server that accepts and closes each connection: something other than a Ray head."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = threading.Event()

        def serve() -> None:
            while not closing.is_set():
                with contextlib.suppress(OSError):
                    server.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        closing.set()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.faults
def test_a_head_that_is_something_else_is_refused(here: Path) -> None:
    with closing_server() as address:
        message = refusal(here, "plan", "--check", BASE, f"cluster.address={address}")
    assert "did not list its nodes within 20 s" in message


@pytest.fixture(scope="module")
def head() -> Iterator[str]:
    """A Ray head with three CPUs that wants the token ``TOKEN``."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ray = Path(sysconfig.get_path("scripts")) / "ray"
    environment = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
    }
    options = [f"--port={port}", "--num-cpus=3", "--include-dashboard=false", "--block"]
    process = subprocess.Popen(
        [ray, "start", "--head", *options], env=environment, start_new_session=True
    )
    wait_until(lambda: accepts(port), "the head")
    yield f"127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_cluster_that_wants_another_token_is_refused_with_the_way_to_give_it(
    here: Path, head: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here))  # where Ray keeps the token of this machine
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 32)
    message = refusal(here, "plan", "--check", BASE, f"cluster.address={head}")
    assert "its token is missing or incorrect set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in message


# workers, CPUs and GPUs of each, the nodes, and what is wrong: its key, and how it is told
GROUPS: list[tuple[int, int, float, list[dict[str, float]], str, str]] = [
    (2, 3, 0, [{"CPU": 3}, {"CPU": 4, "GPU": 1}], "", ""),
    (10, 1, 0.1, [{"CPU": 16, "GPU": 1}], "", ""),
    (
        11,
        1,
        0.1,
        [{"CPU": 16, "GPU": 1}],
        "workers",
        "is 11, and each needs 1 CPU and 0.1 GPU must be at most 10;",
    ),
    (8, 1, 0, [{"CPU": 4}, {"CPU": 4}], "", ""),
    (2, 3, 0, [{"CPU": 4}, {"CPU": 2}], "workers", "is 2, and each needs 3 CPU must be at most 1;"),
    (
        1,
        3,
        0,
        [{"CPU": 2}, {"CPU": 2}],
        "cpus_per_worker",
        "is 3 each worker must fit on one machine;",
    ),
    (1, 1, 1, [{"CPU": 2}], "gpus_per_worker", "is 1 each worker must fit on one machine;"),
    (
        4,
        1,
        1,
        [{"CPU": 8}, {"CPU": 1, "GPU": 4}],
        "workers",
        "is 4, and each needs 1 CPU and 1 GPU must be at most 1;",
    ),
    (
        1,
        2,
        1,
        [{"CPU": 8}, {"CPU": 1, "GPU": 4}],
        "gpus_per_worker",
        "is 1 each worker must fit on one machine;",
    ),
]


@pytest.mark.parametrize("case", GROUPS)
def test_a_worker_group_must_fit_on_the_nodes(
    here: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]
) -> None:
    workers, cpus, gpus, totals, key, words = case
    nodes = json.dumps(
        [{"name": "node", "total": total, "free": total, "answer": {}} for total in totals]
    )
    demands = [
        f"cluster.workers={workers}",
        f"cluster.cpus_per_worker={cpus}",
        f"cluster.gpus_per_worker={gpus}",
    ]
    with a_cluster(here, monkeypatch, f"nodes: {nodes}") as address:
        outcome = typed(here, "plan", "--check", BASE, f"cluster.address={address}", *demands)
    message = " ".join(outcome.stderr.split())
    assert outcome.exit_code == (2 if key else 0), message
    assert not key or message.startswith(
        f"Refused, for 1 reason: cluster.{key} (command line) {words}"
    ), message


def test_a_disk_too_small_for_the_checkpoints_is_refused(tmp_path: Path) -> None:
    checkpoints = [BASE, "train.steps=2000000000", "train.checkpoint_every=1"]
    assert typed(tmp_path, "plan", "--check", *checkpoints).exit_code == 0, "five are kept"
    keep_all = [*checkpoints, "train.keep_checkpoints=2000000000"]
    for key in ("runs", "checkpoints"):
        message = refusal(tmp_path, "plan", "--check", *keep_all, f"paths.{key}={tmp_path}/place")
        assert f"paths.{key} ({tmp_path}/place" in message
        assert "choose a larger disk, fewer rows, or fewer checkpoints" in message


def test_a_row_whose_trial_folder_would_have_too_long_a_name_is_refused(tmp_path: Path) -> None:
    own_row(tmp_path, "model: {n_heads: 4}\n", "x" * 250)
    rows = f"sweep.rows=[base,{'x' * 250}]"
    assert typed(tmp_path, "plan", "--check", rows).exit_code == 0
    assert "262 bytes" in refusal(tmp_path, "plan", "--check", rows, "sweep.seeds=[2147483647]")


def test_all_problems_are_told_at_once_with_where_their_keys_are_set(here: Path) -> None:
    mistakes = [
        "paths.runs=file",
        "paths.data=/dev/null",
        "cluster=gpu",
        f"tracking.uri=sqlite:///{here}/gone/x.db",
    ]
    files_before = contents(here)
    for verb in (("plan", "--check"), ("sweep",), ("train",)):
        message = refusal(here, *verb, *mistakes, "train.steps=many")
        places = (
            "paths.runs (command line)",
            "conf/shared/cluster/gpu.yaml:4)",
            "tracking.uri (command line)",
            "train.steps",
        )
        assert all(origin in message for origin in places), message
        assert "for 5 reasons" in message
    assert contents(here) == files_before


def test_a_plan_that_can_run_is_checked_and_leaves_nothing(tmp_path: Path) -> None:
    outcome = typed(tmp_path, "plan", "--check", "tracking.uri=http://user:word@127.0.0.1:1")
    assert outcome.exit_code == 0, outcome.output
    assert "Checked: folders" in outcome.stdout
    assert "now (Connection refused)" in outcome.stderr
    assert "word" not in outcome.stderr
    assert contents(tmp_path) == []


def test_an_unlikely_schedule_is_said_and_not_refused(tmp_path: Path) -> None:
    outcome = typed(tmp_path, "plan", BASE, "train.warmup_steps=401")
    assert outcome.exit_code == 0, outcome.output
    caution = "but there are only 400 steps; the learning rate only reaches 99.8% of its peak"
    assert caution in " ".join(outcome.output.split())


def test_the_machines_of_tests_have_the_documented_health_checks() -> None:
    assert (
        dict(re.findall(r"(RAY_health_check_\w+)=(\d+)", DOCUMENT.read_text("utf-8")))
        == NOTICED_SOON
    )


FAR = "x" * 60


@pytest.mark.parametrize(
    ("variable", "folder", "reason"),
    [
        ("TMPDIR", f"/tmp/{FAR}", "TMPDIR is /tmp/{FAR}, where the path of Ray's socket has"),
        (
            "RAY_TMPDIR",
            f"/tmp/{FAR}",
            "RAY_TMPDIR is /tmp/{FAR}, where the path of Ray's socket has",
        ),
        ("RAY_TMPDIR", "/proc", "RAY_TMPDIR is /proc, but Ray can't write to it"),
        ("TMPDIR", "/dev/null", "TMPDIR is /dev/null, but Ray can't write to it"),
    ],
)
@pytest.mark.parametrize("verb", [["plan", "--check"], ["sweep"]])
def test_a_folder_where_ray_cannot_start_is_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: list[str],
    variable: str,
    folder: str,
    reason: str,
) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv(variable, folder)
    message = refusal(tmp_path, *verb, BASE)
    assert reason.format(FAR=FAR) in message
    assert "set RAY_TMPDIR to" in message
    assert contents(tmp_path) == []


def test_another_folder_for_ray_s_files_is_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", f"/tmp/{FAR}")
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    assert typed(tmp_path, "plan", "--check", BASE).exit_code == 0
