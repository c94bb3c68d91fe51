"""What the programs of this folder share: a refusal as a value, and a line of extended JSON for each step."""

import sys
import traceback

from bson import json_util
from bson.binary import UuidRepresentation
from pymongo import MongoClient

# Types show, as in the other languages: an int32 is not an int64 or a double.
OPTIONS = json_util.CANONICAL_JSON_OPTIONS.with_options(uuid_representation=UuidRepresentation.STANDARD)


def refusal(action, *arguments, **options):
    """What an action was refused, or what it gave."""
    try:
        return {"accepted": action(*arguments, **options)}
    except Exception as error:
        return describe(error)


def describe(error):
    """An error's type, text and code. PyMongo appends the server's whole reply to its text; others quote that."""
    return {"error": type(error).__name__, "code": getattr(error, "code", None), "message": str(error).split(", full error: ")[0]}


def run(program, steps, work):
    """Runs every step, `work(step, uri, database)`, each in a database of its own."""
    uri = sys.argv[1]
    with MongoClient(uri) as client:
        for step in steps:
            database = f"{program}_{step.__name__}"
            client.drop_database(database)
            try:
                line = json_util.dumps({"step": step.__name__, "result": work(step, uri, database)}, json_options=OPTIONS)
            except Exception:
                line = json_util.dumps({"step": step.__name__, "failed": traceback.format_exc()})
            print(line)
            client.drop_database(database)
