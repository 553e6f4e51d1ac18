"""Evaluates a trained model on one set: perplexity of the references, and scores of the model's translation."""

from dataclasses import dataclass
from typing import Any

from sweeps.task import settled
from transformer.data.prepare import ParallelSet, Prepared
from transformer.decoding.score import text_scores
from transformer.decoding.search import Hypothesis
from transformer.decoding.translate import Translator, best_texts, search
from transformer.finite import NotFiniteError, sentences_of
from transformer.training.parallel import Worker
from transformer.training.perplexity import mean_nll, perplexity, sentence_nats


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


@dataclass(frozen=True)
class SetEvaluation:
    """Scores with their signatures and decode settings, the hypotheses, and the statistics of each sentence.

    An entry of ``statistics`` has ``nats`` and ``pieces`` of the reference, and the counts of ``score.text_scores``.
    """

    scores: dict[str, Any]
    hypotheses: list[str]
    statistics: list[dict[str, Any]]


def evaluate_set(translator: Translator, evaluated: EvaluationSet, worker: Worker) -> SetEvaluation | None:
    """Evaluate on one set; the workers share the work, and rank zero gets the scores. Raises NotFiniteError."""
    with sentences_of(evaluated.name), translator.efficient():
        nats = sentence_nats(translator.model, evaluated.pairs, translator.precision, worker)
        hypotheses = translate_set(translator, evaluated.pairs, worker)
    if not worker.is_rank_zero:
        return None
    nll = mean_nll(nats, evaluated.pairs)
    words, counts = text_scores(hypotheses, evaluated.references, evaluated.language)
    scores = {"nll": nll, "ppl": perplexity(nll), **words, "decode": settled(translator.decode)}
    lines = zip(nats, evaluated.pairs.target.lengths.tolist(), counts, strict=True)
    return SetEvaluation(scores, hypotheses, [{"nats": n, "pieces": m, **each} for n, m, each in lines])


def translate_set(translator: Translator, pairs: ParallelSet, worker: Worker) -> list[str]:
    """The best hypothesis of every sentence, in order, as text on one line; on every worker.

    Raises StopRequested. Raises NotFiniteError on every worker at once, since the others would wait for a missing one.
    """
    found, lost = list[tuple[int, Hypothesis]](), list[int]()
    try:
        for place, best in search(translator, pairs.source, worker.rank, worker.world, n_best=1):
            worker.raise_if_stopped()
            found.append((place, best[0]))
    except NotFiniteError as error:
        lost = error.places
    shares = worker.gather((found, lost))
    if all_lost := [place for _, lost in shares for place in lost]:
        raise NotFiniteError(all_lost)
    everything = sorted(item for found, _ in shares for item in found)
    return best_texts(translator.vocabulary, [best for _, best in everything])
