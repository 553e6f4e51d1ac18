"""Runs the pending trials of a plan, on Ray (`sweep`) or in this process (`single_process`).

On Ray, from outside to inside: `sweep` starts or joins Ray. `opening` locks the study and prepares its data. `queue`
gives trials to processes for which Tune finds room. `group` is such a process with its workers, and `worker` one of
these. `recorder` writes what they tell, `progress` shows it, `syncer` carries it to MLflow. `failures` says why an
attempt ended, and `stopping` takes signals and requests.
"""
