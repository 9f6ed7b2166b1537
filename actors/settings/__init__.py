"""Settings: one table with type, default, range and meaning, from which checks, `--help` and the docs are made.

Nothing here knows of brokers, files or messages; nothing of Coterie is imported.
"""

from actors.settings.broker import SECTION_OF, SECTIONS, SETTINGS
from actors.settings.config import COMPACTION_LAGS, TOPIC_LAGS, BrokerConfig, check_lags
from actors.settings.describe import (
    ConfigValue,
    Source,
    Synonym,
    broker_config_names,
    broker_config_value,
    client_metrics_config_value,
    group_config_names,
    group_config_value,
    offsets_topic_configs,
    topic_config_names,
    topic_config_synonyms,
    topic_config_value,
    topic_configs,
    topic_value,
)
from actors.settings.kinds import Setting, SettingError, SettingType, Value
from actors.settings.known import (
    WITHOUT_EFFECT,
    accepted_settings,
    accepted_topic_settings,
    broker_setting,
    client_metrics_settings,
    group_settings,
    parse_topic_configs,
    topic_setting,
    without_effect,
)
from actors.settings.listeners import (
    ANY_HOST,
    LINKS,
    LISTENERS,
    OWN_STORE,
    OWN_TRUST,
    LinkSecurity,
    LinkStores,
    Listener,
    ListenerConfig,
    SecurityProtocol,
)
from actors.settings.properties import parse_properties
from actors.settings.topic import TOPIC_SETTINGS

__all__ = [
    "ANY_HOST",
    "COMPACTION_LAGS",
    "LINKS",
    "LISTENERS",
    "OWN_STORE",
    "OWN_TRUST",
    "SECTIONS",
    "SECTION_OF",
    "SETTINGS",
    "TOPIC_LAGS",
    "TOPIC_SETTINGS",
    "WITHOUT_EFFECT",
    "BrokerConfig",
    "ConfigValue",
    "LinkSecurity",
    "LinkStores",
    "Listener",
    "ListenerConfig",
    "SecurityProtocol",
    "Setting",
    "SettingError",
    "SettingType",
    "Source",
    "Synonym",
    "Value",
    "accepted_settings",
    "accepted_topic_settings",
    "broker_config_names",
    "broker_config_value",
    "broker_setting",
    "check_lags",
    "client_metrics_config_value",
    "client_metrics_settings",
    "group_config_names",
    "group_config_value",
    "group_settings",
    "offsets_topic_configs",
    "parse_properties",
    "parse_topic_configs",
    "topic_config_names",
    "topic_config_synonyms",
    "topic_config_value",
    "topic_configs",
    "topic_setting",
    "topic_value",
    "without_effect",
]
