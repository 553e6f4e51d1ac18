"""How long the parts of a sweep wait for each other, in seconds, and why so long.

The beat of a process's record stands with it, in `tracking/attempts.py`.
"""

POLL_S = 1.0
"""One poll of a worker. Shorter ones cost the sweep's process more, longer ones delay a stop and
the journal."""
POLLS_PER_S = 150
"""How many polls of all trials cost the sweep's process a third of a core. With more trials polls
are longer."""
FIRST_ORDER_S = 0.05
"""Between two looks of a new process for its first order, which follows its first answer."""
REPEAT_S = 5.0
"""Between two repetitions of all orders: how long a poll takes depends on how many trials run."""
DEATH_S = 5.0
"""Until Ray reports how a process died."""
STARTING_S = 120.0
"""Until the first sign of life of a worker, even if less counts as a stall: it imports torch."""
LOOK_FOR_SIGNS_S = 1.0
"""Between two looks of `allelse train` at its own signs of life; one costs nothing."""
IDLE_ANSWER_S = 10.0
"""An answer of workers that wait for a trial. A group with one that does not answer is replaced."""
PATIENCE_S = 10.0
"""Until the cause is known, once a worker has noticed that a peer is gone: Ray notices deaths a
little later."""
ASK_FREE_S = 5.0
"""Between two questions of such a sweep to Ray what is free."""
EXPLAINED_AFTER_S = 30.0
"""Until a sweep of which no trial runs says what it waits for."""
LOOK_AT_RAY_S = 1.0
"""Between two looks whether Ray itself still runs."""
HEAD_SILENT_S = 45.0
"""Without an answer of a cluster's head: it may be busy, or start again. Ray gives up after 60 s,
with traces."""
HEAD_ANSWER_S = 2.0
"""Until the head accepts a connection; a look must not last."""
CLEANING_S = 10.0
"""For the records of a process that ends at once, since Ray has ended or it hangs: its folder may
hang, too."""
LEAVING_S = 5.0
"""Of that time, for the sign of life that is being written just then."""
LOOK_AT_CODE_S = 5.0
"""Between two looks whether the user's files have changed: a stat of each."""
NEW_FILES_EVERY_S = 1.0
"""Between two looks for files that come to the user's folder: a listing of each of its folders."""
LOOK_FOR_STOPS_S = 1.0
"""Between two looks for requests to stop: a small file on a folder that may be shared."""
ECHO_S = 0.5
"""Between the two signals of one stop: timeout(1) signals process and group, systemd sends SIGTERM
and SIGHUP."""
LINE_EVERY_S = 30.0
"""Between two lines of progress where no table is shown: a log of hours should stay readable."""
LOOK_AT_TRIALS_S = 1.0
"""Between two looks at the files of running trials, or longer; a file is read only once it has
changed."""
WATCH_S = 2.0
"""The same for `allelse status --watch`, of which there may be many."""
LOOK_AT_LOG_S = 0.5
"""Between two looks of `allelse logs --follow` for new lines: it should seem immediate."""
FIRST_PAUSE_S = 1.0
"""Before the syncer is started again; doubled each time."""
LONGEST_PAUSE_S = 300.0
"""Before the same of one that fails each time: it imports MLflow for seconds, and says so in a
line."""
CARRYING_S = 60.0
"""For the last results at the end of a sweep; `allelse sync` carries the rest."""
SYNCER_ENDS_S = 2.0
"""For the syncer to end by SIGTERM: it may be stopped."""
SAMPLED_EVERY_S = 10.0
"""Between two samples of CPU, memory and GPU, as MLflow's default; each is a point in its
database."""
STORAGE_S = 120.0
"""How long storage that fails is tried again: a server that restarts, or a person who frees space,
takes a minute."""
STORAGE_PAUSE_S = 1.0
"""Between two tries: each is one call, and training waits."""
LOOK_AT_LOCK_S = 5.0
"""Between two signs of life of a process that waits while another one prepares the data."""
FORMING_S = 120.0
"""Until all workers of a trial have met. One that died meanwhile never comes."""
PEERS_S = 7 * 24 * 3600.0
"""For the others later: one may evaluate alone for hours. `sweep.stall_minutes` ends a hang, a
death any wait."""
HEAD_CONNECTS_S = 3.0
"""Until a cluster's head accepts a connection, before anything starts. Ray itself would try for
minutes."""
NODES_S = 20
"""Until a cluster has listed its nodes."""
JOINED_S = 10
"""How long Ray looks for its node on this machine. Less than ``NODES_S``, so that this cause is
known."""
NODE_ANSWER_S = 60.0
"""An answer of a node. It starts a process and may import the task, perhaps from a slow disk."""
PLACE_ANSWER_S = 8.0
"""Until a remote filesystem has written and removed one small file."""
STORE_CONNECTS_S = 2.0
"""Until a tracking server accepts a connection. A server that is down gets only a notice, since
journals wait."""
