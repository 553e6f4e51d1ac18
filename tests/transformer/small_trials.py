"""Small models, trials and sets of pieces, quick to compute or simple enough to check by hand."""

import random
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from transformer.config import DataConfig, DecodeConfig, ModelConfig, TrainConfig, TrialConfig
from transformer.data.batches import Batch, TrainingBatches
from transformer.data.prepared import ParallelSet, Prepared, Sentences, prepare
from transformer.data.vocabulary import EOS, PAD
from transformer.model.encoder_decoder import DecoderLayer, Transformer

PAPER_BASE = ModelConfig(
    n_layers=6,
    d_model=512,
    d_ff=2048,
    n_heads=8,
    d_k=64,
    d_v=64,
    p_drop=0.1,
    positions="sinusoids",
    max_positions=512,
    attention_bias=False,
    attention_dropout=0.0,
    relu_dropout=0.0,
)
SMALL = replace(
    PAPER_BASE,
    n_layers=2,
    d_model=16,
    d_ff=24,
    n_heads=2,
    d_k=6,
    d_v=10,
    p_drop=0.0,
    max_positions=40,
)
TRAIN = TrainConfig(
    steps=10,
    warmup_steps=10,
    lr_factor=1.0,
    tokens_per_batch=120,
    label_smoothing=0.1,
    precision="fp32",
    seed=1,
    log_every=5,
    evaluate_every=5,
    checkpoint_every=5,
    keep_checkpoints=2,
)
DECODE = DecodeConfig(beam=4, alpha=0.6, max_extra=10, average_checkpoints=1, average_every=1)
SYNTHETIC = DataConfig("synthetic", "en", "de", 1000, None, None, None, None)


def small_model(vocab_size: int = 30, seed: int = 1, **changes: Any) -> Transformer:
    """``SMALL`` with these changes, in evaluation mode, with weights drawn from ``seed``."""
    torch.manual_seed(seed)
    return Transformer(replace(SMALL, **changes), vocab_size).eval()


class DamagedTransformer(Transformer):
    """The encoder's output is NaN for every source of more than ``longest`` pieces, end-of-sentence
    included."""

    longest = 0

    def _encode(self, source_BS: Tensor, source_mask: Tensor | None) -> Tensor:
        too_long_B = (source_BS != PAD).sum(1) > self.longest
        return (
            super()
            ._encode(source_BS, source_mask)
            .masked_fill(too_long_B[:, None, None], torch.nan)
        )


def damaged_model(vocab_size: int = 30, longest: int = 6) -> Transformer:
    torch.manual_seed(1)
    model = DamagedTransformer(SMALL, vocab_size)
    model.longest = longest
    return model.eval()


def small_trial(
    data: DataConfig = SYNTHETIC,
    model: ModelConfig = SMALL,
    decode: DecodeConfig = DECODE,
    **train: Any,
) -> TrialConfig:
    return TrialConfig(model, replace(TRAIN, **train), decode, data)


def last_norm(model: Transformer) -> nn.LayerNorm:
    """The last LayerNorm of the decoder, which scales every logit."""
    return cast(DecoderLayer, model.decoder[-1]).feed_forward_residual.norm


def random_pieces(lengths: Sequence[int], vocab_size: int = 30, seed: int = 1) -> Sentences:
    """Sentences of these lengths, each ending with end-of-sentence."""
    drawn = np.random.default_rng(seed)
    sentences = [np.append(drawn.integers(4, vocab_size, length - 1), EOS) for length in lengths]
    return Sentences(
        np.concatenate(sentences).astype(np.int32),
        np.cumsum([0, *map(len, sentences)], dtype=np.int64),
    )


def random_pairs(size: int, longest: int = 20, vocab_size: int = 30, seed: int = 1) -> ParallelSet:
    """Pairs whose two sides have nearly the same random length."""
    drawn = random.Random(seed)
    lengths = [drawn.randint(2, longest) for _ in range(size)]
    target_lengths = [min(longest, max(2, length + drawn.randint(-2, 2))) for length in lengths]
    return ParallelSet(
        random_pieces(lengths, vocab_size, seed),
        random_pieces(target_lengths, vocab_size, seed + 1),
    )


def share(batches: TrainingBatches, step: int, rank: int = 0, world: int = 1) -> Batch:
    """A worker's share of a batch of one block, in one micro-batch."""
    (batch,) = batches.micro_batches(step, rank, world, tokens_per_micro_batch=25_000)
    return batch


def letters(size: int, alphabet: str, longest: int, seed: int) -> list[str]:
    """Sentences of random one-letter words, all different."""
    drawn = random.Random(seed)
    texts = dict[str, None]()
    while len(texts) < size:
        texts[" ".join(drawn.choices(alphabet, k=drawn.randint(1, longest)))] = None
    return list(texts)


def copy_data(
    folder: Path, sizes: tuple[int, int, int], alphabet: str, longest: int, vocab_size: int
) -> DataConfig:
    """Files whose target is their source; the three sets share no sentence."""
    sentences = letters(sum(sizes), alphabet, longest, seed=1)
    start = 0
    files: dict[str, Any] = {}
    for split, size in zip(("train", "dev", "test"), sizes, strict=True):
        path = folder / f"{split}.txt"
        path.write_text("".join(f"{line}\n" for line in sentences[start : start + size]), "utf-8")
        files[split] = [str(path), str(path)]
        start += size
    return DataConfig("files", "letters", "letters", vocab_size, None, **files)


def lines_of(lines: list[str]) -> bytes:
    """The content of a text file with these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def files_data(folder: Path, vocab_size: int, **sets: tuple[list[str], list[str]]) -> DataConfig:
    """``data=files`` with these lines of source and target, in files such as ``dev.source``."""
    files: dict[str, Any] = {}
    for split, sides in sets.items():
        files[split] = [str(folder / f"{split}.source"), str(folder / f"{split}.target")]
        for name, lines in zip(files[split], sides, strict=True):
            Path(name).write_bytes(lines_of(lines))
    return DataConfig("files", "en", "de", vocab_size, None, **files)


def untold(step: str, share: float | None) -> None:
    """Nothing is shown."""


def prepared_text(data: DataConfig, folder: Path) -> Prepared:
    """The corpus, prepared in a new folder below this one."""
    prepared_folder = Path(tempfile.mkdtemp(dir=folder))
    prepare(data, prepared_folder, untold)
    return Prepared(prepared_folder)


def free_address() -> str:
    """A free address for a worker group on this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"
