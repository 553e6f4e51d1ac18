"""A sign of life of this process: a count that its loops raise. Who watches it notices a hang.

A thread cannot give the sign, since it lives on while the loop hangs.
"""

_signs = 0


def alive() -> None:
    """One more batch, sentence or file is done. Cheap enough for the innermost loop."""
    global _signs
    _signs += 1


def signs() -> int:
    """How often this process was ``alive`` so far."""
    return _signs
