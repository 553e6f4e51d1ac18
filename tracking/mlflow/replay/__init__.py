"""Makes the runs of a store equal to a study's folder: each point once, and no point that a retry
could roll back.

The folder determines what a run must hold. The first and the last pass compare that with what the
store has, value by value; the passes in between with what was sent according to the ledger. Each
sends what differs.

A retry cuts a journal back to a checkpoint, and a store can't delete a point. So an unfinished
trial is replayed only up to its newest checkpoint, and a trial that was trained again gets a new
run. Runs without a trial are deleted; MLflow can restore them if their trial comes back. Parts that
a store may refuse come last.

`replay` makes a pass, `one_pass` holds what it sees, and `pass_outcome` what it tells.
`study_files` notices which files have changed, and `running_trials` which trials run. `run_finder`
finds the runs, unless `other_folder` has sent them. `trial_replay` sends what each trial's run
lacks, `own_run` the study's own run, and `artifacts` the files. They share `study_runs`.
"""
