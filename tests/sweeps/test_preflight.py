"""What is looked at before anything starts: places, the tracking store, the cluster, memory and disk."""

import contextlib
import os
import signal
import socket
import subprocess
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ablate_in_folder import contents, own_row, plan
from studies import wait_until
from typed import refusal, typed
from typer.testing import CliRunner

from sweeps.cli import app
from sweeps.planning.compose import compose_settings
from sweeps.planning.settings import Cluster, Settings, absolute
from sweeps.planning.study_problems import study_problems
from sweeps.preflight import machine
from sweeps.preflight.cluster import LARGEST_GPU, group_problems, memory_problems
from sweeps.preflight.nodes import Node, nodes_of
from sweeps.preflight.places import disk_problems, name_problems, place_problems
from sweeps.preflight.store import store_notices, store_problems
from transformer.schema import Problem, RefusedError


@pytest.fixture(scope="module")
def defaults() -> Settings:
    return compose_settings([])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a file, a link to nowhere and a link to itself."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "deeper")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    return tmp_path


def look(defaults: Settings, here: Path, **places: Any) -> list[Problem]:
    """The problems of these paths, as written and then on this machine."""
    settings = replace(defaults, paths=replace(defaults.paths, **places))
    return study_problems(settings) or place_problems(absolute(settings, here).paths)


KEEP_ALL = "train.keep_checkpoints=2000000000"
TOKEN = "0123456789abcdef" * 2
EVERY_PLACE = ("runs", "data", "checkpoints")
UNUSABLE = {
    "file": "which is not a folder",
    "file/below": "is not a folder",
    "file/far/below": "is not a folder",
    "./file": "which is not a folder",
    "/dev/null": "which is not a folder",
    "/dev/null/runs": "is not a folder",
    "/proc/runs": "no file can be written in /proc",
    "/sys/kernel/runs": "no file can be written in /sys/kernel",
    "": "is empty",
    "  ": "is empty",
    "\t": "is empty",
    "runs\nmore": "unprintable",
    "runs\0": "unprintable",
    "~nobody-of-this-name": "no such home folder",
    "~nobody-of-this-name/runs": "no such home folder",
    "x" * 300: "300 bytes",
    "é" * 200: "400 bytes",
    "runs/" + "x" * 256 + "/below": "256 bytes",
    "/".join(["x" * 200] * 20): "path of 4",
    "loop": "",
    "loop/runs": "",
}
ONLY_FOLDERS = [
    "s3://bucket/runs",
    "gs://bucket",
    "hdfs://host/runs",
    "http://host/runs",
    "file:///tmp/runs",
    "nfs://x",
]
UNUSABLE_URLS = {
    "s4://bucket/x": ('unknown protocol "s4"', None),
    "S3://bucket/x": ('unknown protocol "S3"', "s3://"),
    "foo://bar": ('unknown protocol "foo"', None),
    "hdfs://host/x": ("", None),
    "gs://bucket/x": ("install the package that opens gs://", None),
    "memory://x": ("lives in the memory of one process", None),
    "http://127.0.0.1:1/x": ("cannot be written to", None),
    "file:///proc/x": ("no file can be written in /proc", None),
    "file:///dev/null": ("which is not a folder", None),
}


@pytest.mark.parametrize("key", EVERY_PLACE)
@pytest.mark.parametrize("place", UNUSABLE, ids=lambda place: repr(place)[:30])
def test_a_place_that_cannot_be_written_to_is_refused(defaults: Settings, here: Path, key: str, place: str) -> None:
    before = contents(here)
    (problem,) = look(defaults, here, **{key: place})
    assert problem.key == f"paths.{key}"
    assert UNUSABLE[place] in problem.found
    assert contents(here) == before


@pytest.mark.parametrize("key", ["runs", "data"])
@pytest.mark.parametrize("place", ONLY_FOLDERS)
def test_only_checkpoints_may_lie_on_another_filesystem(defaults: Settings, here: Path, key: str, place: str) -> None:
    (problem,) = look(defaults, here, **{key: place})
    assert (problem.key, problem.found) == (f"paths.{key}", f'is "{place}"')
    assert "only paths.checkpoints takes other filesystems" in problem.allowed


@pytest.mark.parametrize("place", UNUSABLE_URLS)
def test_a_filesystem_that_cannot_be_written_to_is_refused(defaults: Settings, here: Path, place: str) -> None:
    (problem,) = look(defaults, here, checkpoints=place)
    words, near = UNUSABLE_URLS[place]
    assert problem.key == "paths.checkpoints"
    assert words in f"{problem.found}; {problem.allowed}"
    assert near is None or problem.nearest == near


def test_a_store_without_credentials_is_refused(
    defaults: Settings, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(here / "gone"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(here / "gone"))
    (problem,) = look(defaults, here, checkpoints="s3://ablate-bucket/checkpoints")
    assert problem.key == "paths.checkpoints"
    assert "cannot be written to" in problem.found
    assert "credentials" in problem.allowed


@pytest.mark.parametrize(
    "place", ["folder", "new", "new/deeper/still", "folder/new", "nowhere", ".", "ein Ordner", "日本"]
)
def test_a_place_that_can_be_created_is_tried_and_left_as_it_was(defaults: Settings, here: Path, place: str) -> None:
    before = contents(here)
    assert look(defaults, here, runs=place, data=place, checkpoints=place) == []
    assert contents(here) == before


WRONG_NAMES = ["", " ", "  \t", ".", "..", ".x", "a/b", "../x", "/x", " x", "x ", "x\n", "a\0b", "x" * 300, "ü" * 150]
GOOD_NAMES = ["x", "Größe", "名前", "a b", "été-1", "a.b", "x" * 240, "-x", "2", "null", "über:x"]


@pytest.mark.parametrize("name", WRONG_NAMES, ids=repr)
def test_a_name_that_no_folder_can_have_is_refused(defaults: Settings, name: str) -> None:
    (problem,) = study_problems(replace(defaults, sweep=replace(defaults.sweep, name=name)))
    assert problem.key == "sweep.name"
    assert "\n" not in problem.found


@pytest.mark.parametrize("name", GOOD_NAMES, ids=repr)
def test_a_name_of_any_language_is_a_name(defaults: Settings, name: str) -> None:
    assert study_problems(replace(defaults, sweep=replace(defaults.sweep, name=name))) == []


WRONG_STORES = [
    "htp://host:5000",
    "htpps://host",
    "http:/host:5000",
    "http:host:5000",
    "http://",
    "http://host:99999",
    "http://host:port",
    "http://ho st:5000",
    "localhost:5000",
    "127.0.0.1:5000",
    "mlflow.lab.example:443/path",
    "localhost",
    "sqlite:x.db",
    "sqlite:/tmp/x.db",
    "sqlite://x.db",
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlit:///x.db",
    "postgres://host/db",
    "postgresql:host/db",
    "mlruns",
    "./mlruns",
    "/tmp/mlruns",
    "file:///tmp/mlruns",
    "s3://bucket/mlflow",
    "",
    " ",
    "true",
]
GOOD_STORES = [
    *(
        "http://127.0.0.1:5000",
        "https://user:word@host/path",
        "http://[::1]:5000",
        "databricks",
        "databricks://profile",
    ),
    *("sqlite:///x.db", "sqlite:////tmp/x.db", "postgresql+psycopg://user:word@host/db", "mysql+pymysql://host/db"),
]


@pytest.mark.parametrize("uri", WRONG_STORES, ids=repr)
def test_an_address_that_no_store_has_is_refused(defaults: Settings, uri: str) -> None:
    (problem,) = study_problems(replace(defaults, tracking=replace(defaults.tracking, uri=uri)))
    assert problem.key == "tracking.uri"
    assert "http(s)://HOST:PORT" in problem.allowed


@pytest.mark.parametrize("uri", GOOD_STORES)
def test_an_address_of_a_store_is_taken(defaults: Settings, uri: str) -> None:
    assert study_problems(replace(defaults, tracking=replace(defaults.tracking, uri=uri))) == []


@pytest.mark.parametrize("experiment", ["", " ", "x" * 257, "a\nb", "\0"], ids=lambda name: repr(name)[:20])
def test_an_experiment_that_mlflow_refuses_is_refused(defaults: Settings, experiment: str) -> None:
    (problem,) = study_problems(replace(defaults, tracking=replace(defaults.tracking, experiment=experiment)))
    assert problem.key == "tracking.experiment"


def test_a_store_that_can_never_work_is_refused(here: Path) -> None:
    def found(uri: str) -> str:
        (problem,) = store_problems(uri, here)
        assert problem.key == "tracking.uri"
        return f"{problem.found}; {problem.allowed}"

    assert "which does not exist; create that folder" in found(f"sqlite:///{here}/gone/x.db")
    assert "in which none can be written" in found("sqlite:////proc/x.db")
    assert "cannot be read: File name too long" in found("sqlite:////tmp/" + "x" * 300)
    assert "has a folder at" in found(f"sqlite:///{here}/folder")
    assert "is not an SQLite database" in found(f"sqlite:///{here}/file")
    assert "pip install mysqlclient" in found("mysql://user:word@host/db")
    assert "word" not in found("mysql://user:word@host/db")
    assert "oracledb" in found("mysql+oracledb://host/db")
    assert store_problems(f"sqlite:///{here}/new.db", here) == []
    assert store_problems(f"sqlite:///file:{here}/new.db?uri=true", here) == []
    (here / "mlflow.db").write_text("no database")
    (problem,) = store_problems(None, here)
    assert problem.key == "paths.runs"


def test_a_server_that_is_down_is_said_and_tolerated(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://user:word@127.0.0.1:{server.getsockname()[1]}"
        assert list(store_notices(address)) == []
    (line,) = store_notices(address)
    assert "Connection refused" in line
    assert "word" not in line
    assert [len(list(store_notices(uri))) for uri in (None, "sqlite:///x.db", "http://no.such.host.invalid")] == [
        0,
        0,
        1,
    ]


WRONG_HEADS = [
    "ray://10.0.0.1:10001",
    "",
    " ",
    "local",
    "none",
    "10.0.0.1",
    "head",
    "head.example.org",
    "head:",
    "head:port",
    "head:0",
    "head:65536",
    "head:123456",
    ":6379",
    "head :6379",
    "http://head:8265",
    "https://head",
    "head:6379/path",
    "user@head:6379",
    "head,other:6379",
    "::1:6379",
]


@pytest.mark.parametrize("address", WRONG_HEADS, ids=repr)
def test_an_address_that_no_ray_head_has_is_refused(defaults: Settings, address: str) -> None:
    (problem,) = study_problems(replace(defaults, cluster=replace(defaults.cluster, address=address)))
    assert problem.key == "cluster.address"
    assert "HOST:PORT" in problem.allowed


@pytest.mark.parametrize("address", ["auto", "head:6379", "10.0.0.1:6379", "[::1]:6379", "a-b.c:1"])
def test_an_address_of_a_ray_head_is_taken(defaults: Settings, address: str) -> None:
    assert study_problems(replace(defaults, cluster=replace(defaults.cluster, address=address))) == []


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
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


def test_a_head_where_nothing_answers_is_refused(defaults: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(RefusedError, match="nothing answers there: Connection refused"):
        nodes_of(replace(defaults.cluster, address=address))
    with pytest.raises(RefusedError, match="nothing answers there"):
        nodes_of(replace(defaults.cluster, address="no.such.host.invalid:6379"))
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(RefusedError, match=f"is auto, and RAY_ADDRESS is {address}, but nothing answers there"):
        nodes_of(replace(defaults.cluster, address="auto"))
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    with pytest.raises(RefusedError, match='is auto, and RAY_ADDRESS is "http://head:8265"; must be HOST:PORT'):
        nodes_of(replace(defaults.cluster, address="auto"))


@pytest.mark.slow
@pytest.mark.ray
def test_a_head_that_is_something_else_is_refused(defaults: Settings) -> None:
    with silent_server() as address, pytest.raises(RefusedError, match="did not list its nodes within 20 s"):
        nodes_of(replace(defaults.cluster, address=address))


@pytest.fixture(scope="module")
def head() -> Iterator[str]:
    """A Ray head with three CPUs that wants the token ``TOKEN``."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ray = Path(sysconfig.get_path("scripts")) / "ray"
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    options = [f"--port={port}", "--num-cpus=3", "--include-dashboard=false", "--block"]
    process = subprocess.Popen([ray, "start", "--head", *options], env=environment, start_new_session=True)
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
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": "token"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 32},
    ],
)
def test_a_cluster_that_wants_another_token_is_refused_with_the_way_to_give_it(
    defaults: Settings, head: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray keeps the token of this machine
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = environment.get("RAY_AUTH_MODE") == "token"
    cause = "its token is missing or incorrect" if given else "it asks for a token, and RAY_AUTH_MODE is not token here"
    with pytest.raises(RefusedError, match=f"{cause}; set RAY_AUTH_MODE=token"):
        nodes_of(replace(defaults.cluster, address=head))


@pytest.mark.slow
@pytest.mark.ray
def test_a_cluster_tells_what_it_has_and_what_is_free(
    defaults: Settings, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    (node,) = nodes_of(replace(defaults.cluster, address=head))
    assert (node.total["CPU"], node.free["CPU"], node.total.get("GPU", 0)) == (3, 3, 0)
    assert 0.5 < node.memory / machine.memory() < 1.5


GROUPS = [  # workers, CPUs and GPUs of each, nodes, what is wrong
    (2, 3, 0, [{"CPU": 6}], None),
    (2, 3, 0, [{"CPU": 3}, {"CPU": 4, "GPU": 1}], None),
    (2, 1, 0.5, [{"CPU": 8, "GPU": 1}], None),
    (5, 1, 0.2, [{"CPU": 8, "GPU": 1}], None),
    (10, 1, 0.1, [{"CPU": 16, "GPU": 1}], None),
    (11, 1, 0.1, [{"CPU": 16, "GPU": 1}], "workers: is 11, and each needs 0.1 GPU; must be at most 10; 1 GPUs, 1 free"),
    (8, 1, 0, [{"CPU": 4}, {"CPU": 4}], None),
    (
        2,
        3,
        0,
        [{"CPU": 4}, {"CPU": 2}],
        "workers: is 2, and each needs 3 CPU; must be at most 1; 6 (4 + 2) CPUs, 6 free",
    ),
    (1, 3, 0, [{"CPU": 2}, {"CPU": 2}], "cpus_per_worker: is 3; each worker must fit; 4 (2 + 2) CPUs, 4 free"),
    (1, 1, 1, [{"CPU": 2}], "gpus_per_worker: is 1; each worker must fit; 0 GPUs, 0 free"),
    (8, 1, 1, [{"CPU": 8, "GPU": 4}], "workers: is 8, and each needs 1 GPU; must be at most 4; 4 GPUs, 4 free"),
    (3, 1, 0.5, [{"CPU": 8, "GPU": 1}], "workers: is 3, and each needs 0.5 GPU; must be at most 2; 1 GPUs, 1 free"),
    (1, 1, 2, [{"CPU": 8, "GPU": 1}] * 2, "gpus_per_worker: is 2; each worker must fit; 2 (1 + 1) GPUs, 2 free"),
    (
        4,
        1,
        1,
        [{"CPU": 8}, {"CPU": 1, "GPU": 4}],
        "workers: is 4, and each needs 1 CPU and 1 GPU; must be at most 1; 9 (8 + 1) CPUs, 9 free"
        ", and the cluster has 4 (0 + 4) GPUs, 4 free",
    ),
    (
        1,
        2,
        1,
        [{"CPU": 8}, {"CPU": 1, "GPU": 4}],
        "gpus_per_worker: is 1; each worker must fit; 9 (8 + 1) CPUs, 9 free"
        ", and the cluster has 4 (0 + 4) GPUs, 4 free",
    ),
]


@pytest.mark.parametrize(("workers", "cpus", "gpus", "nodes", "line"), GROUPS)
def test_a_worker_group_must_fit_on_the_nodes(
    workers: int, cpus: int, gpus: float, nodes: list[dict[str, float]], line: str | None
) -> None:
    cluster = Cluster("head:6379", workers, cpus, gpus, 8000)
    problems = list(group_problems(cluster, [Node(total, total) for total in nodes]))
    shortened = [str(problem).replace(" on one machine; the cluster has", ";") for problem in problems]
    shortened = [text.replace("; the cluster has", ";").replace("of which ", "") for text in shortened]
    assert [text.replace(" are free", " free") for text in shortened] == [f"cluster.{line}."] * (line is not None)


TOO_LARGE = {
    "model.d_model=1000000000": "model.d_model",
    "model.n_layers=1000000000": "model.n_layers",
    "model.d_ff=1000000000": "model.d_ff",
    "model.d_k=1000000000": "model.d_k",
    "model.d_v=1000000000": "model.d_v",
    "model.n_heads=1000000000": "model.n_heads",
    "data.vocab_size=2000000000": "data.vocab_size",
}


@pytest.mark.parametrize("override", TOO_LARGE)
def test_a_model_that_no_machine_holds_is_refused(tmp_path: Path, override: str) -> None:
    planned = plan(tmp_path, "sweep.rows=[base]", override)
    (problem,) = memory_problems(planned, [Node({"CPU": 2}, {}, 64e9)])
    assert problem.key == TOO_LARGE[override]
    assert "must fit into each worker's share of the memory, 64 GB" in problem.allowed


def test_memory_is_shared_by_workers_of_one_machine_and_told_of_gpus(tmp_path: Path) -> None:
    wide = ("sweep.rows=[base]", "model.d_ff=500000")  # 390 million parameters, 6.2 GB
    node = Node({"CPU": 4}, {}, 8e9)
    assert list(memory_problems(plan(tmp_path, *wide), [node])) == []
    assert len(list(memory_problems(plan(tmp_path, *wide, "cluster.workers=2"), [node]))) == 1
    assert len(list(memory_problems(plan(tmp_path, *wide, "cluster=gpu"), [replace(node, gpu_memory=4 * 10**9)]))) == 1
    assert list(memory_problems(plan(tmp_path, *wide, "cluster=gpu"), [node])) == []
    assert LARGEST_GPU > 6.2e9


def test_a_disk_too_small_for_the_checkpoints_is_refused(tmp_path: Path) -> None:
    assert list(disk_problems(plan(tmp_path))) == []
    many = ("sweep.rows=[base]", "train.steps=2000000000", "train.checkpoint_every=1")
    assert list(disk_problems(plan(tmp_path, *many))) == [], "five are kept"
    assert list(disk_problems(plan(tmp_path, "sweep.rows=[base]", KEEP_ALL))) == [], "three are written"
    (problem,) = disk_problems(plan(tmp_path, *many, KEEP_ALL))
    assert (problem.key, problem.place) == ("paths.runs", str(tmp_path / "runs" / "synthetic-tiny"))
    (problem,) = disk_problems(plan(tmp_path, *many, KEEP_ALL, "paths.checkpoints=elsewhere"))
    assert (problem.key, problem.place) == ("paths.checkpoints", str(tmp_path / "elsewhere"))


def test_a_row_whose_trial_folder_would_have_too_long_a_name_is_refused(tmp_path: Path) -> None:
    own_row(tmp_path, "model: {n_heads: 4}\n", "x" * 250)
    assert list(name_problems(plan(tmp_path, f"sweep.rows=[base,{'x' * 250}]"))) == []
    (problem,) = name_problems(plan(tmp_path, f"sweep.rows=[base,{'x' * 250}]", "sweep.seeds=[2147483647]"))
    assert "262 bytes" in problem.found


def test_all_problems_are_told_at_once_and_nothing_is_left(here: Path) -> None:
    wrong = (
        "paths.runs=file",
        "paths.data=/dev/null",
        "cluster.workers=40",
        f"tracking.uri=sqlite:///{here}/gone/x.db",
    )
    before = contents(here)
    for verb in (("plan", "--check"), ("sweep",), ("train",)):
        lines = refusal(here, *verb, *wrong, "train.steps=many")
        for key in ("paths.runs", "paths.data", "cluster.workers", "tracking.uri", "train.steps"):
            assert key in lines, lines
        assert "for 5 reasons" in lines
        assert lines.endswith("Nothing was started.")
        lines = refusal(here, *verb, *wrong)
        assert "for 4 reasons" in lines
    assert contents(here) == before


def test_a_mirror_that_lacks_files_and_a_language_of_no_corpus_are_refused(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "plan", "--check", "data=multi30k", "data.mirror=.", "sweep.rows=[base]")
    assert "data.mirror (command line)" in lines
    assert "train.en.gz does not exist" in lines
    lines = refusal(tmp_path, "plan", "--check", "data=multi30k", "data.target=xx", "sweep.rows=[base]")
    assert 'data.target (command line) is "xx"' in lines


def test_a_problem_tells_where_its_key_is_set(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "plan", "--check", "cluster=gpu", "cluster.workers=80", "paths.data=/dev/null")
    assert "paths.data (command line) is /dev/null" in lines
    assert "cluster.workers (command line) is 80" in lines or "conf/cluster/gpu.yaml:4) is 1" in lines


def test_a_plan_that_can_run_is_checked_and_leaves_nothing(tmp_path: Path) -> None:
    done = typed(tmp_path, "plan", "--check", "tracking.uri=http://127.0.0.1:1")
    assert done.exit_code == 0, done.output
    assert "Checked: places" in done.stdout
    assert "No answer from http://127.0.0.1:1 now (Connection refused)" in done.stderr
    assert contents(tmp_path) == []


CAUTIONS = {
    "train.warmup_steps=4000": "base-s1: train.warmup_steps is 4000, but there are only 600 steps; the learning rate only reaches 15% of its peak",  # noqa: E501
    "train.warmup_steps=601": "train.warmup_steps is 601, but there are only 600 steps; the learning rate only reaches 99.8% of its peak",  # noqa: E501
    "train.tokens_per_batch=200000": "train.tokens_per_batch is 200000, but the training text has 147600 tokens",
}


@pytest.mark.parametrize("override", CAUTIONS)
def test_an_unlikely_schedule_is_said_and_not_refused(tmp_path: Path, override: str) -> None:
    done = typed(tmp_path, "plan", "sweep.rows=[base]", override)
    assert done.exit_code == 0, done.output
    assert CAUTIONS[override] in " ".join(done.output.split())


@pytest.mark.parametrize("verb", ["sweep", "train", "plan", "status", "table", "config"])
def test_a_removed_working_folder_is_one_line(tmp_path: Path, verb: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    before = Path.cwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        done = CliRunner().invoke(app, [verb])
    finally:
        os.chdir(before)
    assert done.exit_code == 2
    assert "the current folder was removed" in done.stderr
