"""The active controller, for threads other than that of its loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from actors.controller.active import ActiveController
from actors.controller.metadata.commits import NotControllerError
from actors.controller.node import ControllerNode
from actors.runtime.process import LoopThread
from placement.records import Record

T = TypeVar("T")


class OnLoop:
    """The active controller of a node, for other threads than the loop's."""

    def __init__(self, thread: LoopThread, node: ControllerNode) -> None:
        self._thread = thread
        self.node = node

    @property
    def controller(self) -> ActiveController:
        """The controller, while it is this node. Raises NotControllerError."""
        if self.node.server is None:
            raise NotControllerError("another node is the controller now")
        return self.node.server

    def ask(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run `call` on the loop, so that nothing changes meanwhile; its result."""

        async def on_loop() -> T:
            return call(*arguments)

        return self._thread.call(on_loop())

    def tell(self, call: Callable[..., None], *arguments: Any) -> None:
        """Run `call` on the loop, and do not wait for it."""
        self._thread.loop.call_soon_threadsafe(call, *arguments)

    def wait(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` on the loop to its end; its result. Raises TimeoutError."""
        return self._thread.call(work, timeout_s)

    def commit(self, records: Sequence[Record]) -> None:
        """Return when records have committed. Raises OSError, NotControllerError."""
        controller = self.controller
        self.wait(controller.committed(lambda: controller.publisher.commit(records)))

    def end(self) -> None:
        """Close the node, and end the loop."""
        self.ask(self.node.close)
        self._thread.close()
