"""Passes the checkpoint that rank zero chose to the other workers of an attempt.

Each node may see an older state of the shared folder for a while, and a worker that was cut off may still write there.
The choice therefore goes through the cluster's key-value store.
"""

import json
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from ray.experimental import internal_kv

from sweeps.running.chosen_start import Start
from sweeps.running.signs_of_life import NAMESPACE

LOOK_S = 0.1


@dataclass(frozen=True)
class SameStart:
    """One attempt's choice; ``name`` is its key in the store."""

    name: str = field(default_factory=lambda: f"start-{uuid.uuid4().hex}")

    def tell(self, start: Start | None) -> None:
        """From rank zero: None means the beginning."""
        content = json.dumps(None if start is None else asdict(start))
        internal_kv._internal_kv_put(self.name.encode(), content.encode(), namespace=NAMESPACE)

    def told(self) -> Start | None:
        """Wait for rank zero's choice. Its death or hang ends this worker, too."""
        while (content := internal_kv._internal_kv_get(self.name.encode(), namespace=NAMESPACE)) is None:
            time.sleep(LOOK_S)
        found = json.loads(content)
        return None if found is None else Start(**found)

    def loaded(self, rank: int, world: int) -> None:
        """This worker has read the checkpoint; rank zero waits for the others. Their end or hang ends it, too."""
        internal_kv._internal_kv_put(self._key_of(rank), b"", namespace=NAMESPACE)
        for other in range(world if rank == 0 else 0):
            while not internal_kv._internal_kv_exists(self._key_of(other), namespace=NAMESPACE):
                time.sleep(LOOK_S)

    def _key_of(self, rank: int) -> bytes:
        return f"{self.name}-{rank}".encode()

    def forget(self) -> None:
        with suppress(Exception):  # the cluster's store may be away
            internal_kv._internal_kv_del(self.name.encode(), del_by_prefix=True, namespace=NAMESPACE)
