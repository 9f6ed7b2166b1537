"""The versions of a deployed pool that its supervisor has loaded. To load one runs code of the handler's."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any, NamedTuple

from actors.members.deployment.records import Deployment, python_version
from actors.members.deployment.seals import Seals
from actors.members.pools.plan import PoolError, PoolPlan
from actors.members.pools.slots import Version
from actors.runtime.process import error_text


class Loaded(NamedTuple):
    """A loaded version, and the deployment that it was made of."""

    version: Version
    deployment: Deployment


class Versions:
    """The versions of the pool `name`, by their marks. Each is loaded once. `seals` say which may be loaded."""

    def __init__(self, name: str, bootstrap_servers: str, seals: Seals) -> None:
        self._name = name
        self._servers = bootstrap_servers
        self._seals = seals
        self._loaded: dict[str, Loaded] = {}

    def load(self, deployment: Deployment, restart: str) -> Version:
        """Load a version to start members with, unless it is loaded. Raises PoolError if it cannot be loaded here."""
        mark = f"{deployment.id}/{restart}"
        self._seals.check(self._name, deployment)  # also one that is loaded already: it may be an old record again
        if mark not in self._loaded:
            self._loaded[mark] = Loaded(load(deployment, self._servers, mark), deployment)
        return self._loaded[mark].version

    def version(self, mark: str) -> Version:
        """The loaded version of this mark."""
        return self._loaded[mark].version

    def deployment(self, mark: str) -> Deployment | None:
        """The deployment that the version of this mark was made of; None if it is not loaded any more."""
        found = self._loaded.get(mark)
        return found.deployment if found is not None else None

    def keep(self, marks: Collection[str]) -> None:
        """Forget all but these."""
        self._loaded = {mark: found for mark, found in self._loaded.items() if mark in marks}


def load(deployment: Deployment, bootstrap_servers: str, mark: str) -> Version:
    """Load the version to start members with. This runs code of the handler's. Raises PoolError if that fails."""
    try:
        arguments: dict[str, Any] = pickle.loads(deployment.body)
        arguments |= {"bootstrap_servers": bootstrap_servers}
        return PoolPlan.of(**arguments).version(mark, deployment.version)
    except PoolError:
        raise
    except Exception as error:  # whatever the user's modules raise
        text = f"version {deployment.version} cannot be loaded: {type(error).__name__}: {error_text(error)}"
        if deployment.python != python_version():
            text += f" (it was deployed by Python {deployment.python}, and this is {python_version()})"
        raise PoolError(text) from error
