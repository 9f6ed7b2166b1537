"""Tests that need PySpark, but no Spark that runs, where it is not installed."""

from __future__ import annotations

import importlib.util

import pytest

HAS_PYSPARK = importlib.util.find_spec("pyspark") is not None
NEEDS_PYSPARK = pytest.mark.skipif(not HAS_PYSPARK, reason="PySpark is not installed")
