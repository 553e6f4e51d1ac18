"""The code of the user that a worker runs: its `folder` in the study, its `imports`, and the
`environment` variables that it names.
"""
