"""The one store of checkpoints: what comes back, what is passed over, what stays, and what is
refused."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from same_bits import differing, leaves

from sweeps.checkpoints.owner import SupersededError
from sweeps.checkpoints.reader import CheckpointReader
from sweeps.checkpoints.store import CheckpointStore
from sweeps.processes.events import Report
from sweeps.task import Keep, MissingStepError, StateError

KEY = "0123456789abcdef" * 4
ALL = Keep(newest=100)
Opened = Callable[..., CheckpointStore]


@pytest.fixture(params=["local", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "checkpoints") if request.param == "local" else "memory://checkpoints"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def opened(url: str) -> Opened:
    def store(attempt: int = 1, keep: Keep = ALL) -> CheckpointStore:
        checkpoints = CheckpointStore(CheckpointReader(url, KEY, attempt=attempt), keep)
        checkpoints.claim("r")
        checkpoints.newest()
        return checkpoints

    return store


def save(store: CheckpointStore, *steps: int, scores: tuple[float | None, ...] = ()) -> None:
    for index, step in enumerate(steps):
        store.save(
            step, {"w": torch.full((2,), float(step))}, 1.0, scores[index] if scores else None, ()
        )
    store.settle()


def steps_of(store: CheckpointStore) -> list[int]:
    return sorted(
        path_step(path)
        for path in store.reader.files.filesystem.find(store.reader.root)
        if path.endswith("manifest.json")
    )


def path_step(path: str) -> int:
    return int(path.split("/step-")[1].split("/")[0])


def files_of(store: CheckpointStore, step: int) -> list[str]:
    return [
        path
        for path in store.reader.files.filesystem.find(store.reader.root)
        if f"/step-{step}/" in path
    ]


def trained() -> dict[str, Any]:
    """A network and its optimizer after a step, and whatever else is plain."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to(torch.float64)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(4, 3, dtype=torch.float64)).sum().backward()
    optimizer.step()
    return {
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": [torch.get_rng_state(), np.random.default_rng(1).bit_generator.state],
        "tuple": (1, 2.5, None, True, float("inf"), "ü", ()),
        "numbers": {1: np.arange(3, dtype=np.int16), (2, "b"): np.float32(0.1), "$": -0.0},
        "lone \ud800": torch.ones(2, dtype=torch.bfloat16),
        "ordered": OrderedDict(a=torch.zeros(0), b=torch.arange(6).view(2, 3).T),
        "huge": 2**100,
    }


def test_a_state_comes_back_to_the_bit(opened: Opened) -> None:
    store = opened()
    state = trained()
    reports = Report(1, {"loss": 0.5}, 1.0), Report(2, {"loss": 0.25}, 2.0, 1, True)
    store.save(7, state, 12.5, None, reports)
    store.settle()
    checkpoint = opened(2).newest()
    assert checkpoint is not None
    assert (
        checkpoint.saved.step,
        checkpoint.manifest.seconds,
        str(checkpoint.start.checkpoint),
    ) == (
        7,
        12.5,
        "a1/step-7",
    )
    assert checkpoint.manifest.reports == reports
    names = {path.rpartition("/")[2] for path in files_of(store, 7)}
    assert names == {"tensors.safetensors", "arrays.safetensors", "manifest.json"}, (
        "nothing is read by executing it"
    )
    assert not differing(leaves(state), leaves(checkpoint.saved.state))
    assert type(checkpoint.saved.state["numbers"][2, "b"]) is np.float32
    assert checkpoint.saved.state["tuple"] == state["tuple"]


def test_what_training_does_next_changes_no_checkpoint(opened: Opened) -> None:
    store = opened()
    weights = torch.zeros(3)
    array = np.zeros(3)
    store.save(1, {"w": weights, "a": array}, 0.0, None, ())
    weights += 1
    array += 1
    store.settle()
    (saved,) = store.states([1])
    assert saved.state["w"].tolist() == saved.state["a"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": {"b": object()}}, "the state at a/b holds a object"),
        ([1, {1, 2}], "the state at 1 holds a set"),
        (
            {"a": torch.ones(2).to_sparse()},
            "the state at a holds a torch.Tensor with the layout sparse_coo",
        ),
        (
            {"a": torch.ones(2, dtype=torch.complex64)},
            "the state at a holds a torch.Tensor of complex64",
        ),
        ({"a": np.array(["x"])}, "the state at a holds a numpy.ndarray of <U1"),
        ({"a": np.float32}, "the state at a holds a type: make it of"),
        ({"a": 1j}, "the state at a holds a complex"),
        (lambda: None, "the state holds a function"),
        ({object(): 1}, "holds a object"),
    ],
)
def test_a_state_that_is_not_plain_is_refused_with_what_to_do(
    opened: Opened, state: Any, words: str
) -> None:
    with pytest.raises(StateError, match="give the task `save` and `load`") as refused:
        opened().save(1, state, 0.0, None, ())
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda fs, part, manifest: fs.pipe_file(part, fs.cat_file(part)[:-1]), "bytes, but"),
        (
            lambda fs, part, manifest: fs.pipe_file(part, bytes(len(fs.cat_file(part)))),
            "does not match its checksum",
        ),
        (lambda fs, part, manifest: fs.rm(part), "tensors.safetensors is missing"),
        (lambda fs, part, manifest: fs.pipe_file(manifest, b"{"), "manifest.json cannot be read"),
        (
            lambda fs, part, manifest: fs.pipe_file(
                manifest, fs.cat_file(manifest).replace(b'"step":20', b'"step":21')
            ),
            "manifest.json does not match its checksum",
        ),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_with_a_notice(
    opened: Opened, damage: Callable[[Any, str, str], None], words: str
) -> None:
    store = opened()
    save(store, 10, 20)
    manifest, part = sorted(files_of(store, 20))
    damage(store.reader.files.filesystem, part, manifest)
    notices: list[str] = []
    url = store.reader.url.rpartition("/")[0]
    checkpoint = CheckpointReader(url, KEY, tell=notices.append).newest()
    assert checkpoint is not None
    assert checkpoint.saved.step == 10
    (notice,) = notices
    assert words in notice
    assert notice.endswith("; skipped")


def test_an_unfinished_checkpoint_and_that_of_another_trial_are_no_start(opened: Opened) -> None:
    store = opened()
    save(store, 10)
    files = store.reader.files.filesystem
    files.makedirs(f"{store.reader.root}/a1/step-30", exist_ok=True)
    files.pipe_file(f"{store.reader.root}/a1/step-30/tensors.safetensors", b"half")
    content = json.loads(files.cat_file(f"{store.reader.root}/a1/step-10/manifest.json"))
    foreign = CheckpointReader(store.reader.url.rpartition("/")[0], KEY[:16] + "f" * 48)
    assert foreign.newest() is None
    assert content["key"] == KEY
    checkpoint = opened(2).newest()
    assert checkpoint is not None
    assert checkpoint.saved.step == 10


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (Keep(), [50, 60]),
        (Keep(newest=1), [60]),
        (Keep(newest=1, best=True), [30, 60]),
        (Keep(newest=1, steps=(20, 25, 40)), [20, 40, 60]),
        (Keep(newest=2, best=True, steps=(10,)), [10, 30, 50, 60]),
        (Keep(newest=2, every=20), [40, 60]),
        (Keep(newest=2, every=25), [50, 60]),
    ],
)
def test_what_stays(opened: Opened, keep: Keep, kept: list[int]) -> None:
    store = opened(keep=keep)
    save(store, 10, 20, 30, 40, 50, 60, scores=(5.0, 3.0, 1.0, 1.5, float("nan"), None))
    assert steps_of(store) == kept


def test_a_resumed_attempt_keeps_what_it_started_from_until_it_has_enough(opened: Opened) -> None:
    save(opened(keep=Keep(2, True, (10,))), 10, 20, 30, 40, scores=(9.0, 1.0, 2.0, 3.0))
    second_attempt = opened(2, Keep(2, True, (10,)))
    save(second_attempt, 50, scores=(4.0,))
    assert steps_of(second_attempt) == [10, 20, 40, 50]
    save(second_attempt, 60, scores=(4.0,))
    assert steps_of(second_attempt) == [10, 20, 50, 60]


def test_a_past_that_was_given_up_goes(opened: Opened) -> None:
    store = opened()
    save(store, 10, 20)
    store.reader.files.filesystem.pipe_file(
        f"{store.reader.root}/a1/step-20/tensors.safetensors", b"damaged"
    )
    second_attempt = opened(2, Keep(newest=2))
    save(second_attempt, 15)
    assert steps_of(second_attempt) == [10, 15]


def test_an_older_attempt_neither_writes_nor_removes(opened: Opened) -> None:
    first_attempt = opened()
    save(first_attempt, 10)
    second_attempt = opened(2)
    save(second_attempt, 20)
    with pytest.raises(SupersededError, match="attempt 2 owns"):
        save(first_attempt, 30)
    with pytest.raises(SupersededError):
        first_attempt.tidy()
    assert steps_of(second_attempt) == [10, 20]


def test_a_missing_step_is_named_with_those_that_are_there(opened: Opened) -> None:
    store = opened()
    save(store, 10, 20)
    assert [state.step for state in store.states([20, 10])] == [20, 10]
    with pytest.raises(
        MissingStepError, match="no complete checkpoint of step 15; other steps: 10, 20"
    ):
        list(store.states([10, 15]))


def test_all_workers_start_from_the_bytes_that_rank_zero_names(opened: Opened, url: str) -> None:
    save(opened(), 10)
    checkpoint = opened(2).newest()
    assert checkpoint is not None
    twin = CheckpointReader(url, KEY).at(checkpoint.start)
    assert (twin.manifest, twin.saved.step) == (checkpoint.manifest, 10)
