"""Writes as fast as it can until the server dies, logging each write before and after.

Usage: writer.py URI LOG SEED. A line `send` names every document a write may change and what `n`
it will have (None: deleted); the line `done` with the same number says that it was acknowledged.
"""

import json
import os
import random
import sys
import threading

import pymongo
from pymongo.errors import AutoReconnect, PyMongoError
from pymongo.write_concern import WriteConcern

THREADS = 3


class Log:
    """An append-only file; a line is complete before the write it announces is sent."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, **entry):
        os.write(self.file, (json.dumps(entry) + "\n").encode())


def document(identity, version, choice):
    return {
        "_id": identity,
        "n": version,
        "u": f"{identity}",
        "s": choice.choice(["x", "y", "z"]),
        "tags": [choice.randint(0, 9) for _ in range(choice.randint(1, 3))],
        "p": {"type": "Point", "coordinates": [choice.uniform(-170, 170), choice.uniform(-80, 80)]},
        "fill": "." * choice.randint(0, 400),
    }


class Writer:
    """One thread with its own documents, so that no two writes race for one id."""

    def __init__(self, client, log, seed, thread):
        self.choice = random.Random(f"{seed}-{thread}")
        self.prefix = f"{seed}-{thread}"
        self.log = log
        self.client = client
        self.mine = []
        self.number = 0

    def acknowledged(self, changes, action):
        self.number += 1
        number = f"{self.prefix}-{self.number}"
        self.log.write(event="send", number=number, changes=changes)
        action()
        self.log.write(event="done", number=number)

    def step(self):
        concern = WriteConcern(w=1, j=True) if self.choice.random() < 0.3 else WriteConcern(w=1)
        collection = self.client["crash"].get_collection("c", write_concern=concern)
        kind = self.choice.random()
        if kind < 0.5 or len(self.mine) < 20:
            count = self.choice.choice([1, 1, 2, 10, 50])
            documents = [
                document(f"{self.prefix}-{self.number}-{at}", self.choice.randint(0, 1000), self.choice) for at in range(count)
            ]
            changes = [(d["_id"], d["n"]) for d in documents]
            self.acknowledged(changes, lambda: collection.insert_many(documents, ordered=self.choice.random() < 0.5))
            self.mine += [d["_id"] for d in documents]
        elif kind < 0.7:
            identity, version = self.choice.choice(self.mine), self.choice.randint(0, 1000)
            change = {"$set": {"n": version, "tags": [version % 10]}, "$unset": {"fill": 1}}
            self.acknowledged([(identity, version)], lambda: collection.update_one({"_id": identity}, change))
        elif kind < 0.8:
            identities, version = self.choice.sample(self.mine, 10), self.choice.randint(0, 1000)
            change = {"$set": {"n": version}}
            self.acknowledged(
                [(identity, version) for identity in identities],
                lambda: collection.update_many({"_id": {"$in": identities}}, change),
            )
        elif kind < 0.9:
            identity, version = self.choice.choice(self.mine), self.choice.randint(0, 1000)
            replacement = document(identity, version, self.choice)
            self.acknowledged([(identity, version)], lambda: collection.replace_one({"_id": identity}, replacement))
        else:
            identities = [self.mine.pop(self.choice.randrange(len(self.mine))) for _ in range(self.choice.choice([1, 5]))]
            self.acknowledged(
                [(identity, None) for identity in identities],
                lambda: collection.delete_many({"_id": {"$in": identities}}),
            )

    def run(self):
        try:
            while True:
                self.step()
        except AutoReconnect:
            pass  # the server was killed: what was under way stays unacknowledged
        except PyMongoError as error:
            print(f"a write failed while the server ran: {error}", file=sys.stderr)
            os._exit(1)


def main():
    uri, path, seed = sys.argv[1:]
    client = pymongo.MongoClient(uri, directConnection=True, retryWrites=False, serverSelectionTimeoutMS=5000, connectTimeoutMS=3000, socketTimeoutMS=20000)
    log = Log(path)
    threads = [threading.Thread(target=Writer(client, log, seed, thread).run) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
