"""MLflow: a process of its own sends each study's journals, so that no training calls MLflow."""
