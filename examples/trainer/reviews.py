"""A tiny BERT that tells good from bad reviews, by Trainer of Hugging Face.

    python reviews.py --layers 2 --seed 1

Trainer writes its metrics to ``trainer_state.json``, and resumes from its own checkpoints.
"""

import argparse
import random
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.trainer_callback import TrainerState

WORDS = {
    1: ("fine", "lovely", "great", "warm"),
    0: ("dull", "slow", "loud", "poor"),
    None: ("the", "film", "was", "and", "very", "often", "story", "music"),
}
VOCABULARY = [word for words in WORDS.values() for word in words]


def reviews(number, seed):
    """Reviews of eight words, of which three decide and stand anywhere."""
    chance = random.Random(seed)
    data = []
    for _ in range(number):
        label = chance.randrange(2)
        words = chance.choices(WORDS[None], k=5) + chance.choices(WORDS[label], k=3)
        chance.shuffle(words)
        tokens = [VOCABULARY.index(word) for word in words]
        data.append({"input_ids": torch.tensor(tokens), "labels": label})
    return data


def accuracy(prediction):
    right = prediction.predictions.argmax(axis=1) == prediction.label_ids
    return {"accuracy": right.mean().item()}


def state_of(checkpoint):
    """Trainer's state in a checkpoint, or a new one."""
    if not checkpoint:
        return TrainerState()
    return TrainerState.load_from_json(str(Path(checkpoint, "trainer_state.json")))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="out")
    parser.add_argument("--resume", help="a checkpoint")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    sizes = {"hidden_size": options.width, "intermediate_size": 4 * options.width}
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        num_hidden_layers=options.layers,
        num_attention_heads=2,
        hidden_dropout_prob=options.dropout,
        initializer_range=0.2,
        **sizes,
    )
    settings = TrainingArguments(
        options.out,
        max_steps=options.steps,
        learning_rate=options.lr,
        per_device_train_batch_size=16,
        seed=options.seed,
        logging_steps=10,
        eval_strategy="steps",
        eval_steps=10,
        save_steps=10,
        dataloader_pin_memory=False,
        report_to="none",
        disable_tqdm=True,
    )
    state = state_of(options.resume)
    model = BertForSequenceClassification(config)
    if options.resume:
        model = BertForSequenceClassification.from_pretrained(options.resume)
    trainer = Trainer(
        model,
        settings,
        train_dataset=reviews(400, seed=0),
        eval_dataset=reviews(200, seed=1),
        compute_metrics=accuracy,
    )
    if state.global_step < options.steps:
        trainer.train(resume_from_checkpoint=options.resume)
    else:  # `train` would train one step too many
        trainer.state = state
        trainer.evaluate()
    trainer.save_state()


if __name__ == "__main__":
    main()
