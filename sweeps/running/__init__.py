"""Runs the pending trials of a plan, on Ray (`sweep`) or in this process (`single_process`).

On Ray, from outside to inside: `opening` locks the study and prepares its data, `connection` starts or joins Ray,
`tune` finds room for processes, `queue` gives them trials, `group` is a trial's process with its workers, and `worker` one of these. `recorder` writes what they tell, `progress` shows it, `syncer` carries it
to MLflow. `failures` says why an attempt ended, and `stopping` takes signals and requests.
"""
