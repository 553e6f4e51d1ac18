"""What training minimises and what perplexity is made of (section 5.4)."""

from torch import Tensor
from torch.nn import functional as F

from transformer.data.pieces import PAD
from transformer.model.encoder_decoder import Transformer


def summed_loss(model: Transformer, output_BTD: Tensor, target_BT: Tensor, label_smoothing: float) -> Tensor:
    """Cross-entropy in nats, summed over the target pieces that are not padding; float32.

    Label smoothing puts 1 − ε on the gold piece and ε/(P − 1) on each of the other P − 1 pieces. torch spreads
    its ε over all P pieces, the gold one included, so it is given ε·P/(P − 1).
    """
    real = target_BT != PAD
    logits = model.logits(output_BTD[real]).float()
    spread = label_smoothing * model.vocab_size / (model.vocab_size - 1)
    return F.cross_entropy(logits, target_BT[real], label_smoothing=spread, reduction="sum")
