"""MLflow: a process of its own sends each study's journals, so that no training calls MLflow.

`sync` is that process, and `replay` holds its passes. `describe` and `pages` say what a trial's run
shows, `store` sends it, and `ledger` keeps what was sent.
"""
