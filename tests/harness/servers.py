"""Starts and stops the two servers: the built `meridian` and a real mongod, the oracle.

Each gets a free port and a directory of its own, and is killed when the tests end. With
MERIDIAN_TEST_PEER=mongod a second mongod stands in for Meridian (to test the tests), and
MERIDIAN_TEST_PORT names the port of a Meridian that already runs.
"""

import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pymongo

from . import canonical, wire

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = pathlib.Path(os.environ.get("MERIDIAN_CACHE", pathlib.Path.home() / ".cache" / "meridian"))
MONGOD = CACHE / "mongod" / "mongod"
MERIDIAN = pathlib.Path(os.environ.get("MERIDIAN_BINARY", ROOT / "bin" / "meridian"))
START_SECONDS_MAX = 60
REPLY_SECONDS_MAX = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server process on one data directory; survives `kill` and `start` again."""

    name = ""

    def __init__(self, directory=None, arguments=()):
        self.owned = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix=f"meridian-test-{self.name}-"))
        self.data = self.directory / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / "server.log"
        self.arguments = list(arguments)
        self.port = free_port()
        self.process = None
        self._client = None
        self._wire = None

    # -- life

    def command_line(self):
        raise NotImplementedError

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command_line(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._wait_until_ready()
        return self

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.log_tail()}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"{self.name} did not listen within {START_SECONDS_MAX} s:\n{self.log_tail()}")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """SIGKILL: the process gets no chance to write anything more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def terminate(self, seconds_max=30):
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds_max)

    def disconnect(self):
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def close(self):
        self.disconnect()
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.owned:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self if self.alive() else self.start()

    def __exit__(self, *_):
        self.close()

    def log_tail(self, lines=30):
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    # -- talk

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/"

    def connect(self, **options):
        # Under load the first answer may take a while.
        options.setdefault("serverSelectionTimeoutMS", START_SECONDS_MAX * 1000)
        options.setdefault("socketTimeoutMS", REPLY_SECONDS_MAX * 1000)
        return pymongo.MongoClient(self.uri, directConnection=True, **options)

    @property
    def client(self):
        if self._client is None:
            self._client = self.connect(retryWrites=False, retryReads=False)
        return self._client

    def ensure_alive(self):
        """Starts the process again if an earlier test brought it down."""
        if not self.alive():
            self.start()

    def run(self, database, command):
        """The canonical reply to a command, errors included."""
        if self._wire is None:
            self._wire = wire.Connection(self.port, REPLY_SECONDS_MAX)
        return canonical.decode(self._wire.command(database, command))


class Mongod(Server):
    """The real MongoDB 6.0.5."""

    name = "mongod"

    def command_line(self):
        return [
            str(MONGOD), "--dbpath", str(self.data), "--port", str(self.port), "--bind_ip", "127.0.0.1",
            "--wiredTigerCacheSizeGB", "0.5", "--setParameter", "diagnosticDataCollectionEnabled=false",
            "--setParameter", "ttlMonitorSleepSecs=1", "--nounixsocket", *self.arguments,
        ]  # fmt: skip


class Meridian(Server):
    """The program under test, as `make build` leaves it."""

    name = "meridian"

    def __init__(self, directory=None, arguments=(), encrypted=False):
        super().__init__(directory, arguments)
        self.key_arguments = ["--encryption-key-file", str(master_key(self.directory / "key"))] if encrypted else []

    def command_line(self):
        return [
            str(MERIDIAN), "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}",
            "--cache-size", "256MiB", "--ttl-sweep-seconds", "1", *self.key_arguments, *self.arguments,
        ]  # fmt: skip

    def tool(self, name, *arguments):
        """`meridian check` and the like on the data directory."""
        command = [str(MERIDIAN), name, *arguments, *self.key_arguments, str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)


def master_key(path, byte=b"k"):
    """A file with a master key, the same for the same byte."""
    path.write_bytes(base64.b64encode(byte * 32))
    path.chmod(0o600)
    return path


class Running(Server):
    """A server somebody else started on this machine, by its port."""

    name = "running"

    def __init__(self, port):
        self.port = port
        self.log = pathlib.Path(os.devnull)
        self._client = self._wire = None

    def start(self):
        return self

    def alive(self):
        return True

    def close(self):
        self.disconnect()


def start_oracle():
    return Mongod().start()


def start_subject(arguments=()):
    if port := os.environ.get("MERIDIAN_TEST_PORT"):
        return Running(int(port))
    if os.environ.get("MERIDIAN_TEST_PEER") == "mongod":
        return Mongod().start()
    return Meridian(arguments=arguments).start()
