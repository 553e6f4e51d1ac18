"""What a plan will take: hours and memory, from what trials took on this machine.

`measurement` is what one trial took, read from finished trials or from the cache that `calibration` fills. It starts
`calibrated_trial` in processes of their own. `prediction` predicts each trial of a plan, and `slots` says how long they
take side by side. `estimate` puts these together. Only calibration starts anything. `faster_precision` times a short
block in each precision, once per machine.
"""
