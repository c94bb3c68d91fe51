#!/usr/bin/env python3
"""Asks a real mongod what each update of answers.jsonl does, and writes its answers beside them.

A line is one update, in extended JSON: `document` (absent: an empty collection), `update`,
and where they matter `query`, `arrayFilters`, `upsert`, `multi`. Add a line without `answer`
and run `record.py mongodb://localhost:PORT` (needs pymongo, and mongod 6.0).
"""

import pathlib
import sys

import pymongo
from bson import ObjectId, json_util

FILE = pathlib.Path(__file__).with_name("answers.jsonl")
OPTIONS = json_util.JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL, document_class=dict, tz_aware=True
)


def ask(collection, case):
    collection.drop()
    if "document" in case:
        collection.insert_one(case["document"])
    statement = {"q": case.get("query", {}), "u": case["update"]}
    for name in ("arrayFilters", "upsert", "multi"):
        if name in case:
            statement[name] = case[name]
    reply = collection.database.command(
        {"update": collection.name, "updates": [statement]}, check=False
    )
    errors = reply.get("writeErrors")
    if errors:
        return {"code": errors[0]["code"], "message": errors[0]["errmsg"]}
    if not reply["ok"]:
        return {"code": reply["code"], "message": reply["errmsg"]}
    answer = {"matched": reply["n"], "modified": reply["nModified"]}
    upserted = reply.get("upserted")
    if upserted:
        answer["matched"] -= 1
    document = collection.find_one()
    if upserted and isinstance(document["_id"], ObjectId) and "document" not in case:
        # Made by the server, which Meridian's update leaves to its caller.
        del document["_id"]
    answer["document"] = document
    return answer


def main():
    collection = pymongo.MongoClient(sys.argv[1]).update_answers.answers
    lines = []
    for line in FILE.read_text().splitlines():
        case = json_util.loads(line, json_options=OPTIONS)
        if "answer" not in case or "--again" in sys.argv:
            case["answer"] = ask(collection, case)
        lines.append(json_util.dumps(case, json_options=OPTIONS, ensure_ascii=False))
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
