"""The key that a mistyped name most likely means: the nearest known name, or one of a table of synonyms."""

import re
from collections.abc import Collection, Iterable
from functools import cache

from sweeps.schema import keys, nearest

OTHER_NAMES = {
    "model.n_layers": "layers num_layers nlayers depth num_hidden_layers encoder_layers decoder_layers blocks n",
    "model.d_model": "hidden_size hidden dim width embed_dim embedding_dim embedding_size emb_dim n_embd model_dim d",
    "model.d_ff": "ffn_dim ffn ff feedforward dim_feedforward ffn_size intermediate_size inner_size mlp_dim d_inner"
    " d_hidden d_hid filter_size d_ffn",
    "model.n_heads": "heads num_heads nheads nhead n_head attention_heads num_attention_heads h",
    "model.d_k": "key_size key_dim d_key d_head head_dim dim_head",
    "model.d_v": "value_size value_dim d_value",
    "model.p_drop": "dropout drop p_dropout dropout_rate dropout_p drop_prob dropout_prob drop_rate hidden_dropout"
    " residual_dropout resid_pdrop",
    "model.positions": "position positional_encoding pos_encoding pos_enc positional position_embedding pos_emb",
    "model.max_positions": "max_len max_length maxlen max_seq_len max_seq_length max_sequence_length seq_len block_size"
    " context_length context_size n_positions n_ctx max_position_embeddings max_source_positions",
    "train.steps": "max_steps num_steps n_steps iterations iters max_iters num_iterations updates max_updates"
    " max_update total_steps training_steps train_steps step steps epochs epoch num_epochs n_epochs max_epochs"
    " max_epoch num_train_epochs",
    "train.warmup_steps": "warmup warm_up warmup_iters warmup_updates num_warmup_steps n_warmup_steps",
    "train.label_smoothing": "ε_ls eps_ls epsilon_ls epsilon eps smoothing label_smooth ls",
    "train.evaluate_every": "eval_every eval_interval eval_steps eval_freq val_every val_interval validate_every"
    " validate_interval",
    "train.checkpoint_every": "save_every save_interval save_steps save_freq ckpt_every checkpoint_interval"
    " checkpoint_steps",
    "train.keep_checkpoints": "keep keep_last keep_last_n save_total_limit max_to_keep num_checkpoints",
    "train.tokens_per_micro_batch": "micro_batch micro_batch_size microbatch",
    "decode.beam": "beam beams beam_size beam_width num_beams n_beams",
    "decode.alpha": "α length_penalty len_penalty lenpen lp",
    "decode.average_checkpoints": "average avg avg_checkpoints averaging average_last checkpoint_average",
    "data.vocab_size": "vocab n_vocab num_vocab bpe_size spm_vocab_size pieces num_pieces",
    "data.source": "src source_lang src_lang source_language",
    "data.target": "tgt trg target_lang tgt_lang target_language",
    "cluster.workers": "worker num_workers n_workers nproc nproc_per_node world_size processes",
    "cluster.gpus_per_worker": "gpus num_gpus n_gpus ngpus gpu gpu_count",
    "cluster.cpus_per_worker": "cpus num_cpus n_cpus ncpus cpu threads num_threads",
    "sweep.name": "name study study_name run_name sweep_name exp_name run_id",
    "sweep.vary": "vary params variations one_at_a_time",
    "sweep.grid": "grid grid_search param_grid product cartesian",
    "sweep.max_failures": "retries max_retries num_retries failures",
    "tracking.uri": "tracking_uri mlflow_uri mlflow_tracking_uri mlflow uri",
    "tracking.experiment": "experiment exp experiment_name mlflow_experiment project",
    "paths.runs": "output out output_dir out_dir outdir dir save_dir run_dir runs_dir log_dir results results_dir",
    "paths.data": "data_dir data_path data_root datadir cache_dir",
    "paths.checkpoints": "checkpoints checkpoint_dir checkpoint_path ckpt_dir ckpt_path",
    "train.lr_factor": "lr learning_rate max_lr base_lr peak_lr lr_max eta lrate",
    "train.tokens_per_batch": "batch_size batch bs bsz batchsize max_tokens batch_tokens global_batch_size"
    " train_batch_size",
    "sweep.seeds": "seed seeds random_seed manual_seed rng rng_seed",
    "sweep.rows": "rows row_names variants",
    "data": "dataset datasets corpus",
    "cluster": "machine device",
}
"""Our key or group: its other names."""

NOTES = {
    "train.lr_factor": "train.lr_factor multiplies the paper's learning rate; 1.0 is the paper's",
    "train.tokens_per_batch": "train.tokens_per_batch counts tokens, not sentences",
    "train.steps": "train.steps counts steps, not epochs",
    "model.d_model": "model.d_model is the width, and model.d_ff is the inner width of the feed-forward layers",
}
"""Our key: how it may differ from what its other names mean."""


@cache
def known_keys(tree: type) -> tuple[str, ...]:
    """Every key of a task's settings; ``tree`` is the dataclass that has their form."""
    return tuple(keys(tree))


def other_name(key: str, known: Collection[str]) -> str | None:
    """The known key that has this other name; the whole name counts before its last component."""
    found = (_others().get(_plain(name), "") for name in (key, _last(key)))
    return next((name for name in found if name in known), None)


def unknown_key(known: Collection[str], key: str, groups: Iterable[str] = ()) -> tuple[str | None, str]:
    """The key or group that an unknown key most likely means, and what is allowed in its place."""
    inside = any(name.startswith(f"{key}.") for name in known)
    above = (name for name in known if key.startswith(f"{name}."))
    named = next(above, None) or other_name(key, [*known, *groups])
    meant = None if inside else named or _similar(key, known, groups)
    branch = key if inside else (meant if meant and "." in meant else key).rpartition(".")[0]
    siblings = [name.removeprefix(f"{branch}.") for name in known if name.startswith(f"{branch}.")]
    usual = f"keys under {branch} are {', '.join(siblings)}" if siblings else "`allelse config` shows every key"
    return meant, NOTES.get(named or "", usual)


def _similar(key: str, known: Collection[str], groups: Iterable[str]) -> str | None:
    """A key with this last component, or a key or group that looks like the typed one, or whose last component does."""
    usual = sorted(known, key=lambda name: name.startswith(("row.", "scale.")))
    lasts = {_last(name): name for name in reversed(usual)}
    return lasts.get(_last(key)) or nearest(key, [*groups, *known]) or lasts.get(nearest(_last(key), lasts) or "")


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _plain(name: str) -> str:
    """A name in lower case, without separators."""
    return re.sub(r"[\s_-]+", "", name.casefold())


@cache
def _others() -> dict[str, str]:
    return {_plain(name): key for key, names in OTHER_NAMES.items() for name in names.split()}
