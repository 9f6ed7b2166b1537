"""`coterie console` as a process: it says where it is, answers, and ends with Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import urllib.request
from pathlib import Path

from tests.support.one_broker import world


def _read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


async def test_it_shows_any_kafka_until_it_is_interrupted(tmp_path: Path) -> None:
    async with world(tmp_path) as broker:
        servers = f"127.0.0.1:{broker.server.port}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "actors.cli.main", "console", "--bootstrap-server", servers, "--port", "0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            word, address = (await process.stdout.readline()).decode().split()
            assert word == "console"
            assert "1 of 1" in await asyncio.to_thread(_read, address)
            stream = await asyncio.to_thread(urllib.request.urlopen, f"{address}live/groups", timeout=20)
            assert stream.readline() == b"retry: 2000\n", "an open stream keeps nobody waiting"
            process.send_signal(signal.SIGINT)
            _, said = await process.communicate()
            stream.close()
            assert (process.returncode, said) == (0, b"")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_it_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    async with world(tmp_path) as broker:
        servers = f"127.0.0.1:{broker.server.port}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "actors.cli.main", "console", "--bootstrap-server", servers, "--port", "0"),
            *("--host", "0.0.0.0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, said = await process.communicate()
        assert (process.returncode, out) == (1, b"")
        assert said.startswith(b"coterie: nobody is asked who he is")
        assert said.count(b"\n") == 1
