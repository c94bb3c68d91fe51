"""Small file systems of a test's own: one that fills up, and one whose disk can be looked at as a power loss leaves it."""

import os
import pathlib
import shutil
import subprocess

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


class Disk:
    """A file system in a directory, unmounted at the end."""

    def __init__(self, directory, command):
        self.path = pathlib.Path(directory)
        self.path.mkdir(parents=True, exist_ok=True)
        subprocess.run([*command, str(self.path)], check=True)

    def close(self):
        subprocess.run(["umount", "--lazy", str(self.path)], check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def in_memory(directory, mebibytes):
    """A file system of this size that is full when it is full: no part of it is reserved."""
    return Disk(directory, ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "meridian-test"])


def image(path, mebibytes):
    """An empty ext4 file system in a file."""
    with open(path, "wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True)
    return path


def of_image(directory, path):
    """The file system of an image. What the system has not written to the image yet is not in a copy of it."""
    return Disk(directory, ["mount", "-o", "loop", str(path)])


def copy(path, to):
    shutil.copyfile(path, to)
    return to
