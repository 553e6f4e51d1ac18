"""Evaluates a trained model on one set: perplexity of the references, and scores of the model's translation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    """Scores with their signatures, the hypotheses, and of each sentence what the scores follow from.

    An entry of ``samples`` has ``nats`` and ``pieces`` of the reference, and the counts of ``score.text_scores``.
    """

    scores: dict[str, Any]
    hypotheses: list[str]
    samples: list[dict[str, Any]]


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
    found = dict(worker.gather_unless_stopped(_own_hypotheses(translator, pairs, worker)))
    if lost := [place for place, best in found.items() if best is None]:
        raise NotFiniteError(lost)
    return best_texts(translator.vocabulary, [best for _, best in sorted(found.items()) if best is not None])


def _own_hypotheses(
    translator: Translator, pairs: ParallelSet, worker: Worker
) -> Iterator[tuple[int, Hypothesis | None]]:
    """The number and the best hypothesis of each sentence of this worker's share. At NaN it ends with None for the
    sentences of that batch: the other workers must learn of them, or they would wait for the rest."""
    try:
        for place, hypotheses in search(translator, pairs.source, worker.rank, worker.world, n_best=1):
            yield place, hypotheses[0]
    except NotFiniteError as error:
        yield from ((place, None) for place in error.places)
