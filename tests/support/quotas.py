"""Quotas are set over the wire."""

from __future__ import annotations

from actors.wire import messages
from tests.support.one_broker import Client


async def alter(client: Client, *entity: tuple[str, str | None], **rates: float) -> None:
    """Set quotas of an entity."""
    r = messages.AlterClientQuotasRequest
    parts = [r.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    ops = [r.OpData(key=key, value=value, remove=False) for key, value in rates.items()]
    (entry,) = (await client.ask(r(entries=[r.EntryData(entity=parts, ops=ops)]), 1)).entries
    assert entry.error_code == 0, entry.error_message
