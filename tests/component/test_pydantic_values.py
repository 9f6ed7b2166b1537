"""Values by models of the real pydantic, which stands beside the other packages: see the Makefile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BESIDE = Path(sys.prefix) / "jobs"

PROGRAM = """
import json
import sys

sys.path.append(sys.argv[1])
import pydantic

from actors.client.errors import SerializationError
from actors.members.pools.handling.values import Values
from tests.support.member import record


class Click(pydantic.BaseModel):
    number: int
    tags: list[str] = []


values = Values({"key_deserializer": None, "value_deserializer": Click})
read = values.of([record(1)._replace(value=b'{"number": 7, "tags": ["new"]}')])
try:
    values.of([record(2)._replace(value=b'{"number": "many"}')])
    refused = ""
except SerializationError as error:
    refused = str(error)
print(json.dumps([pydantic.VERSION, type(read[0].value).__name__, read[0].value.model_dump(), refused]))
"""


@pytest.mark.skipif(not BESIDE.is_dir(), reason=f"pydantic is not in {BESIDE}: make setup")
def test_a_pydantic_model_makes_values_of_json_and_refuses_what_does_not_fit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(BESIDE)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    version, name, value, refused = json.loads(done.stdout)
    assert version.startswith("2.")
    assert (name, value) == ("Click", {"number": 7, "tags": ["new"]})
    assert "number" in refused
