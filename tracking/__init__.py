"""The study on disk, MLflow and the table. It imports no torch, Ray or Hydra."""
