"""A day's work with MongoEngine, in named steps: mongoengine_work.py URI.

Absent, because Meridian does not have them yet: map-reduce and `$where`, text indexes, transactions.
"""

import datetime
import decimal
import uuid

import mongoengine as me
from mongoengine.queryset.visitor import Q
from steps import refusal, run


def day(number):
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(days=number - 1)


def stored(model):
    return list(model._get_collection().find().sort("_id"))


def indexes(model):
    return list(model._get_collection().list_indexes())


def documents():
    class Address(me.EmbeddedDocument):
        street = me.StringField(required=True)
        zip = me.StringField(regex=r"^\d+$")

    class Person(me.Document):
        id = me.IntField(primary_key=True)
        name = me.StringField(required=True, max_length=10)
        born = me.DateTimeField()
        email = me.EmailField()
        size = me.FloatField(min_value=0)
        money = me.Decimal128Field()
        exact = me.DecimalField(precision=2)
        role = me.StringField(choices=["reader", "writer"], default="reader")
        key = me.UUIDField()
        home = me.EmbeddedDocumentField(Address)
        others = me.EmbeddedDocumentListField(Address)
        tags = me.ListField(me.StringField())
        marks = me.MapField(me.IntField())
        anything = me.DictField()
        data = me.BinaryField()
        big = me.LongField()

    Person(
        id=1, name="Ada", born=day(1), email="ada@example.org", size=1.5, money=decimal.Decimal("1.10"), exact=2.345, key=uuid.UUID(int=5), home=Address(street="A", zip="1"),
        others=[Address(street="B"), Address(street="C")], tags=["x", "y"], marks={"art": 1}, anything={"deep": [1, {"a": None}]}, data=b"abc", big=2**40,
    ).save()  # fmt: skip
    person = Person.objects.get(id=1)
    before = person.to_mongo()
    person.tags.append("z")
    person.marks["music"] = 2
    person.home.street = "D"
    person.email = None
    person.others.filter(street="B").update(zip="9")
    person.others.remove(person.others[1])
    person.save()
    Person.objects(id=1).update(inc__big=1)
    person.reload()
    person.size = 9.0
    return {
        "before": before,
        "reloaded": person.to_mongo(),
        "stored": stored(Person),
        "invalid": refusal(Person(id=2, name="much too long a name", email="no", size=-1, role="other", home=Address(zip="a")).save),
        "condition": refusal(person.save, save_condition={"size__gt": 100}),
        "missing": refusal(Person.objects.get, id=9),
        "by_decimal": Person.objects(money=decimal.Decimal("1.1")).count(),
        "by_key": Person.objects(key=uuid.UUID(int=5)).count(),
        "deleted": [person.delete(), Person.objects.count()],
    }


def references():
    class Publisher(me.Document):
        name = me.StringField(primary_key=True)

    class Author(me.Document):
        name = me.StringField(primary_key=True)
        publisher = me.ReferenceField(Publisher, reverse_delete_rule=me.NULLIFY)

    class Book(me.Document):
        id = me.SequenceField(primary_key=True)
        authors = me.ListField(me.ReferenceField(Author, reverse_delete_rule=me.PULL))
        owner = me.ReferenceField(Author, dbref=True, reverse_delete_rule=me.CASCADE)
        lazy = me.LazyReferenceField(Author)
        about = me.GenericReferenceField(choices=[Author, Publisher])

    class Loan(me.Document):
        id = me.IntField(primary_key=True)
        book = me.ReferenceField(Book, reverse_delete_rule=me.DENY)

    north = Publisher(name="North").save()
    ada, bob, cleo = (Author(name=name, publisher=north).save() for name in ["Ada", "Bob", "Cleo"])
    first = Book(authors=[ada, bob], owner=ada, lazy=bob, about=north).save()
    Book(authors=[bob, cleo], owner=bob, about=cleo).save()
    Loan(id=1, book=first).save()
    read = [{"authors": [author.name for author in book.authors], "house": book.owner.publisher.name, "about": book.about.pk} for book in Book.objects.order_by("id").select_related(2)]
    found = [book.id for book in Book.objects(authors=cleo)]
    lazy = Book.objects.get(id=1).lazy.fetch().name
    denied = refusal(first.delete)
    cleo.delete()
    bob.delete()
    north.delete()
    return {"read": read, "found": found, "lazy": lazy, "denied": denied, "left": [stored(model) for model in (Publisher, Author, Book, Loan)]}


class Comment(me.EmbeddedDocument):
    by = me.StringField()
    votes = me.IntField(default=0)


def numbered(collection_name):
    """A model of numbers with a hundred documents."""

    class Row(me.Document):
        meta = {"collection": collection_name}
        id = me.IntField(primary_key=True)
        n = me.IntField()
        name = me.StringField()
        tags = me.ListField(me.StringField())
        comments = me.EmbeddedDocumentListField(Comment)
        extra = me.DictField()

    Row.objects.insert(
        [Row(id=i, n=i % 7, name=f"Name {i % 10}", tags=["ab"[i % 2], "c"], comments=[Comment(by="x", votes=i), Comment(by="y", votes=-i)], extra={"deep": {"value": i}}) for i in range(100)]
    )
    return Row


def querying():
    Row = numbered("rows")
    ids = lambda rows: [row.id for row in rows]  # noqa: E731
    ordered = Row.objects.order_by("n", "-id")
    return {
        "operators": ids(Row.objects(id__gte=10, id__lt=40, n__in=[1, 2], name__ne="Name 1").order_by("-id")),
        "q": ids(Row.objects((Q(n=3) & Q(id__lt=20)) | Q(id=50) | Q(id__gte=98)).order_by("id")),
        "strings": [Row.objects(name__icontains="E 5").count(), Row.objects(name__startswith="name").count(), Row.objects(name__iendswith="9").count(), Row.objects(name__iexact="nAME 3").count()],
        "lists": [Row.objects(tags="a").count(), Row.objects(tags__all=["a", "c"]).count(), Row.objects(tags__0="b").count(), Row.objects(tags__size=2).count(), Row.objects(tags__nin=["a"]).count()],
        "matched": ids(Row.objects(comments__match={"by": "y", "votes__lt": -97}).order_by("id")),
        "nested": [Row.objects(extra__deep__value__mod=(10, 3)).count(), Row.objects(comments__votes__gt=95).count(), Row.objects(extra__nothing__exists=True).count(), Row.objects(n__not__gt=5).count()],
        "raw": ids(Row.objects(__raw__={"$expr": {"$eq": ["$id", "$n"]}})[:2]) + ids(Row.objects(__raw__={"n": {"$type": "int"}}).order_by("-id")[:2]),
        "slice": ids(ordered[5:9]) + ids(ordered.skip(98)),
        "counts": [Row.objects.count(), ordered.skip(90).limit(20).count(with_limit_and_skip=True), len(Row.objects(n=1))],
        "distinct": [Row.objects(id__lt=5).distinct("name"), Row.objects.distinct("tags"), sorted(Row.objects(n=0).distinct("comments.votes"))],
        "only": list(ordered.only("name", "extra.deep").limit(2).as_pymongo()),
        "exclude": list(ordered.exclude("comments", "extra").limit(1).as_pymongo()),
        "sliced": list(ordered.fields(slice__comments=1).limit(1).as_pymongo()),
        "scalar": [list(ordered.scalar("id", "name").limit(3)), list(ordered.values_list("n").limit(2))],
        "mapped": list(map(lambda row: row.id * 2, Row.objects(n=6).batch_size(3))),
        "bulk": sorted(Row.objects.in_bulk([1, 2, 1000])),
        "first": [ordered.first().id, Row.objects(n=99).first()],
        "several": refusal(Row.objects.get, n=1),
        "sums": [Row.objects.sum("id"), Row.objects(n=2).average("id"), Row.objects.sum("comments.votes")],
        "options": ids(Row.objects(id__gt=97).hint([("_id", 1)]).comment("daily").max_time_ms(5000).collation({"locale": "en", "strength": 2})),
        "insensitive": Row.objects(name="NAME 4").collation({"locale": "en", "strength": 2}).count(),
    }


def updating():
    Row = numbered("rows")
    Row.objects(id__gte=6).delete()
    rows = Row.objects
    return {
        "many": rows(n__gt=3).update(set__name="big", inc__n=10),
        "one": rows(id=0).update_one(set__extra__deep__value="new", unset__n=1, full_result=True).raw_result,
        "push": rows(id=1).update(push__tags="d", add_to_set__comments=Comment(by="z")),
        "front": rows(id=1).update(push__tags__0=["e", "f"]),
        "pull": rows(id=2).update(pull__comments__by="x", pop__tags=-1),
        "pull_all": rows(id=3).update(pull_all__tags=["b", "c"], rename__n="extra.m"),
        "positional": rows(id=4, comments__by="y").update(set__comments__S__votes=77),
        "filters": rows(id__lt=3).update(__raw__={"$mul": {"comments.$[low].votes": 3}}, array_filters=[{"low.votes": {"$gte": 1}}]),
        "limits": rows(id=5).update(min__n=2, max__extra__deep__value=100),
        "modified": rows(id=5).modify(inc__n=1, new=True).n,
        "removed": rows(id=5).modify(remove=True).to_mongo(),
        "upserted": rows(id=20).modify(upsert=True, new=True, set__name="up", set_on_insert__n=1).to_mongo(),
        "upsert_one": rows(id=21).upsert_one(set__name="up").id,
        "pipeline": rows(id=20).update(__raw__=[{"$set": {"name": {"$toUpper": "$name"}, "n": {"$add": ["$n", 1]}}}]),
        "conflict": refusal(rows(id=0).update, inc__n=1, set__n=2),
        "no_number": refusal(rows(id=0).update, __raw__={"$inc": {"name": 1}}),
        "unmatched": rows(id=99).update(set__n=1),
        "deleted": rows(name="up").delete(),
        "rows": stored(Row),
    }


def geo():
    class Place(me.Document):
        name = me.StringField(primary_key=True)
        flat = me.GeoPointField()
        at = me.PointField()
        road = me.LineStringField()
        area = me.PolygonField()
        stops = me.MultiPointField()

    square = {"type": "Polygon", "coordinates": [[[0, 46], [3, 46], [3, 49], [0, 49], [0, 46]]]}
    for name, at in {"Paris": [2.35, 48.85], "Lyon": [4.83, 45.76], "Tours": [0.68, 47.39], "Nice": [7.26, 43.7]}.items():
        x, y = at
        ring = [[x, y], [x + 0.5, y], [x + 0.5, y + 0.5], [x, y + 0.5], [x, y]]
        Place(name=name, flat=at, at=at, road=[at, [x + 1, y]], area=[ring], stops=[at, [0, 0]]).save()
    names = lambda **query: [place.name for place in Place.objects(**query)]  # noqa: E731
    same = lambda **query: sorted(names(**query))  # noqa: E731
    return {
        "flat_near": names(flat__near=[2, 48], flat__max_distance=4),
        "flat_sphere": names(flat__near_sphere=[2, 48], flat__max_distance=0.05),
        "flat_circle": same(flat__within_distance=[(2, 48), 3]),
        "flat_sphere_circle": same(flat__within_spherical_distance=[(2, 48), 300 / 6378.1]),
        "flat_box": same(flat__within_box=[(0, 45), (5, 48)]),
        "flat_polygon": same(flat__within_polygon=[[0, 44], [8, 43], [8, 46]]),
        "near": names(at__near=[2, 48], at__max_distance=400000, at__min_distance=1000),
        "within": same(at__geo_within=square),
        "within_box": same(at__geo_within_box=[(0, 45), (5, 48)]),
        "within_center": same(at__geo_within_center=[(2, 48), 1.5]),
        "within_sphere": same(at__geo_within_sphere=[(2, 48), 0.02]),
        "within_polygon": same(at__geo_within_polygon=[[0, 44], [8, 43], [8, 46]]),
        "lines": same(road__geo_intersects={"type": "LineString", "coordinates": [[3, 40], [3, 60]]}),
        "areas": same(area__geo_intersects=[2.5, 49]),
        "stops": same(stops__geo_within=[[[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]]),
        "both": same(at__geo_within=square, name__startswith="P"),
        "distances": list(Place.objects.aggregate([{"$geoNear": {"near": {"type": "Point", "coordinates": [2, 48]}, "key": "at", "distanceField": "m"}}, {"$project": {"m": 1}}])),
        "refused": refusal(Place(name="no", at=[200, 95]).save),
        "invalid": refusal(Place(name="no", at=[1]).save),
        "stored": stored(Place)[0],
        "indexes": indexes(Place),
    }


def indexing():
    class User(me.Document):
        meta = {
            "collection": "users",
            "indexes": [
                "name", ("name", "-score"), {"fields": ["expires"], "expireAfterSeconds": 3600}, {"fields": ["nick"], "unique": True, "sparse": True},
                {"fields": ["score"], "partialFilterExpression": {"score": {"$gt": 5}}, "name": "high"}, "#kind",
                {"fields": ["title"], "collation": {"locale": "en", "strength": 2}, "unique": True, "partialFilterExpression": {"title": {"$exists": True}}},
            ],
        }  # fmt: skip
        id = me.IntField(primary_key=True)
        name = me.StringField(unique_with=["kind"])
        kind = me.StringField()
        score = me.IntField()
        nick = me.StringField()
        title = me.StringField()
        expires = me.DateTimeField()

    User(id=1, name="a", kind="x", nick="n", title="Sir").save()
    User(id=2, name="a", kind="y").save()
    listed = indexes(User)
    wanted = User.list_indexes()
    User.create_index(["score", "-kind"], background=True)
    compared = User.compare_indexes()
    return {
        "listed": listed,
        "wanted": wanted,
        "compared": compared,
        "unique_with": refusal(User(id=3, name="a", kind="x").save),
        "sparse": refusal(User(id=3, name="b", kind="x", nick="n").save),
        "collation": refusal(User(id=3, name="b", kind="x", title="SIR").save),
        "update": refusal(User.objects(id=2).update_one, set__kind="x"),
        "primary": refusal(User(id=1, name="c").save, force_insert=True),
        "bulk": refusal(User.objects.insert, [User(id=9, name="d"), User(id=1, name="e")]),
        "conflict": refusal(User._get_collection().create_index, [("name", 1), ("score", -1)], unique=True),
        "users": stored(User),
    }


def aggregating():
    Row = numbered("rows")

    class Owner(me.Document):
        id = me.IntField(primary_key=True)
        name = me.StringField()

    Owner.objects.insert([Owner(id=i, name=f"owner {i}") for i in range(7)])
    groups = [{"$group": {"_id": "$n", "count": {"$sum": 1}, "votes": {"$avg": {"$max": "$comments.votes"}}}}, {"$sort": {"_id": 1}}]
    lookup = [
        {"$lookup": {"from": "owner", "localField": "n", "foreignField": "_id", "as": "owner", "pipeline": [{"$project": {"name": 1, "_id": 0}}]}},
        {"$replaceWith": {"id": "$_id", "owner": {"$first": "$owner.name"}}},
    ]
    return {
        "groups": list(Row.objects(id__lt=50).aggregate(groups)),
        "lookup": list(Row.objects(id__gte=2).order_by("-n", "id").limit(4).skip(1).aggregate(lookup)),
        "facet": list(Row.objects.aggregate([{"$facet": {"tags": [{"$unwind": "$tags"}, {"$sortByCount": "$tags"}, {"$sort": {"count": 1, "_id": 1}}], "auto": [{"$bucketAuto": {"groupBy": "$_id", "buckets": 3}}]}}])),
        "out": [list(Row.objects(n=1).aggregate([{"$project": {"name": 1}}, {"$out": "copies"}])), Row._get_collection().database["copies"].count_documents({})],
        "disk": len(list(Row.objects.aggregate([{"$sort": {"name": 1}}], allowDiskUse=True, batchSize=7))),
        "refused": refusal(Row.objects.aggregate, [{"$group": {"n": {"$sum": 1}}}]),
    }


def inheritance():
    class Animal(me.Document):
        meta = {"allow_inheritance": True, "indexes": ["name", {"fields": ["legs"], "cls": False}]}
        id = me.IntField(primary_key=True)
        name = me.StringField()
        legs = me.IntField()

    class Dog(Animal):
        meta = {"indexes": ["breed"]}
        breed = me.StringField()

    class Puppy(Dog):
        weeks = me.IntField()

    Animal(id=1, name="Bird", legs=2).save()
    Dog(id=2, name="Rex", legs=4, breed="lab").save()
    Puppy(id=3, name="Toto", legs=4, breed="lab", weeks=3).save()
    Dog.ensure_indexes()
    return {
        "classes": [type(animal).__name__ for animal in Animal.objects.order_by("id")],
        "dogs": [dog.id for dog in Dog.objects(breed="lab").order_by("id")],
        "only_dogs": [dog.id for dog in Dog.objects.no_sub_classes()],
        "updated": Dog.objects(legs=4).update(inc__legs=-1),
        "stored": stored(Animal),
        "indexes": sorted(indexes(Animal), key=lambda index: index["name"]),
        "deleted": Puppy.objects.delete(),
    }


def collections():
    class Log(me.Document):
        meta = {"max_documents": 3, "max_size": 4096}
        id = me.IntField(primary_key=True)

    class Reading(me.Document):  # mongod returns the fields of measurements in any order
        meta = {"timeseries": {"timeField": "at", "metaField": "sensor", "granularity": "hours", "expireAfterSeconds": 10**9}, "auto_create_index": False}
        id = me.IntField(primary_key=True)
        at = me.DateTimeField()
        sensor = me.StringField()
        value = me.FloatField()

    for i in range(5):
        Log(id=i).save()
    Reading.objects.insert([Reading(id=i, at=day(1 + i / 4), sensor="ab"[i % 2], value=i / 2) for i in range(40)])
    days = [{"$group": {"_id": {"day": {"$dateToString": {"date": "$at", "format": "%d"}}, "sensor": "$sensor"}, "mean": {"$avg": "$value"}}}, {"$sort": {"_id": 1}}]
    return {
        "log": [stored(Log), Log._get_collection().options()],
        "days": list(Reading.objects(at__lt=day(4)).aggregate(days)),
        "found": [[reading.id, reading.value] for reading in Reading.objects(sensor="a", value__gt=15).order_by("-at")],
        "options": Reading._get_collection().options(),
    }


def files():
    class Picture(me.Document):
        id = me.IntField(primary_key=True)
        file = me.FileField(collection_name="pictures")

    picture = Picture(id=1)
    picture.file.put(bytes(range(256)) * 2000, filename="a.bin", content_type="application/octet-stream")
    picture.save()
    read = Picture.objects.get(id=1)
    size, tail = read.file.length, read.file.read()[-3:]
    chunks = [len(chunk["data"]) for chunk in me.get_db()["pictures.chunks"].find().sort("n")]
    read.file.replace(b"short", filename="b.bin")
    read.save()
    names = me.get_db()["pictures.files"].distinct("filename")
    again = Picture.objects.get(id=1).file.read()
    read.file.delete()
    return {"size": size, "tail": tail, "chunks": chunks, "names": names, "again": again, "left": me.get_db()["pictures.chunks"].count_documents({})}


STEPS = [documents, references, querying, updating, geo, indexing, aggregating, inheritance, collections, files]


def work(step, uri, database):
    me.connect(db=database, host=uri, uuidRepresentation="standard", serverSelectionTimeoutMS=5000)
    try:
        return step()
    finally:
        me.disconnect()


if __name__ == "__main__":
    run("mongoengine", STEPS, work)
