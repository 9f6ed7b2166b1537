"""Spark's Kafka options: names as Spark has them, typed values, and errors of one line that name both."""

from __future__ import annotations

import re
from functools import partial

import pytest

from actors.settings import Setting, SettingType
from actors.settings.secret import Secret
from spark_bridge.bounds import EARLIEST, LATEST
from spark_bridge.options import OptionError, sink_options, source_options


def test_the_defaults_are_sparks():
    stream, bounded = source_options(streaming=True), source_options({}, streaming=False)
    assert (stream.starting.everywhere, stream.ending) == (LATEST, None)
    assert (bounded.starting.everywhere, bounded.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.is_default
    for each in (stream, bounded):
        assert each.fail_on_data_loss
        assert not each.include_headers
        assert each.min_partitions is None
        assert each.max_offsets_per_trigger is None
        assert each.max_trigger_delay_ms == 15 * 60_000
        assert each.poll_timeout_ms == 120_000
        assert each.revoke_wait_ms == 10_000
        assert each.client == {}


@pytest.mark.parametrize("spell", [str, str.lower, str.upper])
def test_names_are_case_insensitive_and_values_may_be_text(spell):
    given = {
        "subscribe": "a, b",
        "startingOffsets": '{"a":{"0":23,"1":-2}}',
        "maxOffsetsPerTrigger": "1000",
        "minOffsetsPerTrigger": 10,
        "maxTriggerDelay": "2m",
        "minPartitions": "4",
        "failOnDataLoss": "false",
        "includeHeaders": "TRUE",
        "kafkaConsumer.pollTimeoutMs": "500",
        "batch.timeout.ms": "60000",
        "revoke.wait.ms": 0,
        "kafka.bootstrap.servers": "h:1",
        "kafka.group.id": "g",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.bytes": "1000",
        "kafka.check.crcs": "false",
    }
    found = source_options({spell(name): value for name, value in given.items()}, streaming=True)
    assert found.subscribe == ("a", "b")
    assert found.starting.offsets == {("a", 0): 23, ("a", 1): EARLIEST}
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger, found.min_partitions) == (1000, 10, 4)
    assert (found.max_trigger_delay_ms, found.poll_timeout_ms, found.batch_timeout_ms) == (120_000, 500, 60_000)
    assert (found.fail_on_data_loss, found.include_headers, found.revoke_wait_ms) == (False, True, 0)
    assert (found.bootstrap_servers, found.group_id) == ("h:1", "g")
    assert found.client == {"isolation_level": "read_committed", "fetch_max_bytes": 1000, "check_crcs": False}
    assert found.read_committed


def test_what_an_admin_and_a_reader_do_not_know_is_left_out_for_them():
    given = {"kafka.session.timeout.ms": 10_000, "kafka.client.id": "c", "kafka.fetch.max.bytes": 5}
    found = source_options(given, streaming=True)
    assert found.admin_settings == {"client_id": "c"}
    assert found.reader_settings == {"client_id": "c", "fetch_max_bytes": 5}


def test_one_time_goes_before_times_and_these_before_offsets():
    offsets = {"startingOffsets": "earliest"}
    times = offsets | {"startingOffsetsByTimestamp": {"t": {"0": 5}}}
    time = times | {"startingTimestamp": "7"}
    assert source_options(offsets, streaming=True).starting.everywhere == EARLIEST
    assert source_options(times, streaming=True).starting.timestamps_ms == {("t", 0): 5}
    assert source_options(time, streaming=True).starting.timestamp_ms == 7


def test_no_record_so_young_is_an_error_unless_the_strategy_is_latest():
    time = {"startingTimestamp": 7, "endingTimestamp": 9}
    found = source_options(time, streaming=False)
    assert not found.starting.latest_if_none
    assert found.ending.latest_if_none
    assert source_options(
        time | {"startingOffsetsByTimestampStrategy": "Latest"}, streaming=False
    ).starting.latest_if_none


def test_assign_and_patterns():
    found = source_options({"assign": '{"b":[1,0],"a":[2]}'}, streaming=True)
    assert found.assign == (("b", 1), ("b", 0), ("a", 2))
    assert source_options({"subscribePattern": "t.*"}, streaming=True).subscribe_pattern == "t.*"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffset": "latest"}, ["startingOffset=latest", "startingOffsets"]),
        ({"kafka.session.timout.ms": 5}, ["kafka.session.timout.ms=5", "kafka.session.timeout.ms"]),
        ({"kafka.nothing": "x"}, ["kafka.nothing=x", "no such option"]),
        ({"startingOffsets": "newest"}, ["startingOffsets=newest", "earliest", '{"topic":{"0":23,"1":-2}}']),
        ({"startingOffsets": '{"t":[1]}'}, ['startingOffsets={"t":[1]}', "JSON"]),
        ({"startingOffsets": '{"t":{"0":-3}}'}, ["startingOffsets", "t-0 has -3", "at least -2"]),
        ({"startingOffsets": '{"t":{"x":3}}'}, ["startingOffsets", "JSON"]),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, ["startingOffsetsByTimestamp", "at least 0"]),
        ({"startingOffsetsByTimestampStrategy": "x"}, ["startingOffsetsByTimestampStrategy=x", "error or latest"]),
        ({"startingOffsets": "latest"}, ["startingOffsets=latest", "bounded"]),
        ({"startingOffsets": '{"t":{"0":-1}}'}, ["startingOffsets", "t-0 has -1"]),
        ({"endingOffsets": "earliest"}, ["endingOffsets=earliest", "bounded"]),
        ({"endingOffsets": {"t": {"0": -2}}}, ["endingOffsets", "t-0 has -2"]),
        ({"minPartitions": "0"}, ["minPartitions=0", "at least 1"]),
        ({"maxOffsetsPerTrigger": "many"}, ["maxOffsetsPerTrigger=many", "whole number"]),
        ({"maxTriggerDelay": "soon"}, ["maxTriggerDelay=soon", "15m"]),
        ({"failOnDataLoss": "yes"}, ["failOnDataLoss=yes", "true or false"]),
        ({"subscribePattern": "("}, ["subscribePattern=(", "regular expression"]),
        ({"subscribe": " , "}, ["subscribe= , ", "topics"]),
        ({"assign": '{"t":["0"]}'}, ["assign", '{"topic":[0,1]}']),
        ({"subscribe": "a", "subscribePattern": "b"}, ["subscribe and subscribePattern", "only one"]),
        ({"kafka.isolation.level": "dirty"}, ["kafka.isolation.level=dirty", "read_committed"]),
        ({"kafka.fetch.max.bytes": "-1"}, ["kafka.fetch.max.bytes=-1", "at least 1"]),
        ({"kafka.auto.offset.reset": "latest"}, ["kafka.auto.offset.reset=latest", "startingOffsets"]),
        ({"kafka.enable.auto.commit": "true"}, ["kafka.enable.auto.commit=true", "batches"]),
        ({"groupIdPrefix": "p"}, ["groupIdPrefix=p", "group_id"]),
        ({"kafka.security.protocol": "TLS"}, ["kafka.security.protocol: 'TLS'", "PLAINTEXT, SSL, SASL_PLAINTEXT"]),
        ({"kafka.ssl.truststore.type": "JKS"}, ["kafka.ssl.truststore.type: JKS", "PEM"]),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_names_option_and_value(options, words):
    with pytest.raises(OptionError) as failed:
        source_options(options, streaming=False)
    message = str(failed.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(OptionError, match=f"{name}=latest.*a stream has no end"):
        source_options({name: "latest"}, streaming=True)


@pytest.mark.conformance("XF-01")
@pytest.mark.parametrize("read", [sink_options, partial(source_options, streaming=True)])
def test_security_is_an_option_in_all_spellings(read):
    java = {
        "kafka.security.protocol": "sasl_ssl",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password.file": "/secret",
    }
    ours = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.cafile": "/ca.pem",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.plain.username": "alice",
        "kafka.sasl.password.file": "/secret",
    }
    assert read(java).client == read(ours).client
    assert read(ours).client == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "/ca.pem",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_password_file": "/secret",
    }
    assert read({"kafka.security.protocol": "PLAINTEXT", "kafka.ssl.check.hostname": False}).client == {
        "security_protocol": "PLAINTEXT",
        "ssl_check_hostname": False,
    }


@pytest.mark.conformance("XE-35", "XE-51")
@pytest.mark.parametrize("read", [sink_options, partial(source_options, streaming=True)])
@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("kafka.sasl.plain.password", "swordfish", "kafka.sasl.password.file"),
        ("kafka.sasl.password", Secret("swordfish"), "kafka.sasl.password.file"),
        (
            "kafka.sasl.jaas.config",
            'x.PlainLoginModule required username="u" password="swordfish";',
            "kafka.sasl.password",
        ),
        ("kafka.ssl.key.password", "swordfish", "kafka.ssl.keyfile"),
        ("kafka.ssl.keystore.key", "swordfish", "kafka.ssl.keyfile"),
    ],
)
def test_a_secret_is_refused_and_the_error_says_how_it_goes(read, name, value, instead):
    with pytest.raises(OptionError, match=r"^kafka\.\S+ does not travel to executors and actors") as raised:
        read({name: value})
    assert instead in str(raised.value)
    assert "swordfish" not in str(raised.value)


def test_a_sink_knows_its_topic_and_the_producers_settings():
    found = sink_options({"TOPIC": "t", "kafka.bootstrap.servers": "h:1", "kafka.linger.ms": "5", "kafka.acks": "all"})
    assert (found.topic, found.bootstrap_servers) == ("t", "h:1")
    assert found.client == {"linger_ms": 5, "acks": "all"}


@pytest.mark.parametrize(
    "options",
    [{"kafka.acks": 1}, {"kafka.enable.idempotence": "false"}, {"kafka.fetch.max.bytes": 1}, {"subscribe": "t"}],
)
def test_a_sink_refuses_what_is_not_its_own(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        sink_options(options)


@pytest.mark.conformance("XE-31")
@pytest.mark.parametrize(
    "name", ["kafka.sasl.jaas.conf", "kafka.SASL.pasword", "kafka.ssl.keystore.certificate.chains", "apiToken"]
)
@pytest.mark.parametrize("read", [sink_options, partial(source_options, streaming=True)])
def test_the_value_of_an_unknown_option_that_may_be_a_secret_is_not_shown(name, read):
    with pytest.raises(OptionError, match=rf"^{re.escape(name)}=\[hidden\]: there is no such option"):
        read({name: "swordfish"})


@pytest.mark.conformance("XE-31")
def test_the_value_of_a_secret_option_is_not_shown(monkeypatch):
    """There is none yet, so that this one is made up."""
    wings = Setting(name="wings", type=SettingType.PASSWORD, default=None, doc="", check=lambda _: "must be longer")
    monkeypatch.setattr("spark_bridge.options.PRODUCER_SETTINGS", {"wings": wings})
    with pytest.raises(OptionError, match=r"^kafka.wings=\[hidden\]: must be longer$"):
        sink_options({"kafka.wings": "swordfish"})
