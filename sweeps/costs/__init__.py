"""What a plan will cost: hours and memory, predicted from earlier trials on this machine.

`measurement` reads what a trial cost, from finished trials or from the cache that `calibration`
fills. Calibration runs `calibrated_trial` in separate processes; nothing else here starts any.
`prediction` predicts each trial of a plan, `slots` says when trials that run at a time end, and
`estimate` combines these. `faster_precision` times a few steps in each precision, once per machine.
"""
