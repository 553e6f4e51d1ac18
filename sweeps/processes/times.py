"""How long the parts of a sweep wait for each other, in seconds, and why.

`tracking/activity/runners.py` has the interval between the heartbeats of a process in its record.
"""

POLL_S = 1.0
"""One poll of a worker. Shorter polls load the sweep's process; longer ones delay stops and the
journal."""
POLLS_PER_S = 150
"""How many polls of all trials take a third of a core in the sweep's process. With more trials,
polls are longer."""
FIRST_ORDER_S = 0.05
"""How often a new process checks for its first order, which follows its first answer."""
REPEAT_S = 5.0
"""How often all orders are repeated: how long a poll takes depends on how many trials run."""
DEATH_S = 5.0
"""How long Ray may take to report how a process died."""
STARTING_S = 120.0
"""How long a worker has until its first sign of life, even if stalls are shorter: it imports
torch."""
LOOK_FOR_SIGNS_S = 1.0
"""How often `allelse train` checks its own signs of life; a check costs nothing."""
IDLE_ANSWER_S = 10.0
"""How long workers that wait for a trial may take to answer. A group that doesn't is replaced."""
PATIENCE_S = 10.0
"""How long to wait for the cause once a worker has noticed that a peer is gone: Ray notices deaths
a little later."""
ASK_FREE_S = 5.0
"""How often a waiting sweep asks Ray which resources are free."""
EXPLAINED_AFTER_S = 30.0
"""When a sweep without a running trial says what it waits for."""
LOOK_AT_RAY_S = 1.0
"""How often to check that Ray itself still runs."""
HEAD_SILENT_S = 45.0
"""How long a cluster's head may be silent: it may be busy or restarting. Ray gives up after 60 s
and prints traces."""
HEAD_ANSWER_S = 2.0
"""How long the head may take to accept a connection during a check, which must be short."""
CLEANING_S = 10.0
"""How long a process that ends at once, because Ray ended or hangs, may write its records: its
folder may hang, too."""
LEAVING_S = 5.0
"""The part of that time for a sign of life that is just being written."""
LOOK_AT_CODE_S = 5.0
"""How often to check whether the user's files have changed; a check calls stat on each."""
NEW_FILES_EVERY_S = 1.0
"""How often to check for new files in the user's folder; a check lists each of its folders."""
LOOK_FOR_STOPS_S = 1.0
"""How often to check for requests to stop: a small file in a folder that may be shared."""
ECHO_S = 0.5
"""The time between two signals of one stop: timeout(1) signals process and group, and systemd sends
SIGTERM and SIGHUP."""
LINE_EVERY_S = 30.0
"""The time between two lines of progress without a live table: a log of hours should stay
readable."""
LOOK_AT_TRIALS_S = 1.0
"""The least time between two checks of running trials' files. Only changed files are read."""
WATCH_S = 2.0
"""The same for `allelse status --watch`, which many people may run."""
LOOK_AT_LOG_S = 0.5
"""How often `allelse logs --follow` checks for new lines: they should appear at once."""
FIRST_PAUSE_S = 1.0
"""The pause before the syncer starts again; it doubles each time."""
LONGEST_PAUSE_S = 300.0
"""The longest such pause: a start imports MLflow for seconds and prints a line."""
CARRYING_S = 60.0
"""How long the end of a sweep waits for the last results; `allelse sync` sends the rest."""
SYNCER_ENDS_S = 2.0
"""How long the syncer has to end after SIGTERM: it may be suspended."""
SAMPLED_EVERY_S = 10.0
"""The time between two samples of CPU, memory and GPU: MLflow's default. Each sample is a point in
its database."""
STORAGE_S = 120.0
"""How long to retry failing storage: a restarting server, or a person who frees space, takes a
minute."""
STORAGE_PAUSE_S = 1.0
"""The time between two tries: each is one call, and training waits."""
LOOK_AT_LOCK_S = 5.0
"""The time between two signs of life of a process that waits while another one prepares the
data."""
FORMING_S = 120.0
"""How long the workers of a trial have to connect. One that died meanwhile never does."""
PEERS_S = 7 * 24 * 3600.0
"""How long they wait for each other later: one worker may evaluate for hours. A hang ends by
`sweep.stall_minutes`, and a death ends every wait."""
HEAD_CONNECTS_S = 3.0
"""How long a cluster's head may take to accept a connection before anything starts. Ray itself
would try for minutes."""
NODES_S = 20
"""How long a cluster may take to list its nodes."""
JOINED_S = 10
"""How long Ray looks for its node on this machine. It is shorter than ``NODES_S``, so that this
cause is reported."""
NODE_ANSWER_S = 60.0
"""How long a node may take to answer. It starts a process and may import the task from a slow
disk."""
PLACE_ANSWER_S = 8.0
"""How long a remote filesystem may take to write and remove one small file."""
STORE_CONNECTS_S = 2.0
"""How long a tracking server may take to accept a connection. A server that is down only causes a
notice, because journals wait."""
