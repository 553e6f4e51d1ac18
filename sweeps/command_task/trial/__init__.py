"""One trial of a command in its worker.

``work`` runs and watches it: ``process`` starts ``guard``, which starts the command and ends all
that it leaves. ``points`` become the journal and the scores, ``resuming`` finds the checkpoint to go
on from, and ``ends`` has the errors.
"""
