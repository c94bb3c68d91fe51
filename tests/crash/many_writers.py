"""Writes in every way there is until the server dies: many kinds of writers on several collections at once.

Usage: many_writers.py URI LOG SEED. LOG gets the `_id` of every document of the collection `ledger` once its
insert is acknowledged: nothing else ever changes that collection. Lines of two words more say what was begun and done to a user.
"""

import hashlib
import os
import random
import sys
import threading
import time

import pymongo
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

DATABASE = "many"
SERIES = "many_series"
DOCUMENTS = 500
LOGGED_MAX = 300
# What the others bring about: duplicates, collections and indexes that were just dropped, renamed or are built.
EXPECTED_CODES = {11000, 11, 26, 31, 27, 48, 73, 85, 86, 112, 175, 276, 12586, 10107}


def document(choice, identity):
    return {
        "_id": identity,
        "n": choice.randint(0, 1000),
        "u": choice.randint(0, 50_000),
        "tags": [choice.randint(0, 9) for _ in range(choice.randint(0, 3))],
        "p": {"type": "Point", "coordinates": [choice.uniform(-170, 170), choice.uniform(-80, 80)]},
        "fill": "." * choice.randint(0, 200),
        "words": " ".join(choice.choices(("tea", "milk", "coffee", "black"), k=choice.randint(0, 6))),
    }


class Writers:
    """Each method is one step of a writer of its kind."""

    def __init__(self, client, log, seed):
        self.database = client[DATABASE]
        self.series = client[SERIES]
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND)
        self.seed = seed
        self.number = 0
        self.logged = {"one": 0, "two": 0}

    def ledger(self, choice):
        ids = [f"{self.seed}-{self.number}-{at}" for at in range(choice.choice([1, 5, 40]))]
        self.number += 1
        self.database["ledger"].insert_many([{"_id": identity, "n": len(ids)} for identity in ids])
        os.write(self.log, ("\n".join(ids) + "\n").encode())

    def inserts(self, choice):
        base = choice.randint(0, 1_000_000)
        self.database["grown"].insert_many([document(choice, base * 50 + at) for at in range(50)], ordered=False)

    def updates(self, choice):
        self.database["updated"].update_one({"_id": choice.randrange(DOCUMENTS)}, {"$inc": {"n": 1}})

    def many_updates(self, choice):
        low = choice.randrange(DOCUMENTS)
        change = {"$set": {"tags": [choice.randint(0, 9)], "n": choice.randint(0, 1000)}}
        self.database["updated"].update_many({"_id": {"$gte": low, "$lt": low + 20}}, change)

    def upserts(self, choice):
        change = {"$set": document(choice, 0) | {"_id": None}}
        del change["$set"]["_id"]
        self.database["mixed"].update_one({"_id": choice.randrange(2 * DOCUMENTS)}, change, upsert=True)

    def deletes(self, choice):
        low = choice.randrange(2 * DOCUMENTS)
        self.database["mixed"].delete_many({"_id": {"$gte": low, "$lt": low + 10}})

    def find_and_modify(self, choice):
        identity = choice.randrange(2 * DOCUMENTS)
        match choice.randrange(3):
            case 0:
                self.database["mixed"].find_one_and_delete({"_id": identity})
            case 1:
                self.database["mixed"].find_one_and_replace({"_id": identity}, document(choice, identity), upsert=True)
            case _:
                self.database["mixed"].find_one_and_update({"n": {"$gte": 500}}, {"$inc": {"n": -400, "u": 1}})

    def conflicts(self, choice):
        """Half of them meet a `u` that is there."""
        self.database["unique"].insert_many([document(choice, choice.randrange(10**9)) for _ in range(20)], ordered=False)

    def large(self, choice):
        """Around the size from which values lie in files of their own."""
        content = choice.randbytes(choice.choice([1 << 19, 1 << 20, 3 << 20]))
        values = {"n": choice.randint(0, 1000), "content": content, "digest": hashlib.sha256(content).digest()}
        by_id = {"_id": choice.randrange(12)}
        if choice.random() < 0.2:
            self.database["large"].delete_one(by_id)
        else:
            self.database["large"].update_one(by_id, {"$set": values}, upsert=True)

    def expiring(self, choice):
        self.database["expiring"].insert_many([{"n": at, "at": time_in(choice.uniform(-5, 1))} for at in range(30)])

    def builds(self, choice):
        collection = self.database[choice.choice(["grown", "mixed", "updated"])]
        name = choice.choice(["u", "tags"])
        collection.create_index([(name, 1), ("n", -1)], name="built")
        time.sleep(choice.uniform(0, 0.1))
        collection.drop_index("built")

    def drops(self, choice):
        collection = self.database[f"short{choice.randrange(3)}"]
        collection.create_index("n")
        collection.insert_many([document(choice, at) for at in range(100)])
        if choice.random() < 0.7:
            collection.drop()

    def outputs(self, choice):
        stages = [{"$match": {"n": {"$gte": choice.randint(0, 900)}}}, {"$project": {"n": 1, "tags": 1}}]
        last = choice.choice([{"$out": "out"}, {"$merge": {"into": "merged", "whenMatched": "replace"}}])
        self.database["updated"].aggregate([*stages, last])

    def compactions(self, choice):
        """Files are written anew below everyone else, whose statements an index filter plans otherwise."""
        name = choice.choice(["grown", "mixed", "updated", "unique", "ledger"])
        self.database.command("compact", name)
        if choice.random() < 0.3:
            self.database.command("reIndex", choice.choice(["grown", "mixed", "updated", "unique", "ledger", "logged", "rolled"]))
        self.database.command({"planCacheSetFilter": name, "query": {"_id": 1, "n": 1}, "indexes": [choice.choice(["u", "built"])]})
        self.database.command("planCacheClearFilters", name)

    def windows(self, choice):
        """What pipelines make of documents that others change at the same time is written as any other."""
        bounds = {"documents": [-choice.randint(0, 20), choice.randint(0, 20)]}
        window = {"$setWindowFields": {"partitionBy": "$n", "sortBy": {"_id": 1}, "output": {"n": {"$sum": "$n", "window": bounds}}}}
        gaps = {"$densify": {"field": "n", "range": {"step": 50, "bounds": [0, choice.randint(1, 1000)]}}}
        filled = [gaps, {"$fill": {"sortBy": {"n": 1}, "output": {"tags": {"method": "locf"}}}}, {"$match": {"_id": {"$exists": True}}}]
        stages = choice.choice([[window], filled])
        self.database["updated"].aggregate([*stages, {"$project": {"n": 1, "tags": 1}}, {"$merge": {"into": "merged", "whenMatched": "replace"}}])

    def measurements(self, choice):
        """Measurements of ten series, each batch acknowledged; nobody deletes those of the first five."""
        ids = [f"{self.seed}-{choice.getrandbits(60)}" for _ in range(choice.choice([1, 7, 60]))]
        documents = [{"t": time_in(choice.uniform(-5000, 5000)), "m": {"s": choice.randrange(5), "k": choice.randrange(2)}, "id": identity, "v": choice.choice([1, 2.5, "x"]), "p": place(choice)} for identity in ids]
        others = [{"t": time_in(-choice.randrange(10**6)), "m": {"s": choice.randrange(5, 10)}, "v": {"w": choice.randrange(9)}} for _ in range(20)]
        self.series["measured"].insert_many(choice.sample([*documents, *others], len(documents) + 20), ordered=choice.random() < 0.5)
        os.write(self.log, "".join(f"measured {identity} 1\n" for identity in ids).encode())

    def more_measurements(self, choice):
        self.measurements(choice)

    def series_changes(self, choice):
        """Metadata is changed and series are deleted below those who add to them; indexes come and go."""
        measured = self.series["measured"]
        measured.update_many({"m.s": choice.randrange(10)}, {"$set": {"m.k": choice.randrange(3)}})
        measured.delete_many({"m.s": choice.randrange(5, 10)})
        name = choice.choice(["m_1_t_1", "t_-1", "p_2dsphere"])
        if choice.random() < 0.3:
            measured.create_index({"m_1_t_1": [("m", 1), ("t", 1)], "t_-1": [("t", -1)], "p_2dsphere": [("p", "2dsphere")]}[name])
        elif choice.random() < 0.1:
            measured.drop_index(name)
        if choice.random() < 0.2:
            self.series.drop_collection("passing")
            self.series.create_collection("passing", timeseries={"timeField": "t"})
        self.series["passing"].insert_many([{"t": time_in(number), "v": number} for number in range(50)])

    def logs(self, choice):
        """A capped collection under two writers; each document has a number greater by one than the writer's last."""
        self._log(choice, "one")

    def more_logs(self, choice):
        self._log(choice, "two")

    def _log(self, choice, writer):
        numbers = range(self.logged[writer], self.logged[writer] + choice.choice([1, 3, 50]))
        documents = [{**document(choice, f"{self.seed}-{writer}-{number}"), "writer": writer, "seed": self.seed, "number": number} for number in numbers]
        self.database["logged"].insert_many(documents)
        self.logged[writer] = numbers.stop
        os.write(self.log, f"logged {self.seed}-{writer} {numbers[-1]}\n".encode())

    def rolls(self, choice):
        """Another one, whose documents and limits change."""
        rolled = self.database["rolled"]
        try:
            self.database.create_collection("rolled", capped=True, size=choice.choice([500, 20_000]), check_exists=False)
            rolled.create_index("n")
            rolled.create_index("u", unique=True)
        except OperationFailure as error:
            if error.code != 48:
                raise
        self._roll(choice, rolled)

    def more_rolls(self, choice):
        self._roll(choice, self.database["rolled"])

    def _roll(self, choice, rolled):
        rolled.update_many({"tags": choice.randrange(10)}, {"$set": {"n": choice.randrange(1000), "fill": "." * choice.randrange(1000)}})
        rolled.delete_many({"n": {"$gte": choice.randrange(900, 1000)}})
        try:
            self.database.command("collMod", "rolled", **choice.choice([{"cappedMax": choice.randrange(200)}, {"cappedSize": choice.randrange(1, 30_000)}]))
        except OperationFailure as error:
            if error.code != 72:  # after a drop an index has made it, which is not capped
                raise
        if choice.random() < 0.1:
            self.database.command("convertToCapped", "rolled", size=choice.randrange(1, 30_000))
            rolled.create_index("n")
        if choice.random() < 0.1:
            self.database.drop_collection("cloned")
            self.database.command("cloneCollectionAsCapped", choice.choice(["rolled", "updated"]), toCollection="cloned", size=choice.randrange(1, 30_000))
        if choice.random() < 0.02:
            self.database.drop_collection("rolled")
        rolled.insert_many([document(choice, choice.randrange(300)) for _ in range(40)], ordered=choice.random() < 0.3)

    def users(self, choice):
        """Made, changed and dropped one after the other; what was acknowledged last is in the log, by name."""
        name, number = f"user{choice.randrange(20)}", choice.randrange(10**6)
        os.write(self.log, f"begun {name} {number}\n".encode())
        try:
            self.database.command("createUser", name, pwd=str(number), roles=["read"], customData={"number": number}, mechanisms=["SCRAM-SHA-1"])
        except OperationFailure as error:
            if error.code != 51003:  # there already
                raise
            if number % 3 == 0:
                os.write(self.log, f"begun {name} none\n".encode())
                self.database.command("dropUser", name)
                number = "none"
            else:
                self.database.command("updateUser", name, roles=["read"] * (number % 2), customData={"number": number})
        os.write(self.log, f"done {name} {number}\n".encode())

    def roles(self, choice):
        """Each role inherits the one before, so that they are dropped and made while others read them."""
        number = choice.randrange(6)
        inherited = [f"role{number - 1}"] if number else ["read"]
        try:
            self.database.command("createRole", f"role{number}", privileges=[], roles=inherited)
        except OperationFailure as error:
            if error.code not in (51002, 31):  # there already; what it would inherit is not
                raise
            if error.code == 51002:
                self.database.command(choice.choice(["dropRole", "rolesInfo"]), f"role{number}")

    def renames(self, choice):
        collection = self.database["moving0"]
        collection.insert_many([document(choice, at) for at in range(20)], ordered=False)
        collection.create_index("n")
        collection.rename("moving1", dropTarget=True)


def place(choice):
    return [choice.uniform(-170, 170), choice.uniform(-80, 80)]


def time_in(seconds):
    import datetime

    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


KINDS = [name for name in vars(Writers) if not name.startswith("_")]


def run(writers, kind, seed):
    choice = random.Random(f"{seed}-{kind}")
    step = getattr(writers, kind)
    while True:
        try:
            step(choice)
        except AutoReconnect:
            return  # the server was killed
        except OperationFailure as error:
            codes = {each["code"] for each in (error.details or {}).get("writeErrors", [])} or {error.code}
            if not codes <= EXPECTED_CODES:
                print(f"{kind}: {error}", file=sys.stderr)
                os._exit(1)
        except PyMongoError as error:
            print(f"{kind}: {error}", file=sys.stderr)
            os._exit(1)


def main():
    uri, log, seed = sys.argv[1:]
    client = pymongo.MongoClient(uri, directConnection=True, retryWrites=False, serverSelectionTimeoutMS=5000, socketTimeoutMS=30000)
    writers = Writers(client, log, seed)
    threads = [threading.Thread(target=run, args=(writers, kind, seed)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
