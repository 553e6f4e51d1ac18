"""How many blocks a batch consists of. Imports neither torch nor NumPy: plans need it, too."""

MOST_BLOCKS = 8
SMALLEST_BLOCK = 1_000
"""Fewest tokens per block.

In smaller blocks, a micro-batch's fixed cost would outweigh the gain of mixed lengths.
"""
SMALLEST_OF_TWO = 250
"""The same for a batch of only two blocks.

A batch of one block has sentences of one length, and learns far less per step.
"""


def blocks_per_batch(tokens_per_batch: int, max_positions: int) -> int:
    """The number of blocks in a batch. A pair of ``max_positions`` pieces must fit into each."""
    blocks = min(MOST_BLOCKS, tokens_per_batch // SMALLEST_BLOCK)
    if blocks < 2 and tokens_per_batch >= 2 * SMALLEST_OF_TWO:
        blocks = 2
    most_blocks = tokens_per_batch // max_positions
    return max(1, min(blocks, most_blocks))
