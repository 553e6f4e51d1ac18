"""The peers at our sizes, trained as their users would write it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.config import ModelConfig, TrialConfig
from transformer.data.batches import Batch
from transformer.data.vocabulary import BOS, EOS, PAD
from transformer.model.encoder_decoder import sinusoids
from transformer.training.state import learning_rate

BuildPeer = Callable[[ModelConfig, int], nn.Module]
"""A model whose forward takes source [B, S] and shifted target [B, T] pieces and gives logits [B,
T, P]."""


class TorchTransformer(nn.Module):
    """``torch.nn.Transformer`` between tied embeddings and projection, with the paper's
    positions."""

    positions: Tensor

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        d_model = config.d_model
        n_layers = config.n_layers
        self.scale = d_model**0.5
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", sinusoids(config.max_positions, d_model))
        self.dropout = nn.Dropout(config.p_drop)
        self.transformer = nn.Transformer(
            d_model,
            config.n_heads,
            n_layers,
            n_layers,
            config.d_ff,
            config.p_drop,
            "relu",
            batch_first=True,
        )
        self.projection = nn.Linear(d_model, vocab_size, bias=False)
        self.projection.weight = self.embedding.weight

    def forward(self, source: Tensor, shifted: Tensor) -> Tensor:
        pad = source == PAD
        length = shifted.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=shifted.device).triu(1)
        output = self.transformer(
            *(self._embed(source), self._embed(shifted)),
            **{"tgt_mask": later, "tgt_is_causal": True},
            **{"src_key_padding_mask": pad, "memory_key_padding_mask": pad},
        )
        logits: Tensor = self.projection(output)
        return logits

    def _embed(self, pieces: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(
            self.embedding(pieces) * self.scale + self.positions[: pieces.shape[1]]
        )
        return embedded


class Marian(nn.Module):
    """MarianMT of Hugging Face transformers, built from a configuration, without a download."""

    def __init__(self, config: ModelConfig, vocab_size: int, attention: str = "sdpa") -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        sizes: dict[str, Any] = {
            "vocab_size": vocab_size,
            "d_model": config.d_model,
            "dropout": config.p_drop,
        }
        for side in ("encoder", "decoder"):
            sizes |= {f"{side}_layers": config.n_layers, f"{side}_ffn_dim": config.d_ff}
            sizes |= {f"{side}_attention_heads": config.n_heads}
        pieces = {
            "pad_token_id": PAD,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "decoder_start_token_id": BOS,
        }
        marian = MarianConfig(
            **sizes,
            **pieces,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=config.max_positions,
            forced_eos_token_id=None,
            attn_implementation=attention,
        )
        self.marian = MarianMTModel(marian)

    def forward(self, source: Tensor, shifted: Tensor) -> Tensor:
        is_piece = source != PAD
        output = self.marian(
            input_ids=source, attention_mask=is_piece, decoder_input_ids=shifted, use_cache=False
        )
        logits: Tensor = output.logits
        return logits


def marian_with_explicit_attention(config: ModelConfig, vocab_size: int) -> Marian:
    return Marian(config, vocab_size, attention="eager")


class PeerTraining:
    """A peer's model and its Adam, stepped with our learning rates on our batches."""

    def __init__(
        self, build: BuildPeer, trial: TrialConfig, vocab_size: int, fused: bool | None = None
    ) -> None:
        torch.manual_seed(trial.train.seed)
        self.trial = trial
        self.steps = 0
        self.model = build(trial.model, vocab_size).train()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=fused
        )

    def step(self, batch: Batch, precision: str) -> Tensor:
        """One update; the loss in nats per target piece."""
        return self.step_on_blocks([batch], precision)

    def step_on_blocks(self, blocks: Sequence[Batch], precision: str) -> Tensor:
        """One update from all target pieces of the blocks; the loss in nats per target piece."""
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.trial.train, self.trial.model.d_model, self.steps)
        self.optimizer.zero_grad()
        targets = blocks[0].total_targets  # of all blocks together
        loss = torch.zeros(())
        for block in blocks:
            block_loss = self._summed_loss(block, precision) / targets
            block_loss.backward()
            loss += block_loss.detach()
        self.optimizer.step()
        return loss

    def _summed_loss(self, batch: Batch, precision: str) -> Tensor:
        smoothing = self.trial.train.label_smoothing
        gold = batch.target.flatten()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits = self.model(batch.source, batch.shifted).flatten(0, 1)
            return F.cross_entropy(
                logits, gold, ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
            )


def trained_parameters(model: nn.Module) -> int:
    """The number of trained parameters; a shared matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


class _Draws(TorchDispatchMode):
    """Counts operations that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        draws = torch.Tag.nondeterministic_seeded in func.tags
        # tagged even when it drops nothing
        self.count += draws and "scaled_dot_product" not in func.name()
        return func(*args, **(kwargs or {}))


def random_draws(forward: Callable[[], object]) -> int:
    """Number of random draws in a forward pass, one per dropout site of the program."""
    draws = _Draws()
    with draws:
        forward()
    return draws.count
