"""The table of metrics. A new metric is one entry: checks of files, MLflow and printed tables follow from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tracking.formats import number


@dataclass(frozen=True)
class Metric:
    """One score of a set. Its value is None if it was not finite, or if an older version did not measure it."""

    name: str  # its key in result.json and statistics; `<set>/<name>` in MLflow
    label: str
    unit: str
    better: Literal["up", "down"]
    decimals: int
    of_translations: bool  # then every setting of `decode` changes it; otherwise only those of the weights do
    signature: str | None = None  # the key of its signature, if it has one
    printed: bool = True  # by `ablate evaluate` and in a model's card

    def text(self, value: float | None) -> str:
        return number(value, self.decimals)

    def best(self, values: Iterable[float | None]) -> float | None:
        """None without a finite value."""
        known = [value for value in values if value is not None]
        return (min if self.better == "down" else max)(known, default=None)


_ALL = (
    Metric("nll", "NLL", "nats per target piece, end-of-sentence included", "down", 4, False, printed=False),
    Metric("ppl", "PPL", "e^(nats per target piece), end-of-sentence included", "down", 2, False),
    Metric("bleu", "BLEU", "0 to 100", "up", 2, True, "signature"),
    Metric("bleu_paper", "BLEU paper", "0 to 100", "up", 2, True, "bleu_paper_signature"),
    Metric("chrf", "chrF", "0 to 100", "up", 2, True, "chrf_signature"),
)
METRICS = {metric.name: metric for metric in _ALL}
PRINTED = tuple(metric for metric in _ALL if metric.printed)


@dataclass(frozen=True)
class SetScores:
    """One set's scores, as `result.json` and the first line of `statistics/<set>.jsonl` hold them."""

    values: dict[str, float | None]  # of every metric, by name
    signatures: dict[str, str]  # by the metric's name
    decode: dict[str, Any]  # the settings of `decode` behind the scores

    @staticmethod
    def of(content: Mapping[str, Any]) -> "SetScores":
        """From JSON; {} means a set without scores."""
        signed = {name: content.get(metric.signature) for name, metric in METRICS.items() if metric.signature}
        return SetScores(
            {name: content.get(name) for name in METRICS},
            {name: signature for name, signature in signed.items() if signature is not None},
            content.get("decode", {}),
        )
