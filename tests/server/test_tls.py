"""Encrypted connections, through a real driver, with certificates made here."""

import contextlib
import os
import pathlib
import socket
import ssl
import struct
import subprocess
import threading

import bson
import pymongo
import pytest
from harness import wire
from harness.servers import MERIDIAN, Meridian, free_port

# What a client cannot do quickly it cannot do: the server is on this machine.
PATIENCE = {"serverSelectionTimeoutMS": 2000, "connectTimeoutMS": 2000}


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60)


def authority(directory, name):
    """A certificate authority: NAME.pem and NAME.key."""
    openssl(
        directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
    )  # fmt: skip


def certificate(directory, name, signer):
    """A certificate with its key, signed by an authority: NAME.pem."""
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(
        directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr",
    )  # fmt: skip
    openssl(
        directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey", f"{signer}.key",
        "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
    )  # fmt: skip
    (directory / f"{name}.pem").write_bytes((directory / f"{name}.crt").read_bytes() + (directory / f"{name}.key").read_bytes())


AUTHORITY_DATABASE = """
[ca]
default_ca = own
[own]
database = {name}.index
new_certs_dir = .
serial = {name}.serial
default_md = sha256
policy = any
[any]
commonName = supplied
{extensions}
"""


def certificate_of_version(directory, name, signer, version, key=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), dates=("20200101000000Z", "20990101000000Z"), issues=False):
    """A client's certificate of X.509 version 1 or 3, valid from and until these dates: NAME.pem."""
    extensions = {1: "", 3: f"[extensions]\nbasicConstraints = critical,CA:{'TRUE' if issues else 'FALSE'}"}[version]
    (directory / f"{name}.cnf").write_text(AUTHORITY_DATABASE.format(name=name, extensions=extensions))
    (directory / f"{name}.index").write_text("")
    (directory / f"{name}.serial").write_text("01\n")
    openssl(directory, "req", "-newkey", *key, "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    openssl(
        directory, "ca", "-batch", "-config", f"{name}.cnf", "-in", f"{name}.csr", "-cert", f"{signer}.pem", "-keyfile", f"{signer}.key",
        "-startdate", dates[0], "-enddate", dates[1], "-notext", "-out", f"{name}.crt", *(["-extensions", "extensions"] if version == 3 else []),
    )  # fmt: skip
    shown = subprocess.run(["openssl", "x509", "-in", f"{name}.crt", "-noout", "-text"], cwd=directory, check=True, capture_output=True, text=True).stdout
    assert f"Version: {version} " in shown
    (directory / f"{name}.pem").write_bytes((directory / f"{name}.crt").read_bytes() + (directory / f"{name}.key").read_bytes())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    authority(directory, "ours")
    authority(directory, "others")
    certificate(directory, "server", "ours")
    certificate(directory, "client", "ours")
    certificate(directory, "stranger", "others")
    return directory


def serve(tmp_path, files, *arguments):
    return Meridian(tmp_path / "server", ["--tls-certificate-key-file", str(files / "server.pem"), *arguments])


def answers(server, **options):
    """Whether a client with these options is answered."""
    with server.connect(**PATIENCE, **options) as client:
        try:
            return client.admin.command("ping")["ok"] == 1.0
        except pymongo.errors.ServerSelectionTimeoutError:
            return False


def test_daily_work_is_encrypted(tmp_path, files):
    with serve(tmp_path, files) as server:
        with server.connect(tls=True, tlsCAFile=str(files / "ours.pem")) as client:
            collection = client["db"]["c"]
            collection.insert_many([{"_id": number, "text": "x" * 2000} for number in range(5000)])
            assert sum(len(document["text"]) for document in collection.find({}, batch_size=3000)) == 10_000_000
            collection.create_index("text")
            large = {"_id": "large", "text": "y" * (16 * 1024 * 1024 - 100)}
            collection.insert_one(large)
            assert collection.find_one("large") == large
        assert not answers(server), "a plain client"
        assert not answers(server, tls=True, tlsCAFile=str(files / "others.pem")), "a client that does not know the authority"
        assert answers(server, tls=True, tlsCAFile=str(files / "ours.pem")), "the server has survived them"


def test_encrypted_requests_that_come_together_are_all_answered_in_a_crowd(tmp_path, files):
    """One record may hold several requests: those that were decrypted with the first are not forgotten."""
    context = ssl.create_default_context(cafile=files / "ours.pem")
    requests = b"".join(wire.message(number, "db", {"ping": 1}) for number in range(5))
    with serve(tmp_path, files) as server, contextlib.ExitStack() as opened:
        clients = []
        for _ in range(200):
            plain = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            clients.append(opened.enter_context(context.wrap_socket(plain, server_hostname="localhost")))
        for _ in range(2):
            for client in clients:
                client.sendall(requests)
            for client in clients:
                reader = client.makefile("rb")
                for _ in range(5):
                    (length,) = struct.unpack("<i", reader.read(4))
                    assert bson.decode(reader.read(length - 4)[17:])["ok"] == 1.0


def test_plain_connections_may_be_allowed(tmp_path, files):
    with serve(tmp_path, files, "--tls-mode", "allow") as server:
        assert answers(server)
        assert answers(server, tls=True, tlsCAFile=str(files / "ours.pem"))


def processor_seconds(server):
    """What all threads of the server have computed, those that have ended too."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_half_a_first_record_keeps_no_processor_busy(tmp_path, files):
    """Whether it becomes TLS is not known yet: the server sleeps until it is."""
    with serve(tmp_path, files, "--tls-mode", "allow") as server, socket.create_connection(("127.0.0.1", server.port)) as half:
        assert answers(server)
        half.sendall(b"\x16")
        before = processor_seconds(server)
        threading.Event().wait(1)
        # Of a thread that asked again and again it would be most of the second, unless others have the processors.
        assert processor_seconds(server) - before < 0.2



def test_clients_may_need_a_certificate(tmp_path, files):
    with serve(tmp_path, files, "--tls-ca-file", str(files / "ours.pem")) as server:
        known = {"tls": True, "tlsCAFile": str(files / "ours.pem")}
        assert answers(server, tlsCertificateKeyFile=str(files / "client.pem"), **known)
        assert not answers(server, **known)
        assert not answers(server, tlsCertificateKeyFile=str(files / "stranger.pem"), **known)


RSA = ("rsa:2048",)
P384 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-384")
ED25519 = ("ed25519",)
PAST, FUTURE = ("20200101000000Z", "20210101000000Z"), ("20970101000000Z", "20990101000000Z")
LONG = ("19600101000000Z", "21500101000000Z")  # beyond what two digits of a year say


@pytest.fixture(scope="module")
def versions(files):
    """Clients' certificates of both versions beside those of `files`."""
    certificate_of_version(files, "v1", "ours", 1)
    certificate_of_version(files, "v1_rsa", "ours", 1, key=RSA)
    certificate_of_version(files, "v1_p384", "ours", 1, key=P384)
    certificate_of_version(files, "v1_ed25519", "ours", 1, key=ED25519)
    certificate_of_version(files, "v1_long", "ours", 1, dates=LONG)
    certificate_of_version(files, "v3", "ours", 3)
    certificate_of_version(files, "v1_stranger", "others", 1)
    certificate_of_version(files, "v1_expired", "ours", 1, dates=PAST)
    certificate_of_version(files, "v1_early", "ours", 1, dates=FUTURE)
    certificate_of_version(files, "v3_expired", "ours", 3, dates=PAST)
    # An authority of another key that calls itself the same.
    impostor = files / "impostor"
    impostor.mkdir()
    authority(impostor, "ours")
    certificate_of_version(impostor, "v1_impostor", "ours", 1)
    # What a client's certificate of version 1 signed, and what an intermediate authority signed.
    certificate_of_version(files, "v3_below_v1", "v1", 3)
    certificate_of_version(files, "v1_below_v1", "v1", 1)
    certificate_of_version(files, "intermediate", "ours", 3, issues=True)
    certificate_of_version(files, "v1_below_intermediate", "intermediate", 1)
    for name, above in (("v3_below_v1", "v1"), ("v1_below_v1", "v1"), ("v1_below_intermediate", "intermediate")):
        (files / f"{name}.pem").write_bytes((files / f"{name}.pem").read_bytes() + (files / f"{above}.crt").read_bytes())
    return files


def pings(server, files, certificate, version):
    """Whether a client with this certificate and no other version of TLS is answered."""
    context = ssl.create_default_context(cafile=files / "ours.pem")
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(certificate)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain, context.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(wire.message(1, "db", {"ping": 1}))
            reader = client.makefile("rb")
            (length,) = struct.unpack("<i", reader.read(4))
            return bson.decode(reader.read(length - 4)[17:])["ok"] == 1.0
    except (ssl.SSLError, ConnectionError, struct.error):
        return False


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls1.2", "tls1.3"])
def test_clients_certificates_of_version_1(tmp_path, versions, version):
    """They are taken, as by mongod, when one of the authorities signed them itself and they are valid now."""
    with serve(tmp_path, versions, "--tls-ca-file", str(versions / "ours.pem")) as server:
        for name in ("v1", "v1_rsa", "v1_p384", "v1_ed25519", "v1_long", "v3", "client"):
            assert pings(server, versions, versions / f"{name}.pem", version), name
        refused = ("v1_stranger", "v1_expired", "v1_early", "v3_expired", "impostor/v1_impostor", "v3_below_v1", "v1_below_v1", "v1_below_intermediate", "stranger")
        for name in refused:
            assert not pings(server, versions, versions / f"{name}.pem", version), name
        assert answers(server, tls=True, tlsCAFile=str(versions / "ours.pem"), tlsCertificateKeyFile=str(versions / "v1.pem"))


def test_stops_while_an_encrypted_client_is_connected(tmp_path, files):
    with serve(tmp_path, files) as server, server.connect(tls=True, tlsCAFile=str(files / "ours.pem")) as client:
        client["db"]["c"].insert_one({"_id": 1})
        assert server.terminate(20) == 0


@pytest.mark.parametrize("arguments,complaint", [
    (["--tls-mode", "require"], "tls-certificate-key-file"),
    (["--tls-certificate-key-file", "nowhere.pem"], "nowhere.pem"),
    (["--tls-certificate-key-file", "ours.pem"], "private key"),
    (["--tls-certificate-key-file", "server.key"], "no certificate"),
    (["--tls-certificate-key-file", "server.pem", "--tls-ca-file", "server.key"], "no certificate"),
    (["--tls-mode", "maybe"], "disabled"),
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(tmp_path, files, arguments, complaint):
    command = [str(MERIDIAN), "serve", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}", *arguments]
    ended = subprocess.run(command, cwd=files, capture_output=True, text=True, timeout=30)
    assert ended.returncode not in (0, None) and complaint in ended.stderr, ended.stderr
