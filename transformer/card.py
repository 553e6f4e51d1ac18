"""Translation, as files and tables know it: Table 3 of "Attention Is All You Need"."""

from sweeps.task import Card, Metric

OF_WEIGHTS = ("average_checkpoints",)
"""The only setting of `decode` that changes the score of a reference."""

CARD = Card(
    name="translation",
    version=3,
    metrics=(
        Metric(
            *("nll", "NLL", "nats per target piece, end-of-sentence included", "down", 4),
            tabled=False,
            printed=False,
            changed_by=OF_WEIGHTS,
            from_counts=("ratio", "nats", "pieces"),
        ),
        Metric(
            *("ppl", "PPL", "e^(nats per target piece), end-of-sentence included", "down", 2),
            changed_by=OF_WEIGHTS,
            exp_of="nll",
            negligible=0.02,
            margin=0.02,
            from_counts=("exp_ratio", "nats", "pieces"),
        ),
        Metric(
            *("bleu", "BLEU", "0 to 100", "up", 2),
            table_decimals=1,  # as the paper prints it
            signature="signature",
            note="sacreBLEU's 13a (published BLEU, like bleu_paper in result.json, is on tokenized text)",
            negligible=0.1,
            margin=0.5,
            from_counts=("ngram_precision", "bleu"),
        ),
        Metric(
            *("bleu_paper", "BLEU paper", "0 to 100", "up", 2),
            tabled=False,
            signature="bleu_paper_signature",
            from_counts=("ngram_precision_unsmoothed", "bleu_paper"),
        ),
        Metric(
            *("chrf", "chrF", "0 to 100", "up", 2),
            tabled=False,
            signature="chrf_signature",
            from_counts=("ngram_f", "chrf"),
        ),
    ),
    symbols={
        "n_layers": "N",
        "d_model": "d_model",
        "d_ff": "d_ff",
        "n_heads": "h",
        "d_k": "d_k",
        "d_v": "d_v",
        "p_drop": "P_drop",
        "label_smoothing": "ε_ls",
        "steps": "steps",
    },
    change_phrases={"positions": "{value} positional embedding"},
    setting_phrases={
        "beam": "beam {value}",
        "alpha": "α {value}",
        "average_checkpoints=1": "last checkpoint",
        "average_checkpoints": "mean of the last {value} checkpoints",
    },
    scoring_group="decode",
    groups=("model", "train", "decode", "data"),
    artifacts=("hypotheses",),
    cost_notes={"seconds": "measured", "params": "computed", "flops": "computed from the real lengths"},
    millions=True,
    published_note=(
        "Published values come from another vocabulary and corpus: compare the differences, not the values."
    ),
    tags="table3",
    sample="sentence",
)
