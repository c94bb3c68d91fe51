"""MONGODB-X509: logins by the client's certificate, beside a real mongod with the same certificates."""

import contextlib
import shutil
import signal
import time

import pymongo
import pytest
from harness.certificates import authority, certificate, subject_of
from harness.servers import Meridian, Mongod

CLIENT = "/C=DE/O=Own Things/OU=Operations/CN=client"
ROOT = {"username": "root", "password": "secret", "authSource": "admin"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    authority(directory, "ours")
    certificate(directory, "server", "/O=Servers/CN=server", "ours")
    certificate(directory, "client", CLIENT, "ours")
    certificate(directory, "other", "/CN=other", "ours")
    certificate(directory, "odd", "/O=A, B + C/CN=Jörg \\\"x\\\"", "ours")
    return directory


@pytest.fixture(scope="module")
def servers(files):
    with contextlib.ExitStack() as stack:
        mongod = stack.enter_context(
            Mongod(arguments=["--auth", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(files / "server.pem"), "--tlsCAFile", str(files / "ours.pem")])
        )  # fmt: skip
        meridian = stack.enter_context(
            Meridian(arguments=["--auth", "on", "--tls-certificate-key-file", str(files / "server.pem"), "--tls-ca-file", str(files / "ours.pem")])
        )  # fmt: skip
        for server in (mongod, meridian):
            with connect(server, files) as client:
                client.admin.command("createUser", "root", pwd="secret", roles=["root"])
        yield mongod, meridian


def connect(server, files, name="other", **options):
    return server.connect(tls=True, tlsCAFile=str(files / "ours.pem"), tlsCertificateKeyFile=str(files / f"{name}.pem"), **options)


def test_a_certificate_is_a_user(servers, files):
    subject = subject_of(files, "client")
    assert subject == "CN=client,OU=Operations,O=Own Things,C=DE"
    for server in servers:
        with connect(server, files, **ROOT) as root:
            root["$external"].command("createUser", subject, roles=[{"role": "readWrite", "db": "test"}])
        for options in ({}, {"username": subject}):
            with connect(server, files, "client", authMechanism="MONGODB-X509", **options) as client:
                client.test.c.insert_one({})
                status = client.test.command("connectionStatus")["authInfo"]
                assert status["authenticatedUsers"] == [{"user": subject, "db": "$external"}], server.name
                with pytest.raises(pymongo.errors.OperationFailure):
                    client.other.c.insert_one({})


@pytest.mark.parametrize("options", [{}, {"username": "CN=client,OU=Operations,O=Own Things,C=DE"}], ids=["itself", "another"])
def test_others_are_refused(servers, files, options):
    for server in servers:
        with connect(server, files, "other", authMechanism="MONGODB-X509", **options) as client:
            with pytest.raises(pymongo.errors.OperationFailure) as failure:
                client.test.c.find_one()
            assert failure.value.code in (18, 11), server.name


def test_odd_names_are_written_alike(servers, files):
    """The name that mongod takes is the one that we take."""
    for server in servers:
        with connect(server, files, **ROOT) as root:
            subject = subject_of(files, "odd")
            root["$external"].command("createUser", subject, roles=[{"role": "read", "db": "test"}])
    taken = []
    for server in servers:
        with connect(server, files, "odd", authMechanism="MONGODB-X509") as client:
            try:
                client.test.c.find_one()
                taken.append(True)
            except pymongo.errors.OperationFailure:
                taken.append(False)
    assert taken[0] == taken[1]


def test_without_a_certificate_nobody_logs_in_by_one(tmp_path):
    with Meridian(tmp_path / "server", ["--auth", "on"]) as server:
        with server.connect() as client, pytest.raises(pymongo.errors.OperationFailure) as failure:
            client["$external"].command("authenticate", 1, mechanism="MONGODB-X509")
        assert (failure.value.code, failure.value.details["errmsg"]) == (18, "No verified subject name available from client")


@pytest.mark.parametrize("by", ["command", "signal"])
def test_certificates_are_rotated(tmp_path, files, by):
    """Who is connected stays connected; whoever connects from then on sees the new certificate."""
    shutil.copy(files / "server.pem", tmp_path / "server.pem")
    authority(tmp_path, "new")
    certificate(tmp_path, "next", "/CN=next", "new")
    with Meridian(tmp_path / "server", ["--tls-certificate-key-file", str(tmp_path / "server.pem")]) as server:

        def sees(authority):
            options = {"serverSelectionTimeoutMS": 1500, "tls": True, "tlsCAFile": str(authority)}
            with server.connect(**options) as client:
                try:
                    return client.admin.command("ping")["ok"] == 1
                except pymongo.errors.ServerSelectionTimeoutError:
                    return False

        def rotate():
            if by == "command":
                return stays.admin.command("rotateCertificates", 1)
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)

        with server.connect(tls=True, tlsCAFile=str(files / "ours.pem"), maxPoolSize=1) as stays:
            stays.admin.command("ping")
            assert sees(files / "ours.pem") and not sees(tmp_path / "new.pem")
            (tmp_path / "server.pem").write_text("no certificate")
            if by == "command":
                with pytest.raises(pymongo.errors.OperationFailure, match="Could not rotate certificates"):
                    rotate()
            else:
                rotate()
            assert sees(files / "ours.pem"), "what cannot be read changes nothing"
            shutil.copy(tmp_path / "next.pem", tmp_path / "server.pem")
            rotate()
            assert sees(tmp_path / "new.pem") and not sees(files / "ours.pem")
            stays.admin.command("ping")
