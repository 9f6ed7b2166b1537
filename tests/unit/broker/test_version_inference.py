"""The release of Kafka that clients infer for us from the ranges of ApiVersions."""

from __future__ import annotations

import warnings

from actors.broker.handlers.registry import ADVERTISED, APIS
from actors.wire.api_keys import ApiKey

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData

RELEASE = (4, 3)
# Kafka 4.4's. No client is known to infer a release from it.
BEYOND = {ApiKey.API_VERSIONS: 5, ApiKey.DELETE_GROUPS: 3}


def test_kafka_python_takes_us_for_the_release_whose_protocol_is_served() -> None:
    assert BrokerVersionData(api_versions=dict(ADVERTISED)).broker_version == RELEASE


def test_no_range_ends_beyond_that_releases() -> None:
    assert ADVERTISED.keys() == APIS.keys()
    theirs = BROKER_API_VERSIONS[RELEASE]
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 0}  # Kafka serves it where a plugin collects metrics
    beyond = {
        key: last for key, (_, last) in ADVERTISED.items() if last > theirs.get(key, (0, telemetry.get(key, -1)))[1]
    }
    assert beyond == BEYOND, f"VERSIONS of these end beyond Kafka {RELEASE[0]}.{RELEASE[1]}'s"
