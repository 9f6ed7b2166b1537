"""The rebalances of groups that do not exist, at the times that the console shows. Holds no tests."""

from __future__ import annotations

from actors.links.views import ClassicRebalanceView, Waited
from tests.support.synthetic_world import MINUTE, Made, client_id, member_id


def rebalances(made: Made, base: int, now: int, killed_ms: int | None) -> list[ClassicRebalanceView]:
    """A group's rebalances: of the hour before `base`, of this moment, and of a member of `billing` that was killed."""
    found = []
    if made.rebalances:
        found += [
            ClassicRebalanceView(
                made.name,
                base - 52 * MINUTE,
                11,
                "a member joined",
                member_id(made, 0),
                client_id(made, 0),
                "/10.0.0.11",
                base - 52 * MINUTE + 3_020,
                base - 52 * MINUTE + 3_190,
                3,
                came=tuple(member_id(made, n) for n in range(3)),
                waited=(Waited(member_id(made, 2), "join", 2_980, client_id(made, 2), "/10.0.0.13"),),
            ),
            ClassicRebalanceView(
                made.name,
                base - 26 * MINUTE,
                12,
                "a session ended: no heartbeat for 45 s",
                member_id(made, 21),
                client_id(made, 21),
                "/10.0.0.12",
                base - 26 * MINUTE + 8_400,
                base - 26 * MINUTE + 9_020,
                3,
                expelled=(member_id(made, 21),),
                waited=(
                    Waited(member_id(made, 1), "join", 8_350, client_id(made, 1), "/10.0.0.12"),
                    Waited(member_id(made, 0), "join", 1_200, client_id(made, 0), "/10.0.0.11"),
                ),
            ),
            ClassicRebalanceView(
                made.name,
                base - 19 * MINUTE,
                13,
                "a member joined",
                member_id(made, 3),
                client_id(made, 3),
                "/10.0.0.11",
                base - 19 * MINUTE + 1_450,
                base - 19 * MINUTE + 1_700,
                4,
                came=(member_id(made, 3),),
                left=(),
                waited=(Waited(member_id(made, 0), "join", 1_410, client_id(made, 0), "/10.0.0.11"),),
            ),
        ]
    if made.rebalances > 3:
        found.append(
            ClassicRebalanceView(
                made.name,
                base - 4 * MINUTE,
                14,
                "a member left",
                member_id(made, 22),
                client_id(made, 22),
                "/10.0.0.13",
                base - 4 * MINUTE + 700,
                base - 4 * MINUTE + 910,
                4,
                left=(member_id(made, 22),),
            )
        )
    if made.state == "PreparingRebalance":
        found.append(
            ClassicRebalanceView(
                made.name,
                now - 8_000 - now % 18_000,
                15,
                "a member joined",
                member_id(made, 4),
                client_id(made, 4),
                "/10.0.0.12",
                waited=(
                    Waited(member_id(made, 1), "join", 8_000 + now % 18_000, client_id(made, 1), "/10.0.0.12"),
                    Waited(member_id(made, 3), "join", 8_000 + now % 18_000, client_id(made, 3), "/10.0.0.11"),
                ),
                members=5,
                came=(member_id(made, 4),),
            )
        )
    if killed_ms is not None and made.name == "billing":
        found.append(
            ClassicRebalanceView(
                made.name,
                killed_ms,
                14,
                "a session ended: no heartbeat for 45 s",
                "killed-77e1",
                "billing-api",
                "/10.0.0.13",
                killed_ms + 2_100,
                killed_ms + 2_300,
                3,
                expelled=("killed-77e1",),
            )
        )
    return found
