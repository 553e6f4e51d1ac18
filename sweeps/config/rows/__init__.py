"""The rows of a command: which ones there are, what each one is composed from, and its values.

`row_sources` says what rows come from, and where a value is set; `made_rows` are those that no file
has, and `row_naming` names them. `row_trees` composes a row, `row_scale` divides it by the scale,
and `row_keys` are those that it sets itself. `problem_collector` keeps what is wrong, for one
report.
"""
