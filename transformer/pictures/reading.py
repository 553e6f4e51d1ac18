"""What a picture shows, as plain data: a sentence, its translation, and what was read of them."""

from dataclasses import dataclass

from transformer.pictures.words import Weights, Words


@dataclass(frozen=True)
class Pair:
    """The pieces of a sentence and of its translation, both with end-of-sentence.

    ``is_translation`` says whether the model wrote the target.
    """

    source: list[int]
    target: list[int]
    target_text: str
    is_translation: bool


@dataclass(frozen=True)
class Reading:
    """How much each query reads of each key, by layer and head: the last axis sums to 1."""

    queries: Words
    keys: Words
    weights_LHQK: Weights
