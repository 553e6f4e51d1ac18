"""What many tests share: a folder where sweeps start soon, and one trained trial for the verbs that
use it."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from small_text import write_text
from studies import STARTED
from typed import typed

from tracking.uri import default_uri

WORDS = [*"abcdefgh", "a-b", "c-d"]
MODEL = (
    "n_layers=1",
    "d_model=64",
    "d_ff=128",
    "n_heads=4",
    "d_k=16",
    "d_v=16",
    "max_positions=40",
)
TRAIN = (
    "steps=400",
    "warmup_steps=80",
    "lr_factor=0.7",
    "tokens_per_batch=600",
    "label_smoothing=0",
)


def sentences(size: int, shortest: int, longest: int, seed: int) -> list[str]:
    """Different sentences of random words."""
    generator = random.Random(seed)
    texts = dict[str, None]()
    while len(texts) < size:
        texts[" ".join(generator.choices(WORDS, k=generator.randint(shortest, longest)))] = None
    return list(texts)


@pytest.fixture(autouse=True)
def _nothing_started_stays() -> Iterator[None]:
    """A sweep that a failed test leaves would take CPUs from the others for ever."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.wait()
    STARTED.clear()


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs, to be copied: creating its schema takes seconds."""
    runs = tmp_path_factory.mktemp("store").resolve()
    MlflowClient(default_uri(runs)).search_experiments()
    return runs / "mlflow.db"


@pytest.fixture(scope="session")
def furnish(database: Path) -> Callable[[Path], Path]:
    """Gives a folder a little text, and an MLflow database."""

    def furnished(folder: Path) -> Path:
        (folder / "runs").mkdir(parents=True)
        shutil.copy(database, folder / "runs")
        return write_text(folder)

    return furnished


@pytest.fixture
def workplace(furnish: Callable[[Path], Path], tmp_path: Path) -> Path:
    """An own folder with small text and an empty database."""
    return furnish(tmp_path)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """A folder where `allelse train` taught a small model to copy sentences of up to eight words.

    It copies nearly every sentence of ``dev``, and makes mistakes in those of ``test``, which are
    longer.
    """
    folder = tmp_path_factory.mktemp("trained").resolve()
    (folder / "runs").mkdir()
    shutil.copy(database, folder / "runs")
    for name, lines in (
        ("train", sentences(2000, 1, 8, seed=1)),
        ("dev", sentences(40, 1, 8, seed=2)),
        ("test", sentences(40, 9, 12, seed=3)),
    ):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    files = [f"data.{name}=[{name}.txt,{name}.txt]" for name in ("train", "dev", "test")]
    settings = [*(f"model.{word}" for word in MODEL), *(f"train.{word}" for word in TRAIN)]
    data = ["data=files", *files, "data.source=en", "data.target=de", "data.vocab_size=276"]
    often = ["train.checkpoint_every=100", "train.evaluate_every=200", "decode.average_every=100"]
    outcome = typed(
        folder, "train", "sweep.name=copies", *data, *settings, *often, "decode.max_extra=10"
    )
    assert outcome.exit_code == 0, outcome.output
    return folder


@pytest.fixture(scope="session")
def trial(trained: Path) -> Path:
    """Its folder."""
    return trained / "runs" / "copies" / "base-s1"


@pytest.fixture(scope="session")
def attempt(trial: Path) -> Path:
    """The checkpoints of its only attempt, below its key."""
    (folder,) = (trial / "checkpoints").glob("*/a1")
    return folder
