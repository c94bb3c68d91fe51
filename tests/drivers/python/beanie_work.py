"""A day's work with Beanie on PyMongo's asynchronous driver, in named steps: beanie_work.py URI.

Absent, because Meridian does not have them yet: text indexes, transactions (and with them migrations).
"""

import asyncio
import datetime
import decimal
import enum
import uuid

import beanie
import pymongo
from beanie import BackLink, BulkWriter, DecimalAnnotation, DeleteRules, Document, DocumentWithSoftDelete, Indexed, Link, UnionDoc, UpdateResponse, View, WriteRules
from beanie.operators import AddToSet, All, And, ElemMatch, Exists, GeoIntersects, GeoWithin, In, Inc, Max, Mul, Near, Not, Or, Pop, Pull, Push, RegEx, Rename, Set, SetOnInsert, Size, Unset
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient, IndexModel
from steps import describe, run


def day(number):
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(days=number - 1)


async def refusal(action):
    """What an action was refused, or what it gave."""
    try:
        return {"accepted": await action}
    except Exception as error:
        return describe(error)


def plain(documents):
    return [document.model_dump(mode="python", exclude={"revision_id": True, "roof": {"house"}}) for document in documents]


async def stored(model):
    return await model.get_pymongo_collection().find().sort("_id").to_list()


async def indexes(model):
    return await (await model.get_pymongo_collection().list_indexes()).to_list()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    zip: int | None = None


class Person(Document):
    id: int
    name: str
    born: datetime.datetime = day(1)
    colour: Colour = Colour.RED
    home: Address | None = None
    tags: set[str] = set()
    money: DecimalAnnotation = decimal.Decimal("0.10")
    key: uuid.UUID = uuid.UUID(int=1)
    since: datetime.timedelta = datetime.timedelta(hours=1)
    data: bytes = b""
    more: dict[str, list[int]] = {}

    class Settings:
        use_state_management = True


async def documents(database):
    await beanie.init_beanie(database, document_models=[Person])
    ada = await Person(id=1, name="Ada", home=Address(street="A"), tags={"x"}, data=b"abc", more={"a": [1, 2]}).insert()
    await Person.insert_many([Person(id=2, name="Bob"), Person(id=3, name="Cleo", colour=Colour.BLUE)])
    ada.home.zip = 7
    changes = ada.get_changes()
    await ada.save_changes()
    bob = await Person.get(2)
    bob.money += 1
    await bob.replace()
    await Person(id=4, name="Dan").save()
    await Person.find_one(Person.id == 4).replace_one(Person(id=4, name="Dora"))
    stale = await Person.get(1)
    await Person.find_one(Person.id == 1).update({"$set": {"name": "Ada L."}})
    await stale.sync()
    return {
        "changes": changes,
        "stale": stale.name,
        "stored": await stored(Person),
        "read": [person.name for person in await Person.find(Person.colour == Colour.BLUE).to_list()],
        "by_money": await Person.find(Person.money == decimal.Decimal("1.1")).count(),
        "by_key": await Person.find(Person.key == uuid.UUID(int=1)).count(),
        "duplicate": await refusal(Person(id=1, name="again").insert()),
        "many": await refusal(Person.insert_many([Person(id=8, name="h"), Person(id=2, name="b"), Person(id=9, name="i")], ordered=False)),
        "gone": await refusal(Person(id=77, name="x").replace()),
        "absent": await Person.get(77),
        "deleted": [(await bob.delete()).deleted_count, (await Person.find(Person.id > 7).delete()).deleted_count],
        "left": await Person.count(),
    }


class Window(Document):
    id: int
    width: int


class Roof(Document):
    id: int
    house: BackLink["House"] = Field(json_schema_extra={"original_field": "roof"})


class House(Document):
    id: int
    name: str
    roof: Link[Roof] | None = None
    windows: list[Link[Window]] = []


class Street(Document):
    id: int
    houses: list[Link[House]]


async def links(database):
    await beanie.init_beanie(database, document_models=[Window, Roof, House, Street])
    panes = [Window(id=i, width=i * 10) for i in range(4)]
    first = House(id=1, name="first", windows=panes[:2], roof=Roof(id=1))
    await first.insert(link_rule=WriteRules.WRITE)
    await Window.insert_many(panes[2:])
    second = await House(id=2, name="second", windows=panes[1:]).insert()
    await Street(id=1, houses=[first, second]).insert()
    unfetched = await House.get(1)
    await unfetched.fetch_link(House.windows)
    deep = await Street.get(1, fetch_links=True)
    return {
        "stored": [await stored(House), await stored(Roof)],
        "fetched": plain(await House.find(fetch_links=True).sort("_id").to_list()),
        "deep": [[house.name, [window.width for window in house.windows]] for house in deep.houses],
        "shallow": [type(house).__name__ for house in (await Street.find_one(fetch_links=True, nesting_depth=1)).houses],
        "later": [window.width for window in unfetched.windows],
        "by_field": [house.name for house in await House.find(House.windows.width == 30, fetch_links=True).to_list()],
        "by_id": [house.name for house in await House.find({"windows.$id": 1}).sort("-_id").to_list()],
        "counted": await House.find(House.windows.width > 10, fetch_links=True).count(),
        "back": (await Roof.get(1, fetch_links=True)).house.name,
        "deleted": (await (await House.get(1, fetch_links=True)).delete(link_rule=DeleteRules.DELETE_LINKS)).deleted_count,
        "left": [await Window.count(), await Roof.count(), (await House.get(2, fetch_links=True)).windows == []],
    }


class Comment(BaseModel):
    by: str
    votes: int


class Row(Document):
    id: int
    n: int
    name: str
    tags: list[str] = []
    comments: list[Comment] = []
    extra: dict = {}


class Short(BaseModel):
    name: str
    low: int

    class Settings:
        projection = {"_id": 0, "name": 1, "low": {"$min": "$comments.votes"}}


async def rows(database):
    await beanie.init_beanie(database, document_models=[Row])
    await Row.insert_many(
        [Row(id=i, n=i % 7, name=f"name {i % 10}", tags=["ab"[i % 2], "c"], comments=[Comment(by="x", votes=i), Comment(by="y", votes=-i)], extra={"v": i} if i % 3 else {}) for i in range(100)]
    )


async def querying(database):
    await rows(database)

    async def ids(query):
        return [row.id async for row in query]

    return {
        "operators": await ids(Row.find(Row.n == 3, Row.id >= 10, Row.id < 50, Not({"name": "name 7"})).sort(-Row.id)),
        "either": await ids(Row.find(Or(Row.id == 5, And(Row.n == 2, Row.id > 90))).sort("+_id")),
        "lists": [await Row.find(All(Row.tags, ["a", "c"])).count(), await Row.find(Size(Row.tags, 2)).count(), await Row.find(In(Row.tags, ["b"])).count()],
        "elements": await ids(Row.find(ElemMatch(Row.comments, {"by": "y", "votes": {"$lt": -97}})).sort(Row.id)),
        "nested": [await Row.find(Row.comments.votes > 95).count(), await Row.find(Exists(Row.extra.v, False)).count(), await Row.find({"extra.v": {"$type": "int"}}).count()],
        "regex": await Row.find(RegEx(Row.name, "E 4$", "i")).count(),
        "paged": await ids(Row.find(Row.n != 0).sort([("n", 1), ("_id", -1)]).skip(5).limit(4)),
        "counts": [await Row.count(), await Row.find(Row.n == 1).skip(10).limit(10).count(), await Row.find(Row.n == 99).exists(), await Row.find(Row.n == 1).exists()],
        "projected": plain(await Row.find(Row.n == 6).sort("_id").limit(3).project(Short).to_list()),
        "distinct": [await Row.distinct("tags"), await Row.find(Row.n == 0).distinct("name")],
        "first": [plain([await Row.find(Row.n == 5).sort(-Row.id).first_or_none()]), await Row.find(Row.n == 55).first_or_none(), (await Row.find_one(Row.name == "name 3")).name],
        "batches": await ids(Row.find(Row.n == 4, batch_size=3).sort("_id")),
        "options": await ids(Row.find(Row.id > 97, hint={"_id": 1}, comment="daily", max_time_ms=5000, allow_disk_use=True)),
        "insensitive": await Row.find({"name": "NAME 4"}, collation={"locale": "en", "strength": 2}).count(),
        "refused": await refusal(Row.find({"n": {"$unknown": 1}}).to_list()),
    }


async def updating(database):
    await rows(database)
    await Row.find(Row.id > 6).delete()
    one = lambda key: Row.find_one(Row.id == key)  # noqa: E731
    first = await Row.get(0)
    await first.update(Set({Row.name: "set"}), Inc({Row.n: 5}), Push({Row.tags: {"$each": ["z", "y"], "$position": 0, "$slice": 3}}))
    raw = [
        await Row.find(Row.n > 3).update(Mul({Row.n: 2}), Unset({"extra.v": ""})),
        await one(1).update(AddToSet({Row.tags: "c"}), Pull({Row.comments: {"votes": {"$lt": 0}}}), Max({Row.n: 9})),
        await one(2).update(Pop({Row.tags: -1}), Rename({"extra.v": "extra.w"})),
        await one(3).update({"$inc": {"comments.$[low].votes": 100}}, array_filters=[{"low.votes": {"$lt": 0}}]),
        await one(4).update([{"$set": {"name": {"$toUpper": "$name"}}}]),
    ]
    results = [{**result.raw_result} for result in raw]
    inserted = await one(50).upsert(Set({Row.n: 1}), on_insert=Row(id=50, n=50, name="upserted"))
    await one(50).upsert(Set({Row.n: 51}), on_insert=Row(id=50, n=0, name="never"))
    async with BulkWriter() as bulk:
        await Row.insert_one(Row(id=60, n=0, name="bulk"), bulk_writer=bulk)
        await one(60).update(Inc({Row.n: 1}), bulk_writer=bulk)
        await Row.find(Row.id < 3).update(Set({Row.name: "bulk"}), bulk_writer=bulk)
        await one(5).delete(bulk_writer=bulk)
    second = await Row.get(2)
    second.n = 22
    third = await Row.get(3)
    third.n = 33
    await Row.replace_many([second, third])
    return {
        "results": results,
        "inserted": inserted.name,
        "new": plain([await one(6).update(Inc({Row.n: 1}), response_type=UpdateResponse.NEW_DOCUMENT)]),
        "old": plain([await one(6).update(Inc({Row.n: 1}), response_type=UpdateResponse.OLD_DOCUMENT)]),
        "in_place": plain([await first.set({Row.name: "at last"})]),
        "upserted": (await Row.find(Row.n == 1234).update_many(SetOnInsert({Row.id: 70, Row.name: "s"}), upsert=True)).upserted_id,
        "conflict": await refusal(one(0).update(Set({Row.n: 1}), {"$inc": {"n.x": 2}})),
        "no_number": await refusal(one(0).update(Inc({Row.name: 1}))),
        "stored": await stored(Row),
        "all": (await Row.delete_all()).deleted_count,
    }


class Total(BaseModel):
    n: int = Field(alias="_id")
    total: float
    names: int


async def aggregating(database):
    await rows(database)
    groups = [{"$group": {"_id": "$n", "total": {"$sum": {"$first": "$comments.votes"}}, "names": {"$addToSet": "$name"}}}, {"$set": {"names": {"$size": "$names"}}}, {"$sort": {"_id": 1}}]
    lookup = [{"$lookup": {"from": "Row", "localField": "n", "foreignField": "_id", "as": "same"}}, {"$project": {"same.name": 1}}]
    return {
        "groups": plain(await Row.find(Row.id < 60).aggregate(groups, projection_model=Total).to_list()),
        "lookup": await Row.find(Row.n == 5).sort(-Row.id).limit(2).aggregate(lookup).to_list(),
        "all": await Row.aggregate([{"$sample": {"size": 1000}}, {"$count": "n"}]).to_list(),
        "numbers": [await Row.sum(Row.n), await Row.find(Row.n < 3).avg(Row.id), await Row.max(Row.id), await Row.find(Row.id > 5).min(Row.id), await Row.find(Row.n == 99).sum(Row.n)],
        "streamed": [row["_id"] async for row in Row.aggregate([{"$match": {"n": 1}}, {"$sort": {"_id": 1}}], batchSize=4)],
        "refused": await refusal(Row.aggregate([{"$project": {}}]).to_list()),
    }


class User(Document):
    id: int
    email: Indexed(str, unique=True)
    name: Indexed(str, pymongo.DESCENDING, name="by_name")
    nick: str | None = None
    score: int = 0
    seen: datetime.datetime = day(1)

    class Settings:
        name = "users"
        keep_nulls = False
        indexes = [
            [("name", pymongo.ASCENDING), ("score", pymongo.DESCENDING)],
            IndexModel("nick", unique=True, partialFilterExpression={"nick": {"$exists": True}}, collation={"locale": "en", "strength": 2}),
            IndexModel("seen", expireAfterSeconds=10**9), IndexModel([("score", "hashed")], name="hashed"),
        ]  # fmt: skip


class FewerIndexes(Document):
    id: int
    score: Indexed(int, sparse=True)

    class Settings:
        name = "users"


async def indexing(database):
    await beanie.init_beanie(database, document_models=[User])
    listed = await indexes(User)
    await User.insert_many([User(id=1, email="a", name="x", nick="Nick"), User(id=2, email="b", name="y"), User(id=3, email="c", name="z")])
    refused = [await refusal(User(id=4, email="a", name="x").insert()), await refusal(User(id=4, email="d", name="x", nick="NICK").insert())]
    inspected = await User.inspect_collection()
    await beanie.init_beanie(database, document_models=[FewerIndexes], allow_index_dropping=True)
    return {"listed": listed, "refused": refused, "inspected": [inspected.status.value, inspected.errors], "left": await indexes(FewerIndexes), "stored": await stored(User)}


class Account(Document):
    id: int
    balance: int

    class Settings:
        use_revision = True
        use_state_management = True


async def revisions(database):
    await beanie.init_beanie(database, document_models=[Account])
    await Account(id=1, balance=10).insert()
    mine, theirs = await Account.get(1), await Account.get(1)
    theirs.balance += 5
    await theirs.save_changes()
    mine.balance -= 5
    late = [await refusal(mine.replace()), await refusal(mine.save_changes()), await refusal(mine.save())]
    await mine.replace(ignore_revision=True)
    stored_revision = (await stored(Account))[0]["revision_id"]
    return {"late": [{**one, "message": None} for one in late], "balance": (await Account.get(1)).balance, "same": stored_revision == mine.revision_id, "changed": stored_revision != theirs.revision_id}


class Reading(Document):
    id: int
    at: datetime.datetime
    sensor: dict
    value: float

    class Settings:
        timeseries = beanie.TimeSeriesConfig(time_field="at", meta_field="sensor", granularity=beanie.Granularity.hours, expire_after_seconds=10**9)


class Daily(View):
    day: datetime.datetime
    mean: float

    class Settings:
        source = Reading
        pipeline = [
            {"$group": {"_id": {"$dateTrunc": {"date": "$at", "unit": "day"}}, "mean": {"$avg": "$value"}}},
            {"$project": {"_id": 0, "day": "$_id", "mean": 1}},
        ]


async def series_and_views(database):
    await beanie.init_beanie(database, document_models=[Reading, Daily], recreate_views=True)
    await Reading.insert_many([Reading(id=i, at=day(1 + i / 8), sensor={"id": i % 3}, value=i / 2) for i in range(40)])
    listed = await (await database.list_collections(filter={"name": {"$in": ["Reading", "Daily"]}})).to_list()
    return {
        "listed": sorted(({key: one[key] for key in ("name", "type", "options")} for one in listed), key=lambda one: one["name"]),
        "found": plain(await Reading.find({"sensor.id": 1}, Reading.at > day(4)).sort(-Reading.at).to_list()),
        "daily": plain(await Daily.find(Daily.mean > 4).sort("day").to_list()),
        "counted": [await Daily.count(), await Daily.find(Daily.day >= day(3)).count()],
        "best": await Daily.find_all().max(Daily.mean),
        "written": await refusal(Daily.get_pymongo_collection().insert_one({"_id": 1})),
    }


class Parent(UnionDoc):
    class Settings:
        name = "union"


class One(Document):
    id: int
    a: int = 1

    class Settings:
        union_doc = Parent


class Two(Document):
    id: int
    b: int = 2

    class Settings:
        union_doc = Parent


class Vehicle(Document):
    id: int
    wheels: int = 0

    class Settings:
        is_root = True


class Car(Vehicle):
    wheels: int = 4


class Bus(Car):
    seats: int = 50


class Note(DocumentWithSoftDelete):
    id: int
    text: str


async def several_kinds(database):
    await beanie.init_beanie(database, document_models=[Parent, One, Two, Vehicle, Car, Bus, Note])
    await One.insert_many([One(id=1), One(id=2, a=5)])
    await Two(id=3).insert()
    await Vehicle(id=1).insert()
    await Car(id=2).insert()
    await Bus(id=3, wheels=6).insert()
    await Note.insert_many([Note(id=1, text="a"), Note(id=2, text="b")])
    await (await Note.get(1)).delete()
    return {
        "union": [type(one).__name__ for one in await Parent.all(sort="_id").to_list()],
        "ones": plain(await One.find_all(sort="_id").to_list()),
        "union_counts": [await Parent.count(), await Two.count(), await Parent.find({"a": 5}).count()],
        "union_groups": await Parent.aggregate([{"$sortByCount": "$_class_id"}]).to_list(),
        "union_stored": await stored(One),
        "vehicles": [type(one).__name__ for one in await Vehicle.find(with_children=True).sort("_id").to_list()],
        "cars": [one.id for one in await Car.find(with_children=True).sort("_id").to_list()],
        "only": [await Vehicle.find().count(), await Car.find(Car.wheels == 4).count()],
        "notes": [[note.id for note in await Note.find().to_list()], [note.is_deleted() for note in await Note.find_many_in_all().sort("_id").to_list()]],
    }


class Point(BaseModel):
    type: str = "Point"
    coordinates: tuple[float, float]


class Place(Document):
    name: str
    at: Point

    class Settings:
        indexes = [[("at", pymongo.GEOSPHERE)], [("at.coordinates", pymongo.GEO2D)]]


async def geo(database):
    await beanie.init_beanie(database, document_models=[Place])
    for name, at in {"Paris": (2.35, 48.85), "Lyon": (4.83, 45.76), "Tours": (0.68, 47.39), "Nice": (7.26, 43.7)}.items():
        await Place(name=name, at=Point(coordinates=at)).insert()

    async def names(*query):
        return [place.name for place in await Place.find(*query).to_list()]

    ring = [[0, 46], [3, 46], [3, 49], [0, 49], [0, 46]]
    near = [{"$geoNear": {"near": {"type": "Point", "coordinates": [2, 48]}, "key": "at", "distanceField": "meters", "maxDistance": 400000}}, {"$project": {"_id": 0, "name": 1, "meters": 1}}]
    return {
        "near": await names(Near(Place.at, 2, 48, max_distance=400000)),
        "within": sorted(await names(GeoWithin(Place.at, "Polygon", [ring]))),
        "crosses": sorted(await names(GeoIntersects(Place.at, "Polygon", [ring]))),
        "flat": await names({"at.coordinates": {"$near": [5, 45], "$maxDistance": 3}}),
        "distances": await Place.aggregate(near).to_list(),
        "refused": await refusal(Place.find({"at": {"$near": {"$geometry": {"type": "Polygon", "coordinates": [ring]}}}}).to_list()),
        "indexes": await indexes(Place),
    }


async def sessions(database):
    await rows(database)
    async with database.client.start_session(causal_consistency=True) as session:
        await Row(id=200, n=1, name="in session").insert(session=session)
        await Row.find_one(Row.id == 200, session=session).update(Inc({Row.n: 1}), session=session)
        seen = [row.id async for row in Row.find(Row.id > 90, session=session, batch_size=2).sort("_id")]
        counted = await Row.find(Row.n == 2, session=session).count()
        await Row.find(Row.id == 200, session=session).delete(session=session)
    return {"seen": seen, "counted": counted, "left": await Row.count()}


STEPS = [documents, links, querying, updating, aggregating, indexing, revisions, series_and_views, several_kinds, geo, sessions]


async def in_database(step, uri, database):
    async with AsyncMongoClient(uri, uuidRepresentation="standard", serverSelectionTimeoutMS=5000) as client:
        return await step(client[database])


def work(step, uri, database):
    return asyncio.run(in_database(step, uri, database))


if __name__ == "__main__":
    run("beanie", STEPS, work)
