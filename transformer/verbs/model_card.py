"""The README.md of an exported model: its size, use, scores, data and provenance."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from sweeps.task import Numbers, Trained
from transformer.card import CARD, signatures
from transformer.config import TrialConfig
from transformer.cost import parameters


class ExportKind(StrEnum):
    """A format, by its name in ``--to``."""

    ctranslate2 = "ctranslate2"
    safetensors = "safetensors"
    mlflow = "mlflow"


PENALTY = (
    "CTranslate2 divides log P by |Y|^α where the paper has ((5 + |Y|) / 6)^α: with a length penalty its translations "
    "differ a little from those that were scored. Without one, and in float32, they are those of `decode.alpha=0`, "
    "save where two are as likely or the longest output is reached."
)


@dataclass(frozen=True)
class ModelCard:
    """Of a trained trial with the settings of its export; ``example`` is a source line."""

    trial: Trained[TrialConfig]
    vocab_size: int
    example: str

    @property
    def config(self) -> TrialConfig:
        return self.trial.config

    def text(self, to: ExportKind) -> str:
        """The card in Markdown, for a model exported ``to`` this format."""
        sections = (self._head(), *self._use(to), *self._scores(), *self._data(), *self._provenance())
        return "\n\n".join(sections) + "\n"

    def _head(self) -> str:
        model, data = self.config.model, self.config.data
        size = f"{parameters(model, self.vocab_size) / 1e6:.3f}M"
        shape = f"N {model.n_layers}, d_model {model.d_model}, d_ff {model.d_ff}, h {model.n_heads}"
        shape += f", d_k {model.d_k}, d_v {model.d_v}, {model.positions}"
        what = f"A Transformer (Vaswani et al., 2017) that translates {data.source} to {data.target}"
        return f"# {self.trial.name}\n\n{what}: {size} parameters ({shape})."

    def _use(self, to: ExportKind) -> Iterable[str]:
        yield "## Use"
        match to:
            case ExportKind.safetensors:
                yield self._safetensors()
            case ExportKind.ctranslate2:
                yield self._ctranslate2()
                if self.config.decode.alpha:
                    yield PENALTY
            case ExportKind.mlflow:
                yield self._mlflow()
            case _:
                assert_never(to)

    def _safetensors(self) -> str:
        lines = (
            "from transformer.decoding.export import open_exported",
            'translator = open_exported(".")',
            f"print(*translator.translate([{_quoted(self.example)}]))",
        )
        return _code("python", lines)

    def _ctranslate2(self) -> str:
        decode = self.config.decode
        extra = decode.max_extra + 1  # end-of-sentence, which CTranslate2 adds to the source itself
        longest = f"min(len(source) + {extra}, {self.config.model.max_positions})"
        search = f"beam_size={decode.beam}, length_penalty={decode.alpha:g}"
        search += f", min_decoding_length=0, max_decoding_length={longest}"
        source = f"source := pieces.encode({_quoted(self.example)}, out_type=str)"
        opened = 'sentencepiece.SentencePieceProcessor(model_file="vocabulary.model"), ctranslate2.Translator(".")'
        lines = (
            "import ctranslate2, sentencepiece",
            f"pieces, translator = {opened}",
            f"print(pieces.decode(translator.translate_batch([{source}], {search})[0].hypotheses[0]))",
        )
        return _code("python", lines)

    def _mlflow(self) -> str:
        request = json.dumps({"inputs": [self.example]}, ensure_ascii=False).replace("'", "\\u0027")
        lines = (
            "mlflow models serve --model-uri . --env-manager local --port 5001",
            "curl http://127.0.0.1:5001/invocations --header 'Content-Type: application/json' \\",
            f"     --data '{request}'",
        )
        return _code("sh", lines)

    def _scores(self) -> Iterable[str]:
        yield "## Scores"
        decode = self.config.decode
        several = f"mean of {decode.average_checkpoints} checkpoints, {decode.average_every} steps apart"
        weights = several if decode.average_checkpoints > 1 else "last checkpoint"
        yield f"Of the {weights}; beam {decode.beam}, α {decode.alpha:g}, at most {decode.max_extra} extra pieces."
        scores = self.trial.scored
        if not scores:
            yield "Not measured with these settings: `allelse evaluate` does it."
            return
        lines = (_score_line(name, of_set) for name, of_set in scores.items())
        yield _table(["set", *(metric.label for metric in CARD.printed)], lines)
        yield "\n".join(f"- {label}: `{each}`" for label, each in signatures(scores.values()))

    def _data(self) -> Iterable[str]:
        data = self.config.data
        yield "## Data"
        vocabulary = f"one SentencePiece vocabulary of {self.vocab_size} pieces for both languages"
        fingerprint = self.trial.provenance["data_fingerprint"]
        yield f"{data.name}, {data.source} to {data.target}, {vocabulary}; fingerprint `{fingerprint}`."

    def _provenance(self) -> Iterable[str]:
        yield "## Provenance"
        yield _table(["", ""], ([name, value] for name, value in self._origin()))

    def _origin(self) -> Iterable[tuple[str, str]]:
        about, config = self.trial.provenance, self.config
        flops = about.get("flops") if self.trial.step == config.train.steps else None  # they are those of all steps
        spent = f", {flops:.2e} FLOPs".replace("e+", "e") if flops is not None else ""
        yield "trial key", f"`{about['key']}`"
        yield "trained", f"{self.trial.step} steps, seed {config.train.seed}{spent}"
        yield "code", f"{about.get('commit') or 'of no commit'}{_changes(about)}"
        yield "machine", f"{about.get('host')}, {about.get('device')}"
        versions = about.get("versions") or {}
        yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _score_line(name: str, scores: Numbers) -> list[str]:
    values = CARD.scores(scores).values
    return [name, *(metric.text(values[metric.name]) for metric in CARD.printed)]


def _changes(about: Mapping[str, Any]) -> str:
    """Of the code since its commit."""
    return f" with changes in {', '.join(about.get('changes') or ())}" if about.get("dirty") else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _code(language: str, lines: Iterable[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def _table(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
