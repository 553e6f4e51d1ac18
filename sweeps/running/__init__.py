"""Runs the pending trials of a plan, on Ray (`sweep`) or in this process (`single_process`).

Both from outside to inside: `opening` locks the study and prepares its data. `queue` gives trials to processes.
`recorder` writes what they tell, `progress` shows it, `syncer` carries it to MLflow. `failures` says why an attempt
ended, and `stopping` takes signals and requests. On Ray, `sweep` starts or joins it, and `tune` finds room for
processes. `trial_process` is one of them, `group` its workers, and `worker_log` what these print.
"""
