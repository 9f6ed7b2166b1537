"""Mends a history in which one id belongs to two groups.

**The cause.** The file numbers groups. Until this was mended, a look whose rows could not all be stored was rolled
back, while the numbers that it had given stayed in memory: the file gave them again, to the next new group. Then points
and rebalances of both were written under one id, until the Monitor read the ids from the file again, after some
minutes. Rows from before the second group came belong to no group of the file.

**The signs.** A rebalance names its group, which is not that of its id. And a look writes the same point to each grain,
so that two grains of one curve never differ about one moment, unless two groups wrote them. An id that no group has is
in use.

**The remedy** is applied at each start, in one transaction. A rebalance goes to the group that it names, so that none
is lost. A point does not say whose it is. Those of a shared id are dropped from its beginning to the last sign of the
other group, and on to the next moment about which two grains agree, since that was written by one group alone; at most
for `SAME_MS`, the longest time in which a curve may stay without a sign. A newer one is of the group that has the id,
and stays. Points of no group are dropped. If two groups used an id one after the other, and neither was rebalanced,
nothing shows it, and nothing is done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from actors.links.views import RebalanceView
from actors.monitor.curves import SAME_MS
from actors.monitor.history_rows import is_of, unpacked

_GRAINS: Final = (0, 1, 2)
_PAIRS: Final = ((0, 1), (0, 2), (1, 2))
_NAMED: Final = 5  # the number of groups that a line of the log names

_REBALANCES: Final = """
SELECT rebalances.group_id, began_ms, generation_id, row, name
FROM rebalances LEFT JOIN groups ON groups.id = rebalances.group_id
"""
_FREE_ID: Final = """
SELECT 1 + max(
  ifnull((SELECT max(id) FROM groups), 0),
  ifnull((SELECT max(group_id) FROM rebalances), 0),
  ifnull((SELECT max(group_id) FROM lag WHERE grain = 0), 0),
  ifnull((SELECT max(group_id) FROM lag WHERE grain = 1), 0),
  ifnull((SELECT max(group_id) FROM lag WHERE grain = 2), 0))
"""
_TWICE: Final = """
FROM lag AS coarse JOIN lag AS fine
  ON fine.grain = :fine AND fine.group_id = :group_id AND fine.wall_ms = coarse.wall_ms
WHERE coarse.grain = :coarse AND coarse.group_id = :group_id
  AND coarse.wall_ms >= (SELECT min(wall_ms) FROM lag WHERE grain = :fine AND group_id = :group_id)
"""
"""Moments of a curve about which two grains tell."""
_AGREE: Final = (
    "(coarse.lag IS fine.lag AND coarse.lag_seconds IS fine.lag_seconds AND coarse.committed IS fine.committed)"
)
_LAST_DIFFERENCE: Final = f"SELECT max(coarse.wall_ms) {_TWICE} AND NOT {_AGREE}"
_NEXT_AGREEMENT: Final = f"SELECT min(coarse.wall_ms) {_TWICE} AND coarse.wall_ms > :after AND {_AGREE}"


@dataclass(slots=True)
class _Mended:
    moved: int = 0
    ownerless: int = 0
    dropped: int = 0
    shared: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.shared:
            names = ", ".join(repr(name) for name in self.shared[:_NAMED])
            more = f" and {len(self.shared) - _NAMED} more" if len(self.shared) > _NAMED else ""
            parts.append(
                f"the ids of {names}{more} belonged to another group too, and {self.dropped} of their points, which "
                "may be of either, are dropped"
            )
        if self.moved:
            parts.append(f"{self.moved} rebalances are put to the groups that they name")
        if self.ownerless:
            parts.append(f"{self.ownerless} points of no group are dropped")
        return "; ".join(parts)


def mend(db: sqlite3.Connection) -> str:
    """Mend what is to be mended, or nothing. Returns what was done, for people. Raises sqlite3.DatabaseError."""
    made = _Mended()
    with db:
        names = {int(number): str(name) for number, name in db.execute("SELECT id, name FROM groups")}
        signs = _move_rebalances(db, made)
        for number in sorted(_used(db)):
            if number not in names:
                made.ownerless += db.execute(*_deletion(number)).rowcount
            elif (sign := _last_sign(db, number, signs.get(number))) is not None:
                made.dropped += db.execute(*_deletion(number, _alone_since(db, number, sign))).rowcount
                made.shared += (names[number],)
    return str(made)


def _deletion(group: int, before_ms: int | None = None) -> tuple[str, dict[str, int | None]]:
    """The points of a group before a moment, or all."""
    places = "group_id = :group_id AND grain IN (0, 1, 2) AND wall_ms < ifnull(:before_ms, wall_ms + 1)"
    return f"DELETE FROM lag WHERE {places}", {"group_id": group, "before_ms": before_ms}


def _move_rebalances(db: sqlite3.Connection, made: _Mended) -> dict[int, int]:
    """Put each rebalance to the group that it names. Returns for each id when another group used it last."""
    signs: dict[int, int] = {}
    foreign = [row for row in db.execute(_REBALANCES) if not is_of(row[3], row[4])]
    for number, began_ms, generation_id, text, name in foreign:
        found = unpacked(text)
        if found is None or found.group_id == name:
            continue  # it cannot be read, or was written by another hand
        key = (number, began_ms, generation_id)
        db.execute("DELETE FROM rebalances WHERE (group_id, began_ms, generation_id) = (?, ?, ?)", key)
        own = (_id(db, found.group_id), began_ms, generation_id, text)
        db.execute("INSERT OR REPLACE INTO rebalances VALUES (?, ?, ?, ?)", own)
        signs[number] = max(signs.get(number, 0), _told_ms(found))
        made.moved += 1
    return signs


def _told_ms(found: RebalanceView) -> int:
    ends = (found.ended_ms, *(each.until_ms for each in found.phases))
    return max(found.began_ms, *(each for each in ends if each is not None))


def _id(db: sqlite3.Connection, group: str) -> int:
    """The group's id; a new one is none that has been in use."""
    db.execute(f"INSERT OR IGNORE INTO groups (id, name) VALUES (({_FREE_ID}), ?)", (group,))
    return int(db.execute("SELECT id FROM groups WHERE name = ?", (group,)).fetchone()[0])


def _used(db: sqlite3.Connection) -> set[int]:
    """The ids that have points."""
    return {number for grain in _GRAINS for number in _used_by(db, grain)}


def _used_by(db: sqlite3.Connection, grain: int) -> Iterator[int]:
    """From one to the next by the index: that is quick, however many points each has."""
    after = -(1 << 63)
    question = "SELECT min(group_id) FROM lag WHERE grain = ? AND group_id > ?"
    while (found := db.execute(question, (grain, after)).fetchone()[0]) is not None:
        after = int(found)
        yield after


def _last_sign(db: sqlite3.Connection, group: int, rebalance_ms: int | None) -> int | None:
    """The last time that another group used this id, as far as anything shows it."""
    told = _of_pairs(db, _LAST_DIFFERENCE, group)
    return max((each for each in (*told, rebalance_ms) if each is not None), default=None)


def _alone_since(db: sqlite3.Connection, group: int, sign_ms: int) -> int:
    """Since when the group has its id alone, given the last sign of another one."""
    return min([sign_ms + SAME_MS, *_of_pairs(db, _NEXT_AGREEMENT, group, after=sign_ms)])


def _of_pairs(db: sqlite3.Connection, question: str, group: int, **named: int) -> list[int]:
    """The answers for each two grains of a curve, where there is one."""
    pairs = ({"fine": fine, "coarse": coarse, "group_id": group, **named} for fine, coarse in _PAIRS)
    told = [db.execute(question, pair).fetchone()[0] for pair in pairs]
    return [int(each) for each in told if each is not None]
