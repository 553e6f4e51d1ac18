"""Runs that exist already, as an observed study: read, grouped into rows, audited and written.

``csv_file`` and ``mlflow_store`` read a ``SourceTable``. ``roles`` says what each of its columns is
for, by their names and values (``columns``), and ``runs`` reads its lines by these roles. ``rows``
groups the runs, and modules of doubts find their weak points: together that is an
``observation``, which also takes the last line of each run from a line per epoch.
``observed_study`` writes it as a study folder. ``record`` is the file ``observed.json`` that marks
such a study; it is what other rooms import.
"""
