"""MLflow: a process carries each study's journals there, and describes its runs; nothing that trains calls MLflow."""
