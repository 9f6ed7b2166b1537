"""What a client may do with a resource, as one number: KIP-430's sets of authorised operations.

There is no authoriser, so each set holds all that Kafka 4.1 knows for its kind of resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Kafka's operations and their codes; the bit of an operation is 1 << code."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """Kafka's kinds of resources that rights are given for, and their codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def label(self) -> str:
        """The name in the spelling of Kafka's documentation: `TransactionalId`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


_GROUP: Final = (
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS: Final = _bits(_GROUP)
TOPIC_OPERATIONS: Final = _bits((*_GROUP, AclOperation.WRITE, AclOperation.CREATE, AclOperation.ALTER))
CLUSTER_OPERATIONS: Final = _bits(
    (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    )
)
NOT_ASKED: Final = -(2**31)
"""What an answer says to a client that did not ask for them."""
