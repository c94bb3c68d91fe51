"""`meridian demo`: prints its table, serves, and ends cleanly on Ctrl-C wherever it is."""

import os
import re
import signal
import socket
import subprocess

import pymongo
import pytest
from harness.servers import MERIDIAN, free_port


class Demo:
    """A demonstration with its own place for temporary files, in a process group as a terminal makes one."""

    def __init__(self, directory, *arguments):
        self.port, self.directory = free_port(), directory
        command = [str(MERIDIAN), "demo", "--listen", f"127.0.0.1:{self.port}", "--cache-size", "64MiB", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(directory)},
        )  # fmt: skip

    def read_until(self, text):
        """The lines up to the one with this text."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if text in line:
                return "".join(lines)
        raise AssertionError(f"no line with {text!r}:\n{''.join(lines)}{self.process.stderr.read()}")

    def interrupt(self):
        """Ctrl-C: the signal goes to the demonstration and to the server it started."""
        os.killpg(self.process.pid, signal.SIGINT)

    def assert_ended(self):
        out, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, out + errors
        assert "panicked" not in errors
        assert list(self.directory.iterdir()) == [], "its data directory is removed"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", self.port), timeout=5)
        return out


def test_once_prints_the_table_and_ends(tmp_path):
    out = Demo(tmp_path, "--once", "--events", "3000").assert_ended()
    assert "Loading 3,000 events" in out
    for row in ("date range, typed helper", "zoom 1, raw", "zoom 4, driver", "roll-up to daily", "data + indexes"):
        assert row in out, row
    assert "Without --once it goes on, and says how to connect" in out
    assert "mongosh" not in out and "Serving until" not in out, "nobody is invited to a server that has ended"


def test_once_says_how_to_go_on_with_data_that_stays(tmp_path):
    data, temporary = tmp_path / "data", tmp_path / "temporary"
    temporary.mkdir()
    demo = Demo(temporary, "--once", "--events", "2000", "--data", str(data))
    address = f"127.0.0.1:{demo.port}"
    command = re.search(f"meridian (serve --data {data}.* --listen {address})", demo.assert_ended())
    server = subprocess.Popen([MERIDIAN, *command[1].split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with pymongo.MongoClient(f"mongodb://{address}", directConnection=True) as client:
            assert client["weather"]["events"].count_documents({}) == 2000
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "kill -INT"])
def test_serves_until_interrupted(tmp_path, whole_group):
    demo = Demo(tmp_path, "--events", "2000")
    assert "mongosh mongodb://127.0.0.1:" in demo.read_until("Serving until Ctrl-C.")
    with pymongo.MongoClient(f"mongodb://127.0.0.1:{demo.port}", directConnection=True) as client:
        assert client["weather"]["events"].count_documents({}) == 2000
        assert client["weather"]["events"].count_documents({"indexnum": {"$gte": 0}}) == 2000
    if whole_group:
        demo.interrupt()
    else:
        demo.process.send_signal(signal.SIGINT)
    demo.assert_ended()


def test_can_be_interrupted_while_it_loads(tmp_path):
    demo = Demo(tmp_path, "--events", "300000")
    demo.read_until("Loading 300,000 events")
    demo.interrupt()
    out = demo.assert_ended()
    assert "Serving until" not in out
