"""Certificates for tests, made by `openssl`: an authority, and what it signs."""

import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60)


def authority(directory, name):
    """An authority NAME: `NAME.pem` is its certificate, `NAME.key` its key."""
    openssl(directory, "req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")


def certificate(directory, name, subject, signer):
    """A certificate for this machine, `NAME.crt` and `NAME.key`, and both in `NAME.pem`."""
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(directory, "req", *KEY, "-utf8", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    openssl(
        directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey", f"{signer}.key",
        "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
    )  # fmt: skip
    (directory / f"{name}.pem").write_bytes((directory / f"{name}.crt").read_bytes() + (directory / f"{name}.key").read_bytes())


def subject_of(directory, name):
    """The user name of a certificate, found as MongoDB's manual says."""
    command = ["openssl", "x509", "-in", str(directory / f"{name}.crt"), "-inform", "PEM", "-subject", "-nameopt", "RFC2253", "-noout"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return shown.removeprefix("subject=").strip()
