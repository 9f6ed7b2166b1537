"""The methods of `Admin` for the settings of topics, brokers and groups, on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actors.client.admin.brokers import Brokers, Outcomes, outcome
from actors.client.admin.types import ConfigEntry, ConfigResource
from actors.client.error_codes import error_for, is_retriable
from actors.client.errors import KafkaError
from actors.client.records import Node
from actors.wire.config_resources import ConfigResourceType
from actors.wire.messages import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest

_SET, _DELETE = 0, 1
_DEFAULT_SOURCE = 5
Settings = Mapping[ConfigResource, Mapping[str, str | None]]
Entries = dict[ConfigResource, dict[str, ConfigEntry]]


class Configs:
    """Describes and changes settings. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def describe(self, resources: list[ConfigResource], names: Sequence[str] | None, deadline: int) -> Entries:
        """The settings of each resource; with `names` only these."""
        keys = None if names is None else list(names)
        part = DescribeConfigsRequest.DescribeConfigsResource
        found: Entries = {}
        for node, some in (await self._who_knows(resources, deadline)).items():
            asked = [part(resource_type=int(r.type), resource_name=r.name, configuration_keys=keys) for r in some]
            request = DescribeConfigsRequest(resources=asked)

            async def attempt(node: Node | None = node, request: DescribeConfigsRequest = request) -> Entries:
                response = await self._brokers.network.ask(node, request)
                return {_resource(r): _entries(r) for r in response.results}

            found |= await self._brokers.again(attempt, deadline)
        return found

    async def change(self, changes: Settings, validate_only: bool, deadline: int) -> Outcomes[ConfigResource]:
        """Change these settings and no others; None sets one back to its default (KIP-339)."""
        setting, part = IncrementalAlterConfigsRequest.AlterableConfig, IncrementalAlterConfigsRequest

        def make(some: list[ConfigResource]) -> IncrementalAlterConfigsRequest:
            resources = []
            for r in some:
                configs = [
                    setting(name=name, value=value, config_operation=_DELETE if value is None else _SET)
                    for name, value in changes[r].items()
                ]
                resources.append(
                    part.AlterConfigsResource(resource_type=int(r.type), resource_name=r.name, configs=configs)
                )
            return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)

        return await self._alter(changes, make, deadline)

    async def replace(self, settings: Settings, validate_only: bool, deadline: int) -> Outcomes[ConfigResource]:
        """Replace all settings of each resource."""
        part = AlterConfigsRequest

        def make(some: list[ConfigResource]) -> AlterConfigsRequest:
            resources = [
                part.AlterConfigsResource(
                    resource_type=int(r.type),
                    resource_name=r.name,
                    configs=[part.AlterableConfig(name=name, value=value) for name, value in settings[r].items()],
                )
                for r in some
            ]
            return AlterConfigsRequest(resources=resources, validate_only=validate_only)

        return await self._alter(settings, make, deadline)

    async def _alter(
        self,
        resources: Iterable[ConfigResource],
        make: Callable[[list[ConfigResource]], AlterConfigsRequest | IncrementalAlterConfigsRequest],
        deadline: int,
    ) -> Outcomes[ConfigResource]:
        results: Outcomes[ConfigResource] = {}
        for node, some in (await self._who_knows(resources, deadline)).items():

            async def attempt(node: Node | None = node, some: list[ConfigResource] = some) -> Any:
                response = await self._brokers.network.ask(node, make(some))
                for r in response.responses:
                    if is_retriable(r.error_code):
                        raise error_for(r.error_code, f"changing settings of {r.resource_name}", r.error_message)
                return response

            for r in (await self._brokers.again(attempt, deadline)).responses:
                what = f"changing settings of {r.resource_name}"
                results[_resource(r)] = outcome(r.error_code, what, r.error_message, r.resource_name)
        return results

    async def _who_knows(
        self, resources: Iterable[ConfigResource], deadline: int
    ) -> dict[Node | None, list[ConfigResource]]:
        """The broker to ask about a resource: a broker's settings only that broker knows, all others any (None)."""
        cluster = await self._brokers.metadata((), deadline)
        by_node: dict[Node | None, list[ConfigResource]] = {}
        for resource in resources:
            own = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name
            node = cluster.brokers.get(int(resource.name)) if own else None
            if own and node is None:
                raise KafkaError(f"there is no broker {resource.name}; there are {sorted(cluster.brokers)}")
            by_node.setdefault(node, []).append(resource)
        return by_node


def _resource(answer: Any) -> ConfigResource:
    return ConfigResource(ConfigResourceType(answer.resource_type), answer.resource_name)


def _entries(answer: Any) -> dict[str, ConfigEntry]:
    if answer.error_code:
        what = f"settings of {answer.resource_name}"
        raise error_for(answer.error_code, what, answer.error_message, [answer.resource_name])
    return {
        c.name: ConfigEntry(
            c.name, c.value, c.config_source, c.config_source == _DEFAULT_SOURCE, c.read_only, c.is_sensitive
        )
        for c in answer.configs
    }
