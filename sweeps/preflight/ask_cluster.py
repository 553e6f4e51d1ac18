"""The nodes of a Ray cluster as JSON. A process of its own: a connection that hangs cannot be ended otherwise.

``python -m sweeps.preflight.ask_cluster ADDRESS``
"""

import json
import sys


def main() -> None:
    """Print a list of {"total": resources, "free": resources} per node that is alive."""
    import ray
    from ray._private.services import canonicalize_bootstrap_address
    from ray._private.state import available_resources_per_node

    if head := canonicalize_bootstrap_address(sys.argv[1]):
        ray._raylet.GcsClient(address=head)  # a wrong token fails here at once; ``ray.init`` tries for 20 s
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
    free = available_resources_per_node()
    nodes = [
        {"total": node["Resources"], "free": free.get(node["NodeID"], {})} for node in ray.nodes() if node["Alive"]
    ]
    ray.shutdown()
    print(json.dumps(nodes))


if __name__ == "__main__":
    main()
