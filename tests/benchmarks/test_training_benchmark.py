"""The peer of the training benchmark is the same model."""

from dataclasses import replace

import torch

from benchmarks.peers import TorchTransformer
from benchmarks.timing import Rounds
from benchmarks.workloads import Size, drawn_pairs, workload
from transformer.data.vocabulary import PAD
from transformer.model.encoder_decoder import Transformer

TOY = Size(
    "toy",
    ("scale=tiny", "model.max_positions=64"),
    8000,
    tokens=600,
    batches=2,
    rounds=Rounds(2, 2),
)


def test_the_peer_with_our_weights_has_our_logits() -> None:
    work = workload(TOY, drawn_pairs(2000))
    model = replace(work.trial.model, p_drop=0.0)
    ours = Transformer(model, TOY.vocab_size)
    theirs = TorchTransformer(model, TOY.vocab_size)
    copy_weights(ours, theirs)
    batch = next(
        batch
        for batch in work.batches
        if (batch.source == PAD).any() and (batch.target == PAD).any()
    )
    with torch.no_grad():
        logits = ours.logits(ours(batch.source, batch.shifted))
        is_piece = batch.target != PAD
        torch.testing.assert_close(
            theirs(batch.source, batch.shifted)[is_piece], logits[is_piece], atol=1e-3, rtol=1e-3
        )


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: TorchTransformer) -> None:
    """All other weights start the same in both: norms as the identity, attention biases as zero."""
    theirs.embedding.weight.copy_(ours.embedding)
    for side in ("encoder", "decoder"):
        for layer, torch_layer in zip(
            getattr(ours, side), getattr(theirs.transformer, side).layers, strict=True
        ):
            torch_layer.self_attn.in_proj_weight.copy_(layer.attention.qkv.weight)
            torch_layer.self_attn.out_proj.weight.copy_(layer.attention.output.weight)
            torch_layer.linear1.load_state_dict(layer.feed_forward.inner.state_dict())
            torch_layer.linear2.load_state_dict(layer.feed_forward.outer.state_dict())
            if side == "decoder":
                cross = torch.cat([layer.cross.query.weight, layer.cross.kv.weight])
                torch_layer.multihead_attn.in_proj_weight.copy_(cross)
                torch_layer.multihead_attn.out_proj.weight.copy_(layer.cross.output.weight)
