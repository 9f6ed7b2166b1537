"""Gives the lag of groups to Ray's own exporter, by `ray.util.metrics` (`coterie.metrics.ray`).

Ray's exporter is there where Ray was installed with its dashboard. Elsewhere nobody takes the figures, and nothing else
happens. A figure that was given stays, in Ray, until this process ends. Ray takes ASCII only, and raises for all else:
other characters of a group's name are told as escapes.
"""

from __future__ import annotations

from ray.util.metrics import Gauge

from actors.monitor.answers import Picture

GROUPS_MAX = 1_000
"""The most groups that are told of: in Ray each stays for good."""


class RayBridge:
    """Told after each look."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._groups: set[str] = set()
        tags = ("cluster", "consumergroup")
        self._lag = Gauge("coterie_group_lag", "Records that the group has not read.", tags)
        self._seconds = Gauge("coterie_group_lag_seconds", "Age of the oldest record that it has not read.", tags)
        self._members = Gauge("coterie_group_members", "Members of the group.", tags)

    def tell(self, picture: Picture) -> None:
        """Give Ray the figures of a look."""
        for _, group in list(picture.offsets):
            if group.group_id not in self._groups and len(self._groups) >= GROUPS_MAX:
                continue
            self._groups.add(group.group_id)
            tags = {"cluster": _ascii(self._cluster), "consumergroup": _ascii(group.group_id)}
            lag = picture.memory.lags.get(group.group_id)
            if lag is not None and lag.records is not None:
                self._lag.set(lag.records, tags)
            if lag is not None and lag.seconds is not None:
                self._seconds.set(lag.seconds, tags)
            self._members.set(len(group.members), tags)


def _ascii(text: str) -> str:
    """The text in ASCII; other characters are escapes, as `repr` has them."""
    return text if text.isascii() else text.encode("ascii", "backslashreplace").decode()
