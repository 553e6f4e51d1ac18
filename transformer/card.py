"""The metrics and words of translation, as files and tables use them, in the paper's terms."""

from collections.abc import Iterable, Mapping
from typing import Any

from sweeps.task import Card, Metric, Numbers
from transformer.config import SEMANTICS, TRAIN_SAMPLE

OF_WEIGHTS = ("average_checkpoints", "average_every")
"""The settings of `decode` that change the score of a reference."""
OF_SEARCH = ("beam", "alpha", "max_extra", *OF_WEIGHTS)
"""The settings of `decode` that change the translations."""
TOKENIZER = "bleu_tokenizer"
PIECES = "pieces"
"""Among the scores of a set: a digest of the vocabulary's pieces and of those of the set."""
ARCHITECTURE = ("n_layers", "d_model", "d_ff", "n_heads")
LAYERS = ("encoder_layer", "kernel", "dilation", "attention_window", "attention_score", "positions")
"""The keys that a row's words name last, in this order."""
PHRASES = {
    "positions": {"learned": "learned positional embedding instead of sinusoids"},
    "attention_score": {
        "scaled": "scaled dot-product scores",
        "dot": "dot-product scores without the scale",
        "additive": "additive scores",
    },
    "encoder_layer": {
        "attention": "self-attention in the encoder",
        "recurrent": "recurrent encoder layers",
        "convolutional": "convolutional encoder layers",
        "separable": "separable convolutions in the encoder",
    },
}
"""The words for a value of a key, where symbol and value would not say it."""

PUBLISHED_BLEU = "published BLEU, like bleu_paper in result.json, is on tokenized text"
BLEU_NOTE = f"sacreBLEU's {{bleu_tokenizer:13a}} ({PUBLISHED_BLEU})"
RANKED_FIRST = "target pieces that the model ranks first after the gold pieces before them"
ACCURACY_UNIT = f"share of {RANKED_FIRST}, 0 to 1"

CARD = Card(
    name="translation",
    version=SEMANTICS,
    metrics=(
        Metric(
            name="nll",
            label="NLL",
            unit="nats per target piece, end-of-sentence included",
            better="down",
            decimals=4,
            tabled=False,
            printed=False,
            changed_by=OF_WEIGHTS,
            within=PIECES,
            from_counts=("ratio", "nats", "pieces"),
        ),
        Metric(
            name="ppl",
            label="PPL",
            unit="e^(nats per target piece), end-of-sentence included",
            better="down",
            decimals=2,
            changed_by=OF_WEIGHTS,
            within=PIECES,
            exp_of="nll",
            negligible=0.02,
            agrees_within=0.02,
            from_counts=("exp_ratio", "nats", "pieces"),
        ),
        Metric(
            name="bleu",
            label="BLEU",
            unit="0 to 100",
            better="up",
            decimals=2,
            table_decimals=1,  # as the paper prints it
            signature="signature",
            changed_by=(*OF_SEARCH, TOKENIZER),
            note=BLEU_NOTE,
            negligible=0.1,
            agrees_within=0.5,
            from_counts=("ngram_precision", "bleu"),
        ),
        Metric(
            name="bleu_paper",
            label="BLEU paper",
            unit="0 to 100",
            better="up",
            decimals=2,
            tabled=False,
            signature="bleu_paper_signature",
            changed_by=OF_SEARCH,
            published_as="bleu",  # the paper's BLEU was counted this way
            negligible=0.1,
            agrees_within=0.5,
            from_counts=("ngram_precision_unsmoothed", "bleu_paper"),
        ),
        Metric(
            name="chrf",
            label="chrF",
            unit="0 to 100",
            better="up",
            decimals=2,
            tabled=False,
            signature="chrf_signature",
            changed_by=OF_SEARCH,
            from_counts=("ngram_f", "chrf"),
        ),
        Metric(
            name="accuracy",
            label="accuracy",
            unit=ACCURACY_UNIT,
            better="up",
            decimals=4,
            tabled=False,
            changed_by=OF_WEIGHTS,
            within=PIECES,
            from_counts=("ratio", "right", "pieces"),
        ),
    ),
    symbols={  # those of the schema, in the order of the table's columns
        "n_layers": "N",
        "d_model": "d_model",
        "d_ff": "d_ff",
        "n_heads": "h",
        "d_k": "d_k",
        "d_v": "d_v",
        "kernel": "k",
        "attention_window": "r",
        "p_drop": "P_drop",
        "label_smoothing": "ε_ls",
        "steps": "steps",
        "adam_beta1": "β₁",
        "adam_beta2": "β₂",
        "adam_epsilon": "ε",
    },
    change_phrases={
        "positions": "{value} positional embedding",
        "attention_score": "{value} scores",
        "encoder_layer": "{value} encoder layers",
    },
    setting_phrases={
        "beam": "beam {value}",
        "alpha": "α {value}",
        "average_checkpoints=1": "last checkpoint",
        "average_checkpoints": "mean of the last {value} checkpoints",
    },
    scoring={
        **{f"decode.{name}": name for name in (*OF_SEARCH, TRAIN_SAMPLE)},
        f"data.{TOKENIZER}": TOKENIZER,
    },
    groups=("model", "train", "decode", "data"),
    artifacts=("hypotheses",),
    sets_without_artifacts=(TRAIN_SAMPLE,),
    cost_notes={
        "seconds": "measured",
        "params": "computed",
        "flops": "computed from the real lengths",
    },
    millions=True,
    published_note=(
        "Published values come from another vocabulary and corpus: compare the differences, "
        "not the values."
    ),
    tags="table3",
    sample="sentence",
)


def signatures(scores: Iterable[Numbers]) -> list[tuple[str, str]]:
    """Pairs of a metric's label and its signature in the sets' scores; each pair once.

    The metrics keep the order of the card.
    """
    signatures_by_set = [CARD.scores(set_scores).signatures for set_scores in scores]
    pairs: list[tuple[str, str]] = []
    for metric in CARD.metrics:
        for set_signatures in signatures_by_set:
            if metric.name in set_signatures:
                pairs.append((metric.label, set_signatures[metric.name]))
    return list(dict.fromkeys(pairs))


def words(values: Mapping[str, Any]) -> str:
    """A row's changed values by short name, as text such as "h 4, d_k = d_v = 16"."""
    changed = dict(values)
    heads = []
    if {"d_k", "d_v"} <= changed.keys() and changed["d_k"] == changed["d_v"]:
        del changed["d_k"]
        heads = [f"d_k = d_v = {changed.pop('d_v')}"]
    layers = [_phrase(name, changed.pop(name)) for name in LAYERS if name in changed]
    names = [name for name in dict.fromkeys([*CARD.symbols, *changed]) if name in changed]
    architecture = [_phrase(name, changed[name]) for name in names if name in ARCHITECTURE]
    training = [_phrase(name, changed[name]) for name in names if name not in ARCHITECTURE]
    return ", ".join([*architecture, *heads, *training, *layers])


def _phrase(name: str, value: Any) -> str:
    """The symbol and the value, such as "P_drop 0.1"; or words for the value."""
    if name in PHRASES:
        return PHRASES[name].get(str(value), str(value))
    if name == "attention_window" and value is not None:
        return f"self-attention within r = {value} positions, in encoder and decoder"
    if name == "steps" and isinstance(value, int):
        return f"{value // 1000}K steps" if value % 1000 == 0 else f"{value} steps"
    return f"{CARD.symbols.get(name, name)} {value}"
