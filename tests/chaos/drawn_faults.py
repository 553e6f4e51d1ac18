"""The faults that are drawn, and how a sweep may end by each."""

import signal

from faults import (
    UNTIL_TRAINING,
    End,
    Fault,
    ask_one_then_all_to_stop,
    ask_to_stop,
    cut,
    cut_head,
    fill_disk,
    freeze_disk,
    kill,
    kill_driver,
    kill_node_process,
    kill_on_head,
    kill_starting,
    leave,
    lose_head,
    lose_node,
    send,
    stop,
    stop_driver,
)
from target import ORDERS, SYNCER, TRAINS, TRIAL_PROCESS

AGAIN = "run again: allelse sweep"
RAY_ENDED = (End(1, f"; the trials resume from their last checkpoints. To continue, {AGAIN}"),)
KILLED = (End(-signal.SIGKILL),)
TERMINATED, INTERRUPTED = (End(143, AGAIN),), (End(130, AGAIN),)
ALL_STOPPED = End(130, "Next: allelse sweep")
"""Each trial was asked to stop, one by one."""

WORKER_KILLED = Fault("worker killed", kill(TRAINS))
NODE_LOST = Fault("node lost, back after 5 to 15 s", lose_node, lasts=(5, 15))
NODE_AWAY = Fault("node lost, back once training goes on", lose_node, lasts=(UNTIL_TRAINING, UNTIL_TRAINING))
"""To start Ray takes CPUs that here are the other nodes', too: this measures the recovery alone."""
LINK_CUT = Fault("link cut for 10 to 40 s", cut, lasts=(10, 40))
TRIAL_KILLED = Fault("trial's process killed", kill(TRIAL_PROCESS))
SYNCER_KILLED = Fault("syncer killed", kill(SYNCER), loses=False)
DRIVER_KILLED = Fault("sweep's process killed", kill_driver, ends=KILLED)

EVERYWHERE = [
    WORKER_KILLED,
    NODE_LOST,
    LINK_CUT,
    TRIAL_KILLED,
    SYNCER_KILLED,
    DRIVER_KILLED,
    Fault("worker and its successor killed", kill_starting),
    Fault("worker stopped for 2 to 8 s", stop(TRAINS), loses=False, lasts=(2, 8)),
    Fault("worker stopped for good", stop(TRAINS, for_good=True)),
    Fault("sweep's process stopped for 2 to 8 s", stop_driver, loses=False, lasts=(2, 8)),
    Fault("syncer stopped for 2 to 8 s", stop(SYNCER), loses=False, lasts=(2, 8)),
    Fault("orders killed", kill(ORDERS), loses=False),
    Fault("node's Ray process killed", kill_node_process),
    Fault("link cut for 1 to 3 s", cut, loses=None, lasts=(1, 3)),
    Fault("head's link cut for 2 to 30 s", cut_head, loses=None, lasts=(2, 30)),
    Fault("disk full for 2 to 20 s", fill_disk, loses=False, lasts=(2, 20)),
    Fault("disk silent for 2 to 15 s", freeze_disk, loses=None, lasts=(2, 15)),
    Fault("head's Ray process killed", kill_on_head("raylet/raylet"), ends=RAY_ENDED),
    Fault("Ray's head process killed", kill_on_head("gcs/gcs_server"), ends=RAY_ENDED),
    Fault("head lost", lose_head, ends=KILLED),
    Fault("SIGTERM", send(signal.SIGTERM), ends=TERMINATED),
    Fault("Ctrl-C", send(signal.SIGINT), ends=INTERRUPTED),
    Fault("Ctrl-C twice", send(signal.SIGINT, signal.SIGINT), ends=INTERRUPTED),
    Fault("allelse stop", ask_to_stop, ends=INTERRUPTED),
    Fault("allelse stop TRIAL, then all", ask_one_then_all_to_stop, ends=(*INTERRUPTED, ALL_STOPPED)),
]
OF_THE_SMALL_TASK = Fault("worker exits with code 0", leave)
DURING_RECOVERY = [WORKER_KILLED, TRIAL_KILLED, SYNCER_KILLED, DRIVER_KILLED]
"""What also strikes while a sweep recovers."""
