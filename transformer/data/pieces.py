"""The ids of the pieces that are not text, in every vocabulary."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
