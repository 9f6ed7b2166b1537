"""A Ray that ends before the cluster on it: `coterie up` waited a minute for it, and died of Ray's C++."""

from __future__ import annotations

import threading

from actors.cli.without_ray import watch


def test_up_ends_when_its_ray_has_ended_while_it_stops() -> None:
    stop, over, left = threading.Event(), threading.Event(), threading.Event()
    watch(stop, lambda: False, over, left.set)
    stop.set()
    assert left.wait(60)


def test_a_ray_that_is_there_until_the_cluster_has_stopped_ends_nothing() -> None:
    stop, over, asked, left = (threading.Event() for _ in range(4))

    def there() -> bool:
        asked.set()
        return True

    stop.set()
    watch(stop, there, over, left.set)
    assert asked.wait(60)
    over.set()
    assert not left.is_set()
