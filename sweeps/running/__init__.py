"""Runs the pending trials of a plan, on Ray (`sweep`) or in this process (`single_process`).

From outside to inside: `opening` locks the study and prepares its data. `queue` gives trials to
processes. `recording` writes their events, `progress` shows them, and `syncer` sends them to
MLflow. `trial_states` has the state of each trial, and `sweep_view` shows the trials' files.
`failures` explains why an attempt ended, and `stopping` handles signals and requests. `sweep`
starts or joins Ray, and `tune` requests processes. A `trial_process` polls its worker `group`;
`worker_process` is one of them.
"""
