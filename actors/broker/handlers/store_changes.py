"""Changes of a broker's own settings that name its key and trust stores: tried before the controller is asked.

Only this broker can read its files, so only it can say whether they would do. It is asked again to read them even if
their names stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.broker.context import BrokerContext
from actors.links.operations import ChangedResource
from actors.settings import BrokerConfig, SettingError
from actors.wire.config_resources import ConfigOperation, ConfigResourceType

_STORES = ("ssl.keystore.", "ssl.truststore.", "coterie.ssl.key.password.file")


def of_own_stores(resources: Iterable[ChangedResource], broker_id: int) -> ChangedResource | None:
    """The change that is about this broker's stores, if there is one."""
    own = (each for each in resources if each.type == ConfigResourceType.BROKER and each.name == str(broker_id))
    return next((each for each in own if any(_names_store(change.key) for change in each.operations)), None)


def prospect(context: BrokerContext, resource: ChangedResource) -> BrokerConfig | None:
    """The settings this broker would have after the change; None if it is refused anyway."""
    metadata, config = context.metadata, context.config
    own = _changed({} if resource.replace else metadata.broker_configs.get(resource.name, {}), resource)
    wanted: dict[str, str | None] = dict.fromkeys(config.dynamic)
    try:
        return config.with_dynamic(wanted | dict(metadata.broker_configs.get("", {})) | own)
    except SettingError:
        return None


def _changed(present: Mapping[str, str], resource: ChangedResource) -> dict[str, str]:
    changed = dict(present)
    for change in resource.operations:
        if change.operation == ConfigOperation.DELETE:
            changed.pop(change.key, None)
        elif change.operation == ConfigOperation.SET and change.value is not None:
            changed[change.key] = change.value
    return changed


def _names_store(key: str) -> bool:
    return any(store in key for store in _STORES)
