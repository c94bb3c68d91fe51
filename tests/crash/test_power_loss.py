"""Power loss: what had reached the disk when the server was stopped, not what the system still held in memory.

The data directory lies on an ext4 file system in a file. The server is stopped (SIGSTOP) and the file copied:
what the system had not written to it is missing, as after the power went. What was acknowledged with `j: true`
must be in the copy. MERIDIAN_POWER_LOSSES sets how often (`make torture`: 20).
"""

import os
import random
import signal
import threading
import time

import disks
import pymongo
from harness.servers import Meridian
from pymongo.write_concern import WriteConcern
from test_crash import SEED

LOSSES = int(os.environ.get("MERIDIAN_POWER_LOSSES", "3"))
IMAGE_MEBIBYTES = 512


def insert_durably(server, thread, acknowledged):
    try:
        with pymongo.MongoClient(server.uri, directConnection=True, retryWrites=False, socketTimeoutMS=10_000) as client:
            collection = client["power"].get_collection("durable", write_concern=WriteConcern(j=True))
            for number in range(1_000_000):
                identity = f"{thread}-{number}"
                collection.insert_one({"_id": identity, "n": number})
                acknowledged.append(identity)
    except pymongo.errors.PyMongoError:
        pass  # the server was stopped


def write_carelessly(server, seed):
    choice = random.Random(seed)
    try:
        with pymongo.MongoClient(server.uri, directConnection=True, retryWrites=False, socketTimeoutMS=10_000) as client:
            collection = client["power"]["careless"]
            while True:
                collection.insert_many([{"n": choice.randint(0, 1000), "fill": "." * 200} for _ in range(100)])
                collection.update_many({"n": choice.randint(0, 1000)}, {"$inc": {"n": 1}})
    except pymongo.errors.PyMongoError:
        pass


@disks.needs_root
def test_what_was_acknowledged_as_durable_survives_power_losses(tmp_path):
    print(f"seed {SEED}, {LOSSES} losses")
    choice = random.Random(SEED)
    for loss in range(LOSSES):
        where = f"seed {SEED}, loss {loss}"
        image = disks.image(tmp_path / "disk.img", IMAGE_MEBIBYTES)
        acknowledged = [[] for _ in range(3)]
        with disks.of_image(tmp_path / "running", image) as disk:
            server = Meridian(disk.path, encrypted=loss % 2 == 1).start()
            server.client["power"]["durable"].create_index("n")
            server.client["power"]["careless"].create_index("n")
            # The collections themselves must be durable before documents in them can be.
            server.client["power"].get_collection("durable", write_concern=WriteConcern(j=True)).insert_one({"_id": "first", "n": -1})
            writers = [threading.Thread(target=insert_durably, args=(server, *each)) for each in enumerate(acknowledged)]
            writers.append(threading.Thread(target=write_carelessly, args=(server, SEED + loss)))
            for writer in writers:
                writer.start()
            time.sleep(choice.uniform(0.5, 2))
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            promised = [identity for each in acknowledged for identity in each]
            copy = disks.copy(image, tmp_path / "lost-power.img")
            server.kill()
            server.disconnect()
            for writer in writers:
                writer.join(30)
        assert len(promised) > 20, f"{where}: the writers got {len(promised)} writes acknowledged"
        with disks.of_image(tmp_path / "after", copy) as disk, Meridian(disk.path, encrypted=loss % 2 == 1) as server:
            collection = server.client["power"]["durable"]
            there = {document["_id"] for document in collection.find({}, {"_id": 1})}
            lost = {"first", *promised} - there
            assert not lost, f"{where}: {len(lost)} of {len(promised)} durable documents are lost: {list(lost)[:5]}"
            for name in ("durable", "careless"):
                collection = server.client["power"][name]
                counted, walked = (collection.count_documents({"n": {"$gte": -5}}, hint=hint) for hint in ("n_1", [("$natural", 1)]))
                assert counted == walked, f"{where}: {name}: {counted} counted, {walked} there"
            server.terminate()
            server.disconnect()
            result = server.tool("check")
            assert result.returncode == 0, f"{where}: {result.stdout}\n{result.stderr}"
        image.unlink()
        copy.unlink()
