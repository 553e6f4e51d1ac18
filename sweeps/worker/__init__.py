"""What runs in the process of a worker, whatever started it. It needs no Ray.

`attempt` runs a task's work, `calls` checks the work's calls, `reports` holds what the journal may
lack, `attempt_costs` measures what it takes, and `peers` joins it to the other workers.
`system_metrics` measures its load. `prepared` opens its data. It runs in a folder of `user_code`.
`last_step` opens weights that it only scores.
"""
