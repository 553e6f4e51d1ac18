"""What a sweep writes into the folders of its trials.

`recorder` makes each attempt's `assignment` and writes the events that come back, with the
attempt's `provenance` and the `trial_result`. `trial_copy` takes a finished trial from another
study.
"""
