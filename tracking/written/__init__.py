"""The metrics in what a training program writes anyway: JSON lines, csv, TensorBoard's event files,
``trainer_state.json``, MLflow's stores, and text on standard output.

``watch`` polls them, ``source_kinds`` has a line for each kind of file, and ``environment`` holds
the variables that a program gets. ``report`` is for a program that writes nothing of that.
"""
