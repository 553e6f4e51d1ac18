"""Names and values as people type them: one reason each, and the override that they mean."""

from pathlib import Path

import pytest
from ablate_in_folder import contents
from typed import refusal, typed

# the verb, what is typed, and what is offered
NAMES: list[tuple[str, str, str]] = [
    ("plan", "train.lr=0.1", "train.lr_factor"),
    ("plan", "lr=0.1", "train.lr_factor"),
    ("plan", "learning_rate=0.1", "train.lr_factor"),
    ("plan", "beam=8", "decode.beam=8"),
    ("plan", "beam_size=8", "decode.beam=8"),
    ("plan", "train.beam=8", "decode.beam"),
    ("plan", "Beam=8", "decode.beam=8"),
    ("plan", "decode.α=0.6", "decode.alpha"),
    ("plan", "α=0.6", "decode.alpha=0.6"),
    ("plan", "length_penalty=0.6", "decode.alpha=0.6"),
    ("plan", "seed=2", "sweep.seeds=[2]"),
    ("plan", "seeds=[1,2]", "sweep.seeds=[1,2]"),
    ("sweep", "train.seed=2", "sweep.seeds=[2]"),
    ("train", "seed=2", "train.seed=2"),
    ("train", "sweep.seeds=[2]", "train.seed=2"),
    ("plan", "rows=base", "sweep.rows=[base]"),
    ("plan", "rows=[Base,Big]", "sweep.rows=[base,big]"),
    ("plan", "rows=all", "sweep.rows=all"),
    ("plan", "sweep.row=base", "sweep.rows"),
    ("plan", "sweep.rows=base", "sweep.rows=[base]"),
    ("plan", "sweep.rows=base+Big", "sweep.rows=[base,big]"),
    ("plan", "sweep.rows=All", "all"),
    ("plan", "row=big", "sweep.rows=[big]"),
    ("plan", "model=big", "sweep.rows=[big]"),
    ("train", "rows=big", "row=big"),
    ("train", "sweep.rows=[big]", "row=big"),
    ("train", "model=Big", "row=big"),
    ("plan", "batch_size=32", "train.tokens_per_batch"),
    ("plan", "train.batch_size=32", "train.tokens_per_batch"),
    ("plan", "epochs=3", "train.steps"),
    ("plan", "steps=100", "train.steps=100"),
    ("plan", "max_steps=100", "train.steps=100"),
    ("plan", "TRAIN.STEPS=100", "train.steps"),
    ("plan", "train.step=100", "train.steps"),
    ("plan", "train.warmup=10", "train.warmup_steps=10"),
    ("plan", "warmup=10", "train.warmup_steps=10"),
    ("plan", "eps_ls=0.2", "train.label_smoothing=0.2"),
    ("plan", "ε_ls=0.2", "train.label_smoothing=0.2"),
    ("plan", "model.dropout=0.3", "model.p_drop=0.3"),
    ("plan", "dropout=0.3", "model.p_drop=0.3"),
    ("plan", "model.heads=4", "model.n_heads=4"),
    ("plan", "heads=4", "model.n_heads=4"),
    ("plan", "model.dmodel=64", "model.d_model"),
    ("plan", "layers=4", "model.n_layers=4"),
    ("plan", "n_layer=4", "model.n_layers=4"),
    ("plan", "hidden_size=64", "model.d_model=64"),
    ("plan", "d_hidden=64", "model.d_ff=64"),
    ("plan", "ffn_dim=64", "model.d_ff=64"),
    ("plan", "vocab=500", "data.vocab_size=500"),
    ("plan", "max_len=128", "model.max_positions=128"),
    ("plan", "gpus=2", "cluster.gpus_per_worker=2"),
    ("plan", "cluster.num_gpus=2", "cluster.gpus_per_worker=2"),
    ("plan", "workers=2", "cluster.workers=2"),
    ("plan", "name=mine", "sweep.name=mine"),
    ("plan", "study=mine", "sweep.name=mine"),
    ("plan", "output=out", "paths.runs=out"),
    ("plan", "dir=out", "paths.runs=out"),
    ("plan", "dataset=multi30k", "data=multi30k"),
    ("plan", "device=cuda", "cluster=gpu"),
    ("plan", "Scale=Half", "scale=half"),
    ("plan", "scale=Half", "scale=half"),
    ("plan", "scale=half.yaml", "scale=half"),
    ("plan", "cluster=GPU", "cluster=gpu"),
    ("train", "row=Big", "row=big"),
    ("train", "row=big.yaml", "row=big"),
    ("train", "row=conf/row/big.yaml", "row=big"),
    ("train", "row=a_heads1", "row=a_heads_1"),
    ("train", "row=heads_4", "row=a_heads_4"),
    ("train", "row=n_heads_16", "row=a_heads_16"),
    ("train", "row=dropout0", "row=d_dropout_0"),
    ("train", "row=p_drop_0.2", "row=d_dropout_20"),
    ("train", "row=c-layers-2", "row=c_layers_2"),
    ("train", "row=d_model_256", "row=c_width_256"),
    ("train", "row=learned", "row=e_learned_positions"),
    ("plan", "sweep.rows=[c-layers-2]", "c_layers_2"),
    ("plan", "big.yaml", "sweep.rows=[big]"),
    ("plan", "big-s1", "sweep.rows=[big]"),
    ("train", "Big", "row=big"),
    ("plan", "half", "scale=half"),
    ("plan", "multi30k", "data=multi30k"),
    ("plan", "train.precision=BF16", "bf16"),
    ("train", "model.positions=Learned", "learned"),
    ("plan", "train.steps=1e5", "100000"),
    ("plan", "train.steps=100k", "100000"),
    ("plan", "train.steps='100'", "100"),
    ("train", "model.p_drop=10%", "0.1"),
    ("plan", "model.attention_bias=yes", "true"),
    ("plan", "model.attention_bias=0", "false"),
    ("plan", "sweep.seeds=3", "[3]"),
    ("plan", "--steps=100", "train.steps=100"),
    ("plan", "--lr=1", "train.lr_factor"),
    ("plan", "-seed=2", "sweep.seeds=[2]"),
    ("train", "--seed=2", "train.seed=2"),
    ("plan", "--jsn", "--json"),
    ("table", "--fromat=md", "--format"),
]

# texts that are almost key=value, the key that is named, and what is offered
ODD: list[tuple[list[str], str, str | None]] = [
    (["train.steps:100"], "train.steps:100", "train.steps=100"),
    (["train.steps: 100"], "train.steps: 100", "train.steps=100"),
    (["train.steps", "=", "100"], "train.steps = 100", "train.steps=100"),
    (["train.steps=", "100"], "train.steps= 100", "train.steps=100"),
    (["train.steps", "=100"], "train.steps =100", "train.steps=100"),
    (["train.steps = 100"], "train.steps = 100", "train.steps=100"),
    (["train.steps==100"], "train.steps==100", "train.steps=100"),
    (["train.steps:=100"], "train.steps:=100", "train.steps=100"),
    (["train.steps=100,"], "train.steps=100,", "train.steps=100"),
    (["train.steps=100;"], "train.steps=100;", "train.steps=100"),
    (["train/steps=100"], "train/steps", "train.steps"),
    (["steps:100"], "steps:100", "train.steps=100"),
    (["+train.steps=100"], "train.steps", "train.steps=100"),
    (["+data=multi30k"], "data", "data=multi30k"),
    (["~train.steps"], "train.steps", None),
    (["~row"], "row", None),
    (["sweep.rows=[base,", "big]"], "sweep.rows=[base, big]", "sweep.rows=[base,big]"),
    (["sweep.rows=[base,big"], "sweep.rows=[base,big", "sweep.rows=[base,big]"),
    (["sweep.rows=base,big]"], "sweep.rows=base,big]", "sweep.rows=[base,big]"),
    (["sweep.rows=base,big"], "sweep.rows", "sweep.rows=[base,big]"),
    (["sweep.seeds=1,2"], "sweep.seeds", "sweep.seeds=[1,2]"),
    (["sweep.rows=base", "sweep.rows=big"], "sweep.rows", "sweep.rows=[base,big]"),
    (["train.steps=100", "train.steps=200"], "train.steps", None),
    (["decode.average=2", "decode.average_checkpoints=3"], "decode.average_checkpoints", None),
    (["scale=tiny", "scale=half"], "scale", None),
    (["data=multi30k", "data=synthetic"], "data", None),
    (["data@train=files"], "data@train", "data=files"),
    (["scale@x=half"], "scale@x", "scale=half"),
    (["train@x.steps=5"], "train@x.steps", "train.steps=5"),
    (["sweep.name=a#b"], "sweep.name=a#b", "\"sweep.name='a#b'\""),
    (["sweep.name=it's"], "sweep.name=it's", None),
    (["=5"], "=5", None),
    (["data=fils", "data.train=[a,b]"], "data", "data=files"),
    (["data=mycorpus", "data.train=[a,b]"], "data", None),
    (["data=files", "data.train=3", "data.dev=[a,b]", "data.test=[a,b]"], "data.train", None),
    (["train.stesp=1000", "train.checkpoint_every=250", "decode.average_checkpoints=4"], "train.stesp", "train.steps"),
    (["row=base", "model.n_heads=2"], "row", "sweep.rows=[base]"),
    (["rows=base", "model.n_heads=2"], "rows", "sweep.rows=[base]"),
    (["name=mine", "scale=half"], "name", "sweep.name=mine"),
]


@pytest.mark.parametrize(("verb", "text", "offered"), NAMES, ids=[f"{verb} {text}" for verb, text, _ in NAMES])
def test_the_override_that_is_meant_is_offered(tmp_path: Path, verb: str, text: str, offered: str) -> None:
    message = refusal(tmp_path, verb, text)
    assert message.startswith("Refused, for 1 reason: "), message
    assert f"did you mean {offered}?" in message
    assert contents(tmp_path) == []


@pytest.mark.parametrize(("texts", "key", "offered"), ODD, ids=[" ".join(case[0]) for case in ODD])
def test_an_odd_override_gets_one_reason(tmp_path: Path, texts: list[str], key: str, offered: str | None) -> None:
    message = refusal(tmp_path, "plan", *texts)
    assert message.startswith(f"Refused, for 1 reason: {key} (command line) "), message
    if offered is not None:
        assert f"did you mean {offered}? Nothing was started." in message


def test_both_values_of_a_key_that_is_given_twice_are_named(tmp_path: Path) -> None:
    assert "is given twice, as 100 and as 200" in refusal(tmp_path, "plan", "train.steps=100", "train.steps=200")
    assert "is given twice, as tiny and as half" in refusal(tmp_path, "plan", "scale=tiny", "scale=half")
    assert typed(tmp_path, "plan", "sweep.rows=[base]", "train.steps=100", "train.steps=100").exit_code == 0


@pytest.mark.parametrize("name", ["Größe", "名前", "été-1", "meine Größe", "2024", "1e3", "true", "a.b", "Ω≈ç"])
def test_any_name_of_a_folder_names_a_study(tmp_path: Path, name: str) -> None:
    done = typed(tmp_path, "plan", f"sweep.name={name}", "sweep.rows=[base]")
    assert (done.exit_code, f"Plan of {name}" in done.stdout) == (0, True), done.output


def test_letters_beyond_ascii_may_stand_in_lists(tmp_path: Path) -> None:
    message = refusal(
        tmp_path, "plan", "data=files", "data.train=[größe.en,größe.de]", "data.dev=['ä b',c]", "data.test=[c,d]"
    )
    assert f"data.train {tmp_path}/größe.en" in message
    assert f"data.dev {tmp_path}/ä b" in message


@pytest.mark.parametrize(
    ("typed_verb", "meant"),
    [("run", "sweep"), ("resume", "sweep"), ("eval", "evaluate"), ("Plan", "plan"), ("PLAN", "plan"), ("ls", "status")],
)
def test_a_verb_of_another_name_is_offered(tmp_path: Path, typed_verb: str, meant: str) -> None:
    done = typed(tmp_path, typed_verb)
    assert (done.exit_code, f"Did you mean '{meant}'?" in done.stderr) == (2, True), done.stderr


def test_an_override_without_a_verb_is_no_verb(tmp_path: Path) -> None:
    done = typed(tmp_path, "train.steps=100")
    assert done.exit_code == 2
    assert "Did you mean 'ablate sweep" in done.stderr
