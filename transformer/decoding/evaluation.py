"""A trained model on one set: perplexity of the references; BLEU, BLEU as the paper counted it, and
chrF of its output.

The counts of each score are kept per sentence. A set's score depends only on their sums, so
differences can be tested later without decoding again. While training, greedy translations of the
first dev sentences give BLEU and chrF curves. They only observe: no random number is drawn, and the
model is left as it was. The final scores come from beam search over all of dev, so these have names
of their own.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sacrebleu
import sacremoses

from transformer.bleu_tokenizer import USUAL
from transformer.config import TRAIN_SAMPLE, TrialConfig
from transformer.data.corpora import read_pairs
from transformer.data.prepared import ParallelSet, Prepared, Sentences
from transformer.data.sacrebleu_sets import set_files
from transformer.data.train_sample import train_sample
from transformer.data.vocabulary import Vocabulary
from transformer.decoding.translator import Translator, best_texts, search
from transformer.faults import Fault, FaultyError, sentences_of
from transformer.model.encoder_decoder import Transformer
from transformer.training.loss import likelihoods, mean_nll, perplexity, token_accuracy
from transformer.training.meter import TrainingMetrics
from transformer.training.worker_group import Worker

Counts = list[int]
"""Counts of one sentence. BLEU: its length, the reference's, matching 1- to 4-grams, all 1- to
4-grams. chrF: for each order 1 to 6, character n-grams of the hypothesis, of the reference, and in
both."""
DIGEST_DIGITS = 16
SENTENCES = 200
"""Sentences of dev that are translated greedily during training."""
GREEDY_SCORES = ("bleu", "chrf")
"""The scores of these translations."""


class Scored(NamedTuple):
    """A set's score with its signature, and the counts of each sentence that it follows from."""

    score: float
    signature: str
    counts: list[Counts]


def text_scores(
    hypotheses: list[str], references: list[str], language: str, tokenizer: str = USUAL
) -> tuple[dict[str, Any], list[dict[str, Counts]]]:
    """Scores of a set with their signatures, and the counts of each sentence behind ``bleu``,
    ``bleu_paper``, ``chrf``.

    BLEU is sacreBLEU's with ``tokenizer``, cased and detokenized. ``bleu_paper`` is the usual
    evaluation of the paper's time: cased, tokenized by Moses' rules for ``language`` (English rules
    if Moses has none), compounds split at hyphens.
    """
    bleu = _scored(sacrebleu.BLEU(tokenize=tokenizer), hypotheses, references)
    chrf = _scored(sacrebleu.CHRF(), hypotheses, references)
    bleu_paper = _scored_as_in_the_paper(hypotheses, references, language)
    scores = {
        "signature": bleu.signature,
        "bleu": bleu.score,
        "chrf": chrf.score,
        "chrf_signature": chrf.signature,
        "bleu_paper": bleu_paper.score,
        "bleu_paper_signature": bleu_paper.signature,
    }
    counts = []
    for bleu_counts, paper_counts, chrf_counts in zip(
        bleu.counts, bleu_paper.counts, chrf.counts, strict=True
    ):
        counts.append({"bleu": bleu_counts, "bleu_paper": paper_counts, "chrf": chrf_counts})
    return scores, counts


def _scored(metric: Any, hypotheses: list[str], references: list[str]) -> Scored:
    """Like ``corpus_score``, but also returns the counts of each sentence."""
    counts = metric._extract_corpus_statistics(hypotheses, [references])
    score = metric._aggregate_and_compute(counts).score
    return Scored(score, str(metric.get_signature()), counts)


def _scored_as_in_the_paper(hypotheses: list[str], references: list[str], language: str) -> Scored:
    """BLEU of tokens, with compounds split at hyphens; the signature says so."""
    moses = sacremoses.MosesTokenizer(lang=language)
    # force: do not warn of tokenized text
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    split_hypotheses = [_split_compounds(moses, line) for line in hypotheses]
    split_references = [_split_compounds(moses, line) for line in references]
    scored = _scored(metric, split_hypotheses, split_references)
    tokenization = f"moses:{sacremoses.__version__}|lang:{language}|hyphens:##AT##-##AT##"
    return scored._replace(signature=f"{scored.signature}|{tokenization}")


def _split_compounds(moses: Any, line: str) -> str:
    """Tokens; a hyphen inside a word becomes a separate token."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", moses.tokenize(line, return_str=True))


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences with references. ``references`` is the original target text, ``language`` its
    language, and ``tokenizer`` that of BLEU. Without references, only perplexity and accuracy are
    measured."""

    name: str
    pairs: ParallelSet
    references: list[str] | None
    language: str
    tokenizer: str = USUAL

    @staticmethod
    def of(prepared: Prepared, name: str, config: TrialConfig) -> "EvaluationSet":
        """A set of the trial's data, or a sample of its training pairs."""
        data = config.data
        if name == TRAIN_SAMPLE:
            _, longest_pair = config.length_limit
            sample = train_sample(prepared, longest_pair)
            return EvaluationSet(name, sample, None, data.target)
        references = prepared.references(name)
        return EvaluationSet(
            name, prepared.pairs(name), references, data.target, data.bleu_tokenizer
        )

    @staticmethod
    def of_sacrebleu(name: str, vocabulary: Vocabulary, config: TrialConfig) -> "EvaluationSet":
        """A test set of sacreBLEU in the languages of a trial. Raises FaultyError."""
        data = config.data
        sources, references = read_set(name, data.source, data.target)
        source = Sentences.of(vocabulary.encode(sources))
        pairs = ParallelSet(source, Sentences.of(vocabulary.encode(references)))
        limit = config.model.longest_line
        longest = int(pairs.longest_sides.max())
        if longest > limit:
            line = int(pairs.longest_sides.argmax()) + 1
            problem = f"{name}:{line} has {longest} pieces"
            allowed = f"must have at most {limit} pieces"
            if config.model.positions == "learned":
                allowed = f"must fit into the {limit} learned positions of the model"
            raise FaultyError(Fault("--set", problem, allowed))
        return EvaluationSet(name, pairs, references, data.target, data.bleu_tokenizer)


@dataclass(frozen=True)
class SetEvaluation:
    """Scores of a set with their signatures, the hypotheses, and of each sentence what the scores
    follow from.

    An entry of ``samples`` has ``nats``, ``pieces`` and ``right`` pieces of the reference, and the
    counts of ``text_scores``. ``hypotheses`` is None for a set that is not translated.
    """

    name: str
    scores: dict[str, Any]
    hypotheses: list[str] | None
    samples: list[dict[str, Any]]

    @property
    def texts(self) -> dict[str, str]:
        """The hypotheses, one per line, by the path of their file in a trial's folder."""
        if self.hypotheses is None:
            return {}
        return {hypotheses_file(self.name): "".join(f"{line}\n" for line in self.hypotheses)}


def hypotheses_file(set_name: str) -> str:
    """In a trial's folder."""
    return f"hypotheses/{set_name}.txt"


def evaluate_set(
    translator: Translator, evaluation_set: EvaluationSet, worker: Worker
) -> SetEvaluation | None:
    """Evaluate on one set; the workers share the work, and rank zero gets the scores.

    Raises NotFiniteError and StopRequested, on every worker.
    """
    references = evaluation_set.references
    pairs = evaluation_set.pairs
    with sentences_of(evaluation_set.name), translator.efficient():
        set_likelihoods = likelihoods(translator.model, pairs, translator.precision, worker)
        hypotheses = None if references is None else translate_set(translator, pairs.source, worker)
    if not worker.is_rank_zero:
        return None
    nll = mean_nll(set_likelihoods, pairs)
    scores: dict[str, Any] = {
        "nll": nll,
        "ppl": perplexity(nll),
        "accuracy": token_accuracy(set_likelihoods, pairs),
        "pieces": pieces_digest(translator.vocabulary, pairs),
    }
    lengths = pairs.target.lengths.tolist()
    samples = list[dict[str, Any]]()
    for likelihood, pieces in zip(set_likelihoods, lengths, strict=True):
        samples.append({"nats": likelihood.nats, "pieces": pieces, "right": likelihood.right})
    if references is not None and hypotheses is not None:
        language = evaluation_set.language
        tokenizer = evaluation_set.tokenizer
        scores_of_text, counts = text_scores(hypotheses, references, language, tokenizer)
        scores |= scores_of_text
        for sample, sentence_counts in zip(samples, counts, strict=True):
            sample |= sentence_counts
    return SetEvaluation(evaluation_set.name, scores, hypotheses, samples)


def pieces_digest(vocabulary: Vocabulary, pairs: ParallelSet) -> str:
    """The first digits of the SHA-256 of the vocabulary's pieces and of those of the set, sentence
    by sentence.

    A perplexity is one per piece, so it compares only with those over the same pieces.
    """
    whole = hashlib.sha256("\n".join(vocabulary.texts()).encode())
    for side in (pairs.source, pairs.target):
        whole.update(side.pieces.astype("<i4").tobytes())
        whole.update(side.lengths.astype("<i8").tobytes())
    return whole.hexdigest()[:DIGEST_DIGITS]


def translate_set(translator: Translator, sources: Sentences, worker: Worker) -> list[str]:
    """The best hypothesis of every sentence, in order, as text on one line; on every worker.

    Raises NotFiniteError and StopRequested, on every worker.
    """
    hypotheses_by_number = search(translator, sources, worker.rank, worker.world, n_best=1)
    best = worker.gather_sentences(
        (number, hypotheses[0]) for number, hypotheses in hypotheses_by_number
    )
    return best_texts(translator.vocabulary, best)


def greedy_scores(
    config: TrialConfig, prepared: Prepared, worker: Worker, model: Transformer
) -> TrainingMetrics:
    """``dev_greedy/bleu`` and ``dev_greedy/chrf``, 0 to 100, of the first ``SENTENCES`` of dev; {}
    except on rank zero.

    The workers share the sentences. ``model`` is in training mode afterwards. A stop request waits
    for the end, since all workers must leave training after the same step. Raises NotFiniteError.
    """
    sources = prepared.pairs("dev").source.first(SENTENCES)
    greedy = replace(config.decode, beam=1)
    translator = Translator(model.eval(), prepared.vocabulary, greedy, config.train.precision)
    with sentences_of("dev"):
        hypotheses = translate_set(translator, sources, worker.persistent)
    model.train()
    if not worker.is_rank_zero:
        return {}
    references = prepared.references("dev")[: len(sources)]
    data = config.data
    scores, _ = text_scores(hypotheses, references, data.target, data.bleu_tokenizer)
    return {f"dev_greedy/{name}": scores[name] for name in GREEDY_SCORES}


def read_set(name: str, source: str, target: str) -> tuple[list[str], list[str]]:
    """Source and reference lines of a sacreBLEU test set, downloaded by sacreBLEU unless they
    exist.

    Raises FaultyError, which names the missing files and their folder.
    """
    files = set_files("--set", name, source, target)
    sources, references = zip(*read_pairs("--set", *files), strict=True)
    return list(sources), list(references)
