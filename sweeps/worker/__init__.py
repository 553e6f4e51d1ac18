"""What runs in the process of a worker, whatever started it; it needs no Ray.

`events` are what it and the sweep tell each other. `attempt` runs a task's work, `calls` checks what that says, and
`peers` joins it to the other workers. `system_metrics` measures its load. `prepared` opens its data, `code_folder`
is where it runs, `code_imports` what it imports there, and `environment` has the variables that its code names.
`checkpoints` keeps states as `checkpoint_files`, and `plain_state` takes them apart.
"""
