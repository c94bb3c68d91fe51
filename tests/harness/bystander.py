"""Another client: finds documents by `_id` until its input ends, then prints how long each took and what failed.

A process of its own, since a client in the process of the test would wait for the test's own work.
"""

import json
import sys
import threading
import time

import pymongo

WAIT_SECONDS = 0.01


def run(uri, database, collection, documents):
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    failures, milliseconds, number = [], [], 0
    with pymongo.MongoClient(uri) as client:
        found = client[database][collection]
        found.find_one({"_id": 0})
        print("ready", flush=True)
        while not ended.wait(WAIT_SECONDS):
            number = (number + 1) % documents
            begun = time.perf_counter()
            try:
                if found.find_one({"_id": number}) is None:
                    failures.append(f"document {number} is gone")
            except pymongo.errors.PyMongoError as failure:
                failures.append(str(failure))
                break
            milliseconds.append((time.perf_counter() - begun) * 1000)
    print(json.dumps({"failures": failures, "milliseconds": milliseconds}))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
