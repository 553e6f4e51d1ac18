"""Whether an error of a worker only means that another worker is gone."""

import re
import sys


def is_lost_peer(error: BaseException) -> bool:
    """Whether torch.distributed, in a process that has it, could not reach another worker."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None:
        return False
    unreachable = re.search(r"\bgloo\b|Connection (closed|reset|refused)", str(error))
    return isinstance(error, distributed.DistError) or (isinstance(error, RuntimeError) and unreachable is not None)
