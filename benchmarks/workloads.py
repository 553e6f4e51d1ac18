"""Training workloads: sizes of the model, and the same seeded batches for every program."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.timing import Rounds
from sweeps.config.settings import Settings
from sweeps.config.tasks import load_task
from sweeps.planning.study_rows.compose import compose_row
from sweeps.planning.study_rows.task_choice import library_of
from sweeps.problems import Problem, RefusedError
from sweeps.worker.prepared import TaskData
from transformer.config import TrialConfig
from transformer.cost import Lengths, training_flops
from transformer.data.batches import Batch, by_length, collate, cut
from transformer.data.prepared import ParallelSet, Prepared, Sentences
from transformer.data.vocabulary import EOS

SEED = 1
PAIRS = 29_000
VOCAB_SIZE = 8000  # of the text; a model with more pieces reads the same batches
SHORTEST = 4
LONGEST = 60


@dataclass(frozen=True)
class Size:
    """A model, the batches of one round, and the number of rounds.

    ``words`` are overrides as for `allelse train`; ``tokens`` bounds sentences × longest side of a
    batch.
    """

    name: str
    words: tuple[str, ...]
    vocab_size: int
    tokens: int
    batches: int
    rounds: Rounds


SIZES = (
    Size("base", ("scale=paper",), 8000, tokens=1500, batches=1, rounds=Rounds(3, 5, seconds=180)),
    Size(
        "base-37k",
        ("scale=paper",),
        37000,
        tokens=1000,
        batches=1,
        rounds=Rounds(3, 5, seconds=150),
    ),
    Size("small", ("scale=half",), 8000, tokens=2000, batches=2, rounds=Rounds(3, 5, seconds=95)),
)


@dataclass(frozen=True)
class Workload:
    """A size with its trial, whose precision is fp32, and its batches."""

    size: Size
    trial: TrialConfig
    batches: list[Batch]

    @property
    def targets(self) -> int:
        """Target pieces of one round, padding not counted."""
        return sum(batch.total_targets for batch in self.batches)

    @property
    def flops(self) -> float:
        """Model FLOPs of one round, forward and backward, padding not counted."""
        lengths = sum((batch.lengths for batch in self.batches), Lengths())
        return training_flops(self.trial.model, self.size.vocab_size, lengths)


def settings_of(words: list[str]) -> Settings:
    """The settings of the row that these overrides name."""
    return compose_row(words, library_of(words, Path.cwd())).rows[0].settings


def workload(size: Size, pairs: ParallelSet) -> Workload:
    """Batches at even distances in an epoch sorted by length: one is the median, two are the
    quartiles."""
    words = [
        *size.words,
        "train.precision=fp32",
        f"train.tokens_per_batch={size.tokens}",
        f"train.seed={SEED}",
    ]
    trial = settings_of(words).config
    epoch = cut(pairs, by_length(pairs, np.arange(len(pairs))), size.tokens)
    chosen = [epoch[(2 * i + 1) * len(epoch) // (2 * size.batches)] for i in range(size.batches)]
    return Workload(size, trial, [collate(pairs, indices) for indices in chosen])


def read_pairs(folder: Path) -> ParallelSet:
    """The training text of Multi30k from the files in ``folder``; prepared once, into
    ``paths.data``."""
    if not folder.is_dir():
        raise RefusedError(
            [Problem("--data", f"is {folder}", "must be the folder of Multi30k's files")]
        )
    settings = settings_of(["data=multi30k", f"data.mirror='{folder}'"])
    return prepared_text(settings.config, Path(settings.paths.data)).pairs("train")


def prepared_text(trial: TrialConfig, folder: Path) -> Prepared:
    """The trial's corpus, prepared once below ``folder`` as a sweep does it."""
    task = load_task("translation", Path.cwd())
    return Prepared(TaskData(task, folder, task.fingerprint(trial)).open([trial]))


def drawn_pairs(
    size: int = PAIRS,
    ln_source: tuple[float, float] = (2.685, 0.296),
    ln_ratio: tuple[float, float] = (0.024, 0.171),
    vocab_size: int = VOCAB_SIZE,
    longest: int = LONGEST,
) -> ParallelSet:
    """Random pieces in sentences whose lengths are lognormal: mean and sd of ln source and of ln
    (target / source).

    By default they are as long as Multi30k's: fitted to its 29 000 pairs in 8 000 pieces.
    """
    random = np.random.default_rng(SEED)
    source = np.exp(random.normal(*ln_source, size))
    target = source * np.exp(random.normal(*ln_ratio, size))
    sides = []
    for lengths in (source, target):
        offsets = np.cumsum([0, *np.clip(np.round(lengths), SHORTEST, longest).astype(np.int64)])
        pieces = random.integers(EOS + 1, vocab_size, offsets[-1], dtype=np.int32)
        pieces[offsets[1:] - 1] = EOS
        sides.append(Sentences(pieces, offsets))
    return ParallelSet(*sides)
