"""Every driver by every mechanism: logins of the Go, Java, Rust and Node.js drivers, mongosh and PyMongo.

Each runs as a program `login URI COLLECTION` that works in the collection and prints what it did;
what it is refused it writes to stderr as `code 13: message`. PyMongo is the test's own process.
"""

import contextlib
import os
import pathlib
import subprocess
import urllib.parse

import pymongo
import pytest
from harness.certificates import authority, certificate, openssl, subject_of
from harness.servers import CACHE, Meridian

HERE = pathlib.Path(__file__).parent
BUILT = CACHE / "drivers"
MODULES = CACHE / "node" / "node_modules"
DRIVERS = ["go", "java", "rust", "node", "mongosh", "pymongo"]

ROOT = {"username": "root", "password": "secret", "authSource": "admin"}
# SASLprep drops the soft hyphen and spells out the Roman numeral: in SCRAM-SHA-256 this password is "xIX".
UNPREPARED, PREPARED = "x\u00ad\u2168", "xIX"
# By user: the password, the database the user is in, and the mechanisms there are credentials for.
USERS = {
    "sha1": ("secret", "admin", ["SCRAM-SHA-1"]),
    "sha256": ("secret", "admin", ["SCRAM-SHA-256"]),
    "both": ("with:/?#[]@,=%", "admin", ["SCRAM-SHA-1", "SCRAM-SHA-256"]),
    "prepared": (UNPREPARED, "admin", ["SCRAM-SHA-1", "SCRAM-SHA-256"]),
    "elsewhere": ("pässwörd", "other", ["SCRAM-SHA-1", "SCRAM-SHA-256"]),
    "jürgen": ("secret", "admin", ["SCRAM-SHA-1", "SCRAM-SHA-256"]),
}
# By name: the user, and what the URI says of the mechanism.
LOGINS = {
    "sha1": ("sha1", "SCRAM-SHA-1"),
    "sha256": ("sha256", "SCRAM-SHA-256"),
    "sha256_found_out": ("sha256", None),
    "both_by_sha1": ("both", "SCRAM-SHA-1"),
    "both_by_sha256": ("both", "SCRAM-SHA-256"),
    "both_found_out": ("both", None),
    "password_prepared": ("prepared", "SCRAM-SHA-256"),
    "password_prepared_found_out": ("prepared", None),
    "password_not_prepared_by_sha1": ("prepared", "SCRAM-SHA-1"),
    "other_database": ("elsewhere", None),
    "user_not_ascii": ("jürgen", None),
    "sha1_found_out": ("sha1", None),
}


# -- the programs


def pymongo_work(uri, name):
    """What the programs do, in the same lines."""
    with pymongo.MongoClient(uri) as client:
        collection = client.test[name]
        lines = [f"before {collection.count_documents({})}"]
        lines.append(f"inserted {collection.insert_one({'_id': 7, 'text': 'größer'}).inserted_id}")
        lines.append(f"found {collection.find_one({'_id': 7})['text']}")
        lines.append(f"counted {collection.count_documents({})}")
        status = client.test.command("connectionStatus")["authInfo"]
        return lines + [f"user {user['user']} of {user['db']}" for user in status["authenticatedUsers"]]


def in_process(command):
    """PyMongo's outcome as that of a program."""
    _, uri, name = command
    try:
        return subprocess.CompletedProcess(command, 0, "\n".join(pymongo_work(uri, name)), "")
    except pymongo.errors.OperationFailure as error:
        return subprocess.CompletedProcess(command, 1, "", f"code {error.code}: {error}")


def java_of(settings):
    classpath = f"{BUILT / 'java' / 'classes'}:{BUILT / 'java' / 'dependency' / '*'}"
    # Short runs need no good compiler.
    options = ["-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    return ["java", *options, *settings, "-cp", classpath, "Login"]


def run(driver, uri, name, home, java_settings=()):
    """Runs a driver's program; what its exit and its output were."""
    commands = {
        "go": [str(BUILT / "go" / "login"), uri, name],
        "java": [*java_of(java_settings), uri, name],
        "rust": [str(BUILT / "rust" / "debug" / "login"), uri, name],
        "node": ["node", str(HERE / "node" / "login_once.js"), uri, name],
        "mongosh": [str(MODULES / ".bin" / "mongosh"), "--quiet", uri, str(HERE / "node" / "login_once_shell.js")],
        "pymongo": ["pymongo", uri, name],
    }
    if driver == "pymongo":
        return in_process(commands[driver])
    environment = {**os.environ, "NODE_PATH": str(MODULES), "NO_COLOR": "1", "HOME": str(home), "COLLECTION": name, "LC_ALL": "C.UTF-8"}
    return subprocess.run(commands[driver], capture_output=True, text=True, timeout=120, env=environment)


def uri_of(server, user=None, password="", source="admin", mechanism=None, **options):
    credentials = f"{urllib.parse.quote_plus(user)}:{urllib.parse.quote_plus(password)}@" if user else ""
    if user:
        options["authSource"] = source
    if mechanism:
        options["authMechanism"] = mechanism
    return f"mongodb://{credentials}127.0.0.1:{server.port}/?{urllib.parse.urlencode(options)}"


def assert_works(result, user, source):
    assert result.returncode == 0, result.stdout + result.stderr
    lines = ["before 0", "inserted 7", "found größer", "counted 1", f"user {user} of {source}"]
    assert result.stdout.splitlines() == lines, result.stdout + result.stderr


def assert_refused(driver, result, code):
    assert result.returncode != 0, result.stdout
    said = result.stdout + result.stderr
    assert "inserted" not in said
    if code == 18 and (driver == "mongosh" or "MONGODB-X509 failure" in said):
        # mongosh ends before the script begins, and shows the server's message without its code; so does the Rust
        # driver of a login by certificate.
        assert "Authentication failed" in said
    else:
        assert f"code {code}: " in said, said


# -- SCRAM


@pytest.fixture(scope="module")
def closed():
    with Meridian(arguments=["--auth", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        with server.connect(**ROOT) as root:
            for user, (password, source, mechanisms) in USERS.items():
                roles = [{"role": "readWrite", "db": "test"}]
                root[source].command("createUser", user, pwd=password, roles=roles, mechanisms=mechanisms)
        yield server


@pytest.fixture
def dropped(closed):
    """Each test has the collection to itself."""
    yield "work"
    with closed.connect(**ROOT) as root:
        root.test.work.drop()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("login", LOGINS)
def test_driver_logs_in(closed, dropped, tmp_path, driver, login):
    user, mechanism = LOGINS[login]
    password, source, _ = USERS[user]
    uri = uri_of(closed, user, password, source, mechanism)
    assert_works(run(driver, uri, dropped, tmp_path), user, source)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_prepared_password_is_the_same(closed, dropped, tmp_path, driver):
    """Whoever types the password in its plain letters is let in too."""
    uri = uri_of(closed, "prepared", PREPARED, mechanism="SCRAM-SHA-256")
    assert_works(run(driver, uri, dropped, tmp_path), "prepared", "admin")


@pytest.mark.parametrize("driver", DRIVERS)
def test_nobody_reads_without_a_login(closed, tmp_path, driver):
    assert_refused(driver, run(driver, uri_of(closed), "work", tmp_path), 13)


@pytest.fixture
def forgetful(closed):
    """Failed logins cost whoever comes from their address more time each; a server that begins anew knows of none."""
    closed.disconnect()
    closed.terminate()
    return closed.start()


REFUSED = {
    "wrong_password": ("both", "wrong", "admin", None),
    "wrong_password_by_sha1": ("both", "wrong", "admin", "SCRAM-SHA-1"),
    "wrong_password_by_sha256": ("both", "wrong", "admin", "SCRAM-SHA-256"),
    "no_such_user": ("nobody", "secret", "admin", None),
    "wrong_database": ("both", USERS["both"][0], "other", None),
    "no_credentials_for_sha256": ("sha1", "secret", "admin", "SCRAM-SHA-256"),
    "no_credentials_for_sha1": ("sha256", "secret", "admin", "SCRAM-SHA-1"),
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("login", REFUSED)
def test_driver_is_refused(forgetful, tmp_path, driver, login):
    user, password, source, mechanism = REFUSED[login]
    uri = uri_of(forgetful, user, password, source, mechanism)
    assert_refused(driver, run(driver, uri, "work", tmp_path), 18)


# -- MONGODB-X509


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    authority(directory, "ours")
    certificate(directory, "server", "/O=Servers/CN=server", "ours")
    certificate(directory, "client", "/C=DE/O=Own Things/OU=Operations/CN=client", "ours")
    certificate(directory, "other", "/CN=other", "ours")
    for name in ("client", "other"):
        openssl(directory, "pkcs12", "-export", "-in", f"{name}.pem", "-out", f"{name}.p12", "-passout", "pass:secret")
    trust = ["keytool", "-importcert", "-noprompt", "-alias", "ours", "-file", "ours.pem", "-keystore", "ours.p12", "-storepass", "secret"]
    subprocess.run(trust, cwd=directory, check=True, capture_output=True, timeout=60)
    return directory


@pytest.fixture(scope="module")
def encrypted(files):
    arguments = ["--auth", "on", "--tls-certificate-key-file", str(files / "server.pem"), "--tls-ca-file", str(files / "ours.pem")]
    tls = {"tls": True, "tlsCAFile": str(files / "ours.pem"), "tlsCertificateKeyFile": str(files / "client.pem")}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Meridian(arguments=arguments))
        server.connect(**tls).admin.command("createUser", "root", pwd="secret", roles=["root"])
        root = stack.enter_context(server.connect(**tls, **ROOT))
        roles = [{"role": "readWrite", "db": "test"}]
        root["$external"].command("createUser", subject_of(files, "client"), roles=roles)
        root.admin.command("createUser", "both", pwd="secret", roles=roles)
        yield server, root


def run_with_certificate(driver, server, files, name, home, **login):
    """PEM files are named in the URI, but for Java, whose key stores the JVM opens itself."""
    if driver == "java":
        stores = {"keyStore": f"{name}.p12", "trustStore": "ours.p12"}
        settings = [f"-Djavax.net.ssl.{store}={files / file}" for store, file in stores.items()]
        settings += [f"-Djavax.net.ssl.{store}Password=secret" for store in stores]
        return run(driver, uri_of(server, tls="true", **login), "work", home, settings)
    options = {"tls": "true", "tlsCAFile": files / "ours.pem", "tlsCertificateKeyFile": files / f"{name}.pem"}
    return run(driver, uri_of(server, **options, **login), "work", home)


@pytest.mark.parametrize("driver", DRIVERS)
def test_driver_logs_in_by_certificate(encrypted, files, tmp_path, driver):
    server, root = encrypted
    result = run_with_certificate(driver, server, files, "client", tmp_path, mechanism="MONGODB-X509")
    root.test.work.drop()
    assert_works(result, subject_of(files, "client"), "$external")


@pytest.mark.parametrize("driver", DRIVERS)
def test_driver_logs_in_by_password_over_tls(encrypted, files, tmp_path, driver):
    """A certificate that is no user's: the password says who it is."""
    server, root = encrypted
    result = run_with_certificate(driver, server, files, "other", tmp_path, user="both", password="secret")
    root.test.work.drop()
    assert_works(result, "both", "admin")


@pytest.mark.parametrize("driver", DRIVERS)
def test_driver_is_refused_by_certificate(encrypted, files, tmp_path, driver):
    """The certificate is good, but nobody's."""
    server, _ = encrypted
    assert_refused(driver, run_with_certificate(driver, server, files, "other", tmp_path, mechanism="MONGODB-X509"), 18)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_certificate_alone_is_no_login(encrypted, files, tmp_path, driver):
    server, _ = encrypted
    assert_refused(driver, run_with_certificate(driver, server, files, "client", tmp_path), 13)
