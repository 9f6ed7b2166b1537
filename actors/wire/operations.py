"""The operations that a resource allows, as one number: KIP-430's sets of authorised operations, bit n for code n.

Each of these has all that Kafka 4.4 knows for its kind of resource: what a client may do where nothing is forbidden.
`actors.security.acl` has the operations by name.
"""

from __future__ import annotations

from typing import Final

GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
TOPIC_OPERATIONS: Final = GROUP_OPERATIONS | 1 << 4 | 1 << 5 | 1 << 7
CLUSTER_OPERATIONS: Final = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
NOT_ASKED: Final = -(2**31)
"""The value in answers to a client that did not ask for them."""
