"""The smallest client there is: one socket, one OP_MSG out, one in.

Drivers refuse on their own what the server should refuse (documents that are too large, names
that are not allowed, malformed lists). This client sends anything.
"""

import itertools
import socket
import struct

from . import raw

OP_MSG = 2013
SEQUENCES = {"insert": "documents", "update": "updates", "delete": "deletes"}
SEQUENCE_BYTES_MIN = 1024 * 1024


class Connection:
    """A connection that is opened when first used, and again after it broke."""

    def __init__(self, port, seconds_max):
        self.port = port
        self.seconds_max = seconds_max
        self.socket = None
        self.numbers = itertools.count(1)

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def command(self, database, command):
        """The raw BSON of the reply."""
        try:
            if self.socket is None:
                self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=self.seconds_max)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.sendall(message(next(self.numbers), database, command))
            return self._reply()
        except OSError:
            self.close()
            raise

    def _reply(self):
        head = self._read(16)
        length, _, _, opcode = struct.unpack("<iiii", head)
        body = self._read(length - 16)
        if opcode != OP_MSG or body[4] != 0:
            raise ValueError(f"unexpected reply: opcode {opcode}, section {body[4]}")
        (size,) = struct.unpack_from("<i", body, 5)
        return body[5 : 5 + size]

    def _read(self, count):
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return bytes(data)


def message(number, database, command, flags=0):
    """One OP_MSG. Long lists of writes go as a document sequence, as drivers send them."""
    command = dict(command)
    sequence = b""
    name = SEQUENCES.get(next(iter(command), None))
    documents = command.get(name) if name else None
    if isinstance(documents, list) and documents and all(hasattr(document, "items") for document in documents):
        encoded = b"".join(raw.encode(document) for document in documents)
        if len(encoded) >= SEQUENCE_BYTES_MIN:
            del command[name]
            payload = name.encode() + b"\0" + encoded
            sequence = b"\x01" + struct.pack("<i", len(payload) + 4) + payload
    command["$db"] = database
    body = struct.pack("<I", flags) + b"\0" + raw.encode(command) + sequence
    return struct.pack("<iiii", len(body) + 16, number, 0, OP_MSG) + body
