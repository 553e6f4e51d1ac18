"""A trained model on one set: perplexity of the references, and scores of the model's translation.

While training, greedy translations of the first dev sentences give BLEU and chrF curves. They only observe: no random
number is drawn, and the model is left as it was. The final scores come from beam search over all of dev, so these have
names of their own.
"""

from dataclasses import dataclass, replace
from typing import Any

from transformer.config import TrialConfig
from transformer.data.prepared import ParallelSet, Prepared, Sentences
from transformer.data.vocabulary import Vocabulary
from transformer.decoding.score import read_set, text_scores
from transformer.decoding.translator import Translator, best_texts, search
from transformer.faults import Problem, RefusedError, sentences_of
from transformer.model.encoder_decoder import Transformer
from transformer.training.loss import mean_nll, perplexity, sentence_nats
from transformer.training.meter import TrainingMetrics
from transformer.training.worker_group import Worker


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences with references. ``references`` is the original target text, ``language`` its language."""

    name: str
    pairs: ParallelSet
    references: list[str]
    language: str

    @staticmethod
    def of(prepared: Prepared, name: str, language: str) -> "EvaluationSet":
        return EvaluationSet(name, prepared.pairs(name), prepared.references(name), language)

    @staticmethod
    def of_sacrebleu(name: str, vocabulary: Vocabulary, config: TrialConfig) -> "EvaluationSet":
        """A test set of sacreBLEU in the languages of a trial. Raises RefusedError."""
        data, longest = config.data, config.model.max_positions
        sides = read_set(name, data.source, data.target)
        pairs = ParallelSet(*(Sentences.of(vocabulary.encode(lines)) for lines in sides))
        if (found := int(pairs.longest_sides.max())) > longest:
            allowed = f"must fit into the {longest} positions of the model"
            raise RefusedError([Problem("--set", f"{name} has a sentence of {found} pieces", allowed)])
        return EvaluationSet(name, pairs, sides[1], data.target)


@dataclass(frozen=True)
class SetEvaluation:
    """Scores with their signatures, the hypotheses, and of each sentence what the scores follow from.

    An entry of ``samples`` has ``nats`` and ``pieces`` of the reference, and the counts of ``score.text_scores``.
    """

    scores: dict[str, Any]
    hypotheses: list[str]
    samples: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """The hypotheses, one per line."""
        return "".join(f"{line}\n" for line in self.hypotheses)


def evaluate_set(translator: Translator, evaluated: EvaluationSet, worker: Worker) -> SetEvaluation | None:
    """Evaluate on one set; the workers share the work, and rank zero gets the scores.

    Raises NotFiniteError and StopRequested, on every worker.
    """
    with sentences_of(evaluated.name), translator.efficient():
        nats = sentence_nats(translator.model, evaluated.pairs, translator.precision, worker)
        hypotheses = translate_set(translator, evaluated.pairs, worker)
    if not worker.is_rank_zero:
        return None
    nll = mean_nll(nats, evaluated.pairs)
    words, counts = text_scores(hypotheses, evaluated.references, evaluated.language)
    scores = {"nll": nll, "ppl": perplexity(nll), **words}
    lines = zip(nats, evaluated.pairs.target.lengths.tolist(), counts, strict=True)
    return SetEvaluation(scores, hypotheses, [{"nats": n, "pieces": m, **each} for n, m, each in lines])


def translate_set(translator: Translator, pairs: ParallelSet, worker: Worker) -> list[str]:
    """The best hypothesis of every sentence, in order, as text on one line; on every worker.

    Raises NotFiniteError and StopRequested, on every worker.
    """
    found = search(translator, pairs.source, worker.rank, worker.world, n_best=1)
    best = worker.gather_sentences((place, hypotheses[0]) for place, hypotheses in found)
    return best_texts(translator.vocabulary, best)


SENTENCES = 200
GREEDY_SCORES = ("bleu", "chrf")


def greedy_scores(config: TrialConfig, prepared: Prepared, worker: Worker, model: Transformer) -> TrainingMetrics:
    """``dev_greedy/bleu`` and ``dev_greedy/chrf``, 0 to 100, of the first ``SENTENCES`` of dev; {} except on rank zero.

    The workers share the sentences. ``model`` is in training mode afterwards. A stop request waits for the end, since
    all workers must leave training after the same step. Raises NotFiniteError.
    """
    pairs = prepared.pairs("dev").first(SENTENCES)
    greedy = replace(config.decode, beam=1)
    translator = Translator(model.eval(), prepared.vocabulary, greedy, config.train.precision)
    with sentences_of("dev"):
        hypotheses = translate_set(translator, pairs, worker.persistent)
    model.train()
    if not worker.is_rank_zero:
        return {}
    scores, _ = text_scores(hypotheses, prepared.references("dev")[: len(pairs)], config.data.target)
    return {f"dev_greedy/{name}": scores[name] for name in GREEDY_SCORES}
