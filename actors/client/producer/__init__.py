"""The producer: records into batches, batches to leaders, in order and once (KIP-98's idempotence)."""
