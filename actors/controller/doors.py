"""The listeners, under the names that the methods of controllers of earlier builds have for them (see `server`)."""

from actors.controller.listeners import listeners_of as doors_of
from actors.controller.listeners import plan_listeners as plan_doors

__all__ = ["doors_of", "plan_doors"]
