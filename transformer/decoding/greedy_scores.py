"""Scores while training: greedy translations of the first dev sentences, so that BLEU and chrF have curves.

They only observe: no random number is drawn, and the model is left as it was. They are not the final scores, which
come from beam search over all of dev, so they have names of their own.
"""

from dataclasses import dataclass, replace

from transformer.config import TrialConfig
from transformer.data.prepare import ParallelSet, Prepared, Sentences
from transformer.data.vocabulary import Vocabulary
from transformer.decoding.evaluate_set import translate_set
from transformer.decoding.score import text_scores
from transformer.decoding.translate import Translator
from transformer.finite import sentences_of
from transformer.model.encoder_decoder import Transformer
from transformer.training.meter import Metrics
from transformer.training.parallel import Worker

SENTENCES = 200
SCORES = ("bleu", "chrf")


@dataclass(frozen=True)
class GreedyScores:
    """What ``fit`` calls every ``train.score_every`` steps, on every worker: they share the sentences."""

    config: TrialConfig
    vocabulary: Vocabulary
    pairs: ParallelSet
    references: list[str]
    worker: Worker

    @staticmethod
    def of(config: TrialConfig, prepared: Prepared, worker: Worker) -> "GreedyScores":
        """For the first ``SENTENCES`` sentences of dev, or all of them if there are fewer."""
        pairs = _first(prepared.pairs("dev"), SENTENCES)
        return GreedyScores(config, prepared.vocabulary, pairs, prepared.references("dev")[: len(pairs)], worker)

    def __call__(self, model: Transformer) -> Metrics:
        """``dev_greedy/bleu`` and ``dev_greedy/chrf``, 0 to 100, on rank zero; the other workers get {}.

        ``model`` is in training mode afterwards. A stop request waits for the end, since all workers must leave
        training after the same step. Raises NotFiniteError.
        """
        greedy = replace(self.config.decode, beam=1)
        translator = Translator(model.eval(), self.vocabulary, greedy, self.config.train.precision)
        with sentences_of("dev"):
            hypotheses = translate_set(translator, self.pairs, self.worker.persistent)
        model.train()
        if not self.worker.is_rank_zero:
            return {}
        scores, _ = text_scores(hypotheses, self.references, self.config.data.target)
        return {f"dev_greedy/{name}": scores[name] for name in SCORES}


def _first(pairs: ParallelSet, size: int) -> ParallelSet:
    return ParallelSet(*(_first_sentences(side, size) for side in (pairs.source, pairs.target)))


def _first_sentences(sentences: Sentences, size: int) -> Sentences:
    offsets = sentences.offsets[: size + 1]
    return Sentences(sentences.pieces[: offsets[-1]], offsets)
