"""What a worker receives of an attempt."""

from collections.abc import Sequence
from dataclasses import asdict

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.processes.events import Assignment, Head, HostWeights
from tracking.attempts import Lineage
from tracking.files import unless_lost
from tracking.weights import is_head_of, weights_of

WITHOUT_WEIGHTS = (
    "{host} no longer has a result, so there are no weights to score; run the same command again"
)


class WithoutWeightsError(Exception):
    """The trial that a scoring trial waits for has no weights by now, in one line."""


def assignment_of(
    planned: PlannedTrial,
    attempt: int,
    run: str,
    lineage: Lineage,
    weights: HostWeights | None,
    prepared_as: str,
) -> Assignment:
    """The attempt as its workers receive it.

    ``run``: the name that all attempts of one sweep share. ``weights``: those that it only scores.
    ``prepared_as``: the hash of the prepared data when the sweep began.
    """
    trial = planned.trial
    settings = planned.settings
    return Assignment(
        task=settings.source.name,
        folder=settings.source.folder,
        config=asdict(settings.config),
        seed=trial.seed,
        attempt=attempt,
        data_folder=settings.paths.data,
        data_fingerprint=planned.fingerprint,
        checkpoints=planned.checkpoints,
        key=trial.key,
        threads=settings.cluster.cpus_per_worker,
        gpus=settings.cluster.gpus_per_worker,
        prepared_as=prepared_as,
        evaluated=scored_heads(planned, weights),
        run=run,
        trial=trial.name,
        lineage=lineage,
        code=planned.code,
        study_folder=str(planned.folder.path.parent),
        sustained_tflops=settings.cluster.sustained_tflops,
        weights=weights,
        kept_steps=planned.kept_steps,
        ended=ended_early(planned),
    )


def host_weights(host: PlannedTrial | None, codes: Sequence[str]) -> HostWeights | None:
    """The weights of ``host``, which a trial only scores; None without a host.

    ``codes``: the hashes of all code that the study has been trained with. Raises
    WithoutWeightsError, UnreadableError.
    """
    if host is None:
        return None
    # a result that can't be read now isn't gone
    result = unless_lost(host.folder.result, None)
    if result is None or result["key"] != host.trial.key:
        raise WithoutWeightsError(WITHOUT_WEIGHTS.format(host=host.name))
    return HostWeights(
        trial=host.name,
        checkpoints=host.checkpoints,
        key=host.trial.key,
        step=result["step"],
        attempt=result["attempt"],
        lineage=host.folder.lineage(codes) or Lineage(),
        record=weights_of(result),
    )


def ended_early(planned: PlannedTrial) -> int | None:
    """The step at which the trial's own training ended early, if it is only scored again."""
    result = planned.result
    if planned.host is not None or result is None or result.get("diverged") is not None:
        return None
    return result["step"] if 0 < result["step"] < planned.steps else None


def scored_heads(planned: PlannedTrial, weights: HostWeights | None) -> dict[str, Head]:
    """By set, the heads of scores from ended attempts, if the settings are the same.

    A head counts only for the weights of the attempt that it names.
    """
    key = planned.trial.key
    if weights is None:
        last = ended_early(planned) or planned.steps
        return planned.folder.scored_heads(key, last, planned.scoring)
    heads = planned.folder.scored_heads(key, weights.step, planned.scoring)
    return {set_name: head for set_name, head in heads.items() if is_head_of(weights.record, head)}
