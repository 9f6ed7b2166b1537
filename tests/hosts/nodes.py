"""The nodes of a Ray, as its head sees them. Runs on a host."""

from __future__ import annotations


def alive(ray_address: str) -> list[str]:
    """The addresses of those that the head takes for alive."""
    import ray

    ray.init(address=ray_address, logging_level="ERROR", log_to_driver=False)
    return [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
