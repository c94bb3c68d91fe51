"""Who may reach the data: signals, files' modes, addresses, encryption, and what the operator is told of them."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time

import pytest
from harness.servers import MERIDIAN, Meridian

ACCESS_CONTROL = (
    "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted"
)


def log(server):
    return server.log.read_text(encoding="utf-8", errors="replace")


def wait_for_log(server, text):
    deadline = time.monotonic() + 15
    while text not in log(server):
        assert time.monotonic() < deadline, f"no {text!r} in\n{log(server)}"
        time.sleep(0.05)


def warnings(server):
    lines = server.client.admin.command("getLog", "startupWarnings")
    assert lines["totalLinesWritten"] == len(lines["log"])
    return [json.loads(line) for line in lines["log"]]


def test_hangup_ends_nothing(tmp_path):
    with Meridian(tmp_path / "server") as server:
        for _ in range(3):
            server.process.send_signal(signal.SIGHUP)
            wait_for_log(server, "SIGHUP")
            assert server.client.admin.command("ping")["ok"] == 1
        assert server.alive()
        # Other signals still end it.
        assert server.terminate(20) == 0


def modes(directory):
    found = {directory: stat.S_IMODE(os.stat(directory).st_mode)}
    for parent, directories, files in os.walk(directory):
        for name in [*directories, *files]:
            path = os.path.join(parent, name)
            found[path] = stat.S_IMODE(os.stat(path).st_mode)
    return found


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_files_are_readable_by_their_owner_only(tmp_path, umask):
    server = Meridian(tmp_path / "server")
    os.rmdir(server.data)
    before = os.umask(umask)
    try:
        server.start()
    finally:
        os.umask(before)
    with server:
        server.client["db"]["c"].insert_many([{"a": number} for number in range(1000)])
        server.client["db"]["c"].create_index("a")
        server.client.admin.command("fsync")
        for path, mode in modes(str(server.data)).items():
            assert mode & 0o077 == 0, f"{path} {mode:o}"
        assert stat.S_IMODE(os.stat(server.data).st_mode) == 0o700
        assert [warning["msg"] for warning in warnings(server)] == [ACCESS_CONTROL]


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777], ids=oct)
def test_an_open_directory_is_warned_of(tmp_path, mode):
    server = Meridian(tmp_path / "server")
    os.chmod(server.data, mode)
    with server.start():
        wait_for_log(server, f"has mode {mode:04o}")
        assert any(str(server.data) in warning["msg"] for warning in warnings(server))


def test_startup_warnings_have_mongods_words(tmp_path):
    with Meridian(tmp_path / "server") as server:
        wait_for_log(server, ACCESS_CONTROL)
        first = warnings(server)[0]
        assert first["msg"] == ACCESS_CONTROL and first["id"] == 22120 and first["tags"] == ["startupWarnings"]
        assert first["s"] == "W" and first["c"] == "CONTROL" and first["ctx"] == "initandlisten"
        time.sleep(0.01)
        assert warnings(server)[0] == first, "the time is the start's"
        assert not any("listens on" in warning["msg"] for warning in warnings(server))


@pytest.mark.parametrize("address", ["0.0.0.0", "[::]"])
def test_listening_beyond_this_machine_is_warned_of(tmp_path, address):
    server = Meridian(tmp_path / "server")
    server.command_line = lambda: [
        str(MERIDIAN), "serve", "--data", str(server.data), "--listen", f"{address}:{server.port}", "--cache-size", "128MiB",
        "--auth", "off",
    ]  # fmt: skip
    with server.start():
        wait_for_log(server, "beyond this machine")
        assert any(f"{address}:{server.port}" in warning["msg"] for warning in warnings(server))


@pytest.mark.parametrize("address", ["0.0.0.0", "[::]"])
def test_listening_beyond_this_machine_needs_a_word_about_access(tmp_path, address):
    result = subprocess.run(
        [str(MERIDIAN), "serve", "--data", str(tmp_path / "data"), "--listen", f"{address}:0"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert result.returncode != 0
    assert "--auth on" in result.stderr and "--auth off" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("more", [[], ["--tls-mode", "require"], ["--tls-mode", "disabled"], ["--tls-mode", "allow"]])
def test_an_authority_without_a_certificate_is_refused(tmp_path, more):
    (tmp_path / "ca.pem").write_text("")
    result = subprocess.run(
        [str(MERIDIAN), "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--tls-ca-file", str(tmp_path / "ca.pem"), *more],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert result.returncode != 0
    assert "tls-ca-file needs tls-certificate-key-file" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_tls_client_on_a_plain_port_is_named(tmp_path):
    with Meridian(tmp_path / "server") as server:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", server.port)) as plain:
            context.wrap_socket(plain)
        wait_for_log(server, "TLS handshake")
        assert "message length" not in log(server)
        assert server.client.admin.command("ping")["ok"] == 1
