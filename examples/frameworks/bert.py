"""A Hugging Face Trainer as a task: a callback reports, saves and stops.

A checkpoint is the folder that Trainer writes. `save` and `load` copy its files.
"""

import shutil
from pathlib import Path

import torch
from spiral import Config, Model
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from allelse import Metric, Task, Trial


class Sweep(TrainerCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_step_end(self, args, state, control, **_):
        if self.trial.stopping():
            control.should_log = control.should_save = control.should_training_stop = True

    def on_log(self, args, state, control, logs, **_):
        if "loss" in logs:  # the last log holds times instead
            self.trial.report(state.global_step, {"train/loss": logs["loss"]})

    def on_save(self, args, state, control, **_):
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        self.trial.checkpoint(state.global_step, load(folder))


def save(files, folder):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def load(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def sentences(number, seed):
    """Sentences of eight tokens; the label says whether the first token is below 10."""
    tokens = torch.randint(20, (number, 8), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": sentence, "labels": int(sentence[0] < 10)} for sentence in tokens]


def network(model: Model) -> BertForSequenceClassification:
    sizes = {
        "hidden_size": model.width,
        "num_hidden_layers": model.layers,
        "num_attention_heads": 2,
    }
    return BertForSequenceClassification(
        BertConfig(vocab_size=20, intermediate_size=2 * model.width, **sizes)
    )


def work(trial: Trial[Config]) -> None:
    train, home, first, last = trial.config.train, trial.folder / "trainer", 0, None
    shutil.rmtree(home, ignore_errors=True)  # left by a lost attempt
    if trial.saved:
        first, last = trial.saved.step, home / f"checkpoint-{trial.saved.step}"
        save(trial.saved.state, last)
    torch.set_num_threads(trial.threads)
    torch.manual_seed(trial.seed)
    model = (
        BertForSequenceClassification.from_pretrained(last) if last else network(trial.config.model)
    )
    logging = {
        "logging_steps": 10,
        "save_steps": 10,
        "save_total_limit": 1,
        "report_to": "none",
        "disable_tqdm": True,
    }
    sizes = {
        "max_steps": train.steps,
        "per_device_train_batch_size": train.batch,
        "learning_rate": train.lr,
    }
    settings = TrainingArguments(str(home), seed=trial.seed, **sizes, **logging)
    trainer = Trainer(
        model, settings, train_dataset=sentences(300, seed=0), callbacks=[Sweep(trial)]
    )
    if first < train.steps:  # otherwise Trainer takes one more step
        trainer.train(resume_from_checkpoint=last)
        if trainer.state.global_step < train.steps:  # asked to stop
            return
    output = trainer.predict(sentences(300, seed=1))
    accuracy = (output.predictions.argmax(axis=1) == output.label_ids).mean()
    trial.evaluated("test", {"accuracy": accuracy})


task = Task(
    name="bert",
    version=1,
    schema=Config,
    metrics=(Metric("accuracy", better="up", set="test"),),
    steps=lambda config: config.train.steps,
    work=work,
    save=save,
    load=load,
)
