"""A seed that finds each planted bug. A change of the product makes it another run: then one of the next ones does."""

KNOWN = {
    "vote-not-synced": 0,
    "vote-for-a-shorter-log": 3,
    "empty-disk-votes-under-its-old-id": 5,
    "pre-vote-granted-while-a-leader-lives": 5,
    "older-epoch-committed-by-count": 319,
    "acknowledged-before-synced": 0,
    "no-truncation": 1,
    "told-before-commit": 0,
    "snapshot-without-voters": 1,
    "deposed-leader-confirms": 1,
    "round-counted-from-its-answer": 106,
    "two-changes-of-voters-at-once": 324,
}
