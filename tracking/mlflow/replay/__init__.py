"""One pass over a study: `replay` makes the runs of a store equal to the study's folder.

`study_runs` knows the runs, `other_folder` whose they are, and `pass_outcome` says how it went.
"""
