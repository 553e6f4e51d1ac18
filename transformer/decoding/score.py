"""What a trained model is judged by: perplexity, BLEU, chrF."""

import math
from typing import Any

import sacrebleu
import torch

from transformer.config import TrialConfig
from transformer.data.batches import judging_batches
from transformer.data.prepare import Prepared
from transformer.decoding.search import beam_search
from transformer.model.encoder_decoder import Transformer
from transformer.training.parallel import Worker
from transformer.training.precision import autocast
from transformer.training.train import dev_nll

TOKENS_PER_DECODING_BATCH = 2_000


@torch.no_grad()
def translate_set(
    model: Transformer, prepared: Prepared, set_name: str, trial: TrialConfig, worker: Worker
) -> list[str]:
    """The best hypothesis of every sentence of a set, in its order, as text; the workers share the work."""
    model.eval()
    pairs = prepared.pairs(set_name)
    found: list[tuple[int, list[int]]] = []
    for indices, batch in judging_batches(pairs, TOKENS_PER_DECODING_BATCH, worker.rank, worker.world):
        with autocast(trial.train.precision, worker.device):
            hypotheses = beam_search(model, batch.source.to(worker.device), trial.decode)
        found += [(int(i), best[0].pieces) for i, best in zip(indices, hypotheses, strict=True)]
    everything = sorted(item for share in worker.gather(found) for item in share)
    return prepared.vocabulary.decode([pieces for _, pieces in everything])


def judge(
    model: Transformer, prepared: Prepared, set_name: str, trial: TrialConfig, worker: Worker
) -> tuple[dict[str, Any], list[str]]:
    """Scores of one set, and the hypotheses they were computed from."""
    nll = dev_nll(model, prepared.pairs(set_name), trial, worker)
    hypotheses = translate_set(model, prepared, set_name, trial, worker)
    scores = {"nll": nll, "ppl": math.exp(min(nll, 700.0))} | text_scores(hypotheses, prepared.references(set_name))
    return scores | {"decode": vars(trial.decode)}, hypotheses


def text_scores(hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """sacreBLEU 13a (cased, detokenised) and chrF, with BLEU's full signature."""
    bleu, chrf = sacrebleu.BLEU(tokenize="13a"), sacrebleu.CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references]).score
    chrf_score = chrf.corpus_score(hypotheses, [references]).score
    return {"bleu": bleu_score, "chrf": chrf_score, "signature": str(bleu.get_signature())}
