"""What is the same in every vocabulary: the ids of the control pieces, and how SentencePiece learns."""

from typing import Any

PAD, UNK, BOS, EOS = 0, 1, 2, 3

OPTIONS: dict[str, Any] = {
    "model_type": "bpe",
    "character_coverage": 0.9995,
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "pad_id": PAD,
    "unk_id": UNK,
    "bos_id": BOS,
    "eos_id": EOS,
}
"""How SentencePiece learns every vocabulary. They are part of the data fingerprint."""
