package work;

import static com.mongodb.client.model.Filters.*;
import static com.mongodb.client.model.Indexes.*;
import static com.mongodb.client.model.Updates.*;
import static work.Steps.document;
import static work.Steps.list;
import static work.Steps.refusal;

import com.mongodb.MongoNamespace;
import com.mongodb.ReadConcern;
import com.mongodb.WriteConcern;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBucket;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.gridfs.model.GridFSUploadOptions;
import com.mongodb.client.model.*;
import com.mongodb.client.model.geojson.LineString;
import com.mongodb.client.model.geojson.Point;
import com.mongodb.client.model.geojson.Polygon;
import com.mongodb.client.model.geojson.Position;
import com.mongodb.client.result.UpdateResult;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.bson.BsonTimestamp;
import org.bson.Document;
import org.bson.codecs.pojo.annotations.BsonId;
import org.bson.conversions.Bson;
import org.bson.types.Binary;
import org.bson.types.Code;
import org.bson.types.Decimal128;
import org.bson.types.MaxKey;
import org.bson.types.MinKey;
import org.bson.types.ObjectId;

/** A day's work with the synchronous Java driver: DriverWork URI. Transactions and change streams are absent: Meridian does not have them yet. */
public final class DriverWork {
    public record Address(String street, Integer zip) {}

    public record Person(@BsonId int id, String name, Address home, List<String> tags, BigDecimal money, Instant born) {}

    private static final Bson ID = ascending("_id");

    private static Date day(double number) {
        return Date.from(Instant.parse("2024-01-01T00:00:00Z").plusMillis((long) ((number - 1) * 86_400_000)));
    }

    /** A collection `rows` of a hundred documents. */
    private static MongoCollection<Document> rows(MongoDatabase database) {
        MongoCollection<Document> rows = database.getCollection("rows");
        rows.insertMany(IntStream.range(0, 100).mapToObj(i -> document("_id", i, "n", i % 7, "name", "name " + i % 10, "at", day(i),
            "marks", List.of(document("by", "x", "value", i), document("by", "y", "value", -i)))).toList());
        return rows;
    }

    private static Document shown(UpdateResult result) {
        return document("matched", result.getMatchedCount(), "modified", result.getModifiedCount(), "upserted", result.getUpsertedId());
    }

    private static Object crud(MongoClient client, String database) {
        MongoCollection<Document> rows = rows(client.getDatabase(database));
        FindOneAndUpdateOptions after = new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER).sort(descending("n", "_id"));
        return document(
            "inserted", rows.insertOne(document("_id", "text")).getInsertedId(),
            "found", list(rows.find(and(in("n", 1, 2), lt("_id", 20))).sort(Sorts.orderBy(ascending("n"), descending("_id"))).projection(Projections.include("n")).skip(1).limit(3)),
            "element", list(rows.find(elemMatch("marks", and(eq("by", "y"), lt("value", -97)))).projection(Projections.elemMatch("marks")).sort(ID)),
            "sliced", rows.find(eq("_id", 3)).projection(Projections.fields(Projections.slice("marks", -1), Projections.excludeId(), Projections.computed("twice", document("$multiply", List.of("$n", 2))))).first(),
            "many", shown(rows.updateMany(gt("_id", 90), combine(inc("n", 10), set("changed", true), unset("name")))),
            "one", shown(rows.updateOne(eq("_id", 5), combine(push("marks", document("by", "z")), addToSet("tags", "a")))),
            "pulled", shown(rows.updateOne(eq("_id", 5), pull("marks", eq("by", "y")))),
            "pushed", shown(rows.updateOne(eq("_id", 5), pushEach("tags", List.of("c", "b"), new PushOptions().position(0).sort(1).slice(2)))),
            "filters", shown(rows.updateMany(lt("_id", 3), inc("marks.$[low].value", 100), new UpdateOptions().arrayFilters(List.of(lt("low.value", 0))))),
            "pipeline", shown(rows.updateMany(eq("n", 6), List.of(Aggregates.set(new Field<>("name", document("$toUpper", "$name")))))),
            "upsert", shown(rows.updateOne(eq("_id", 200), combine(set("n", 1), setOnInsert("new", true)), new UpdateOptions().upsert(true))),
            "replaced", shown(rows.replaceOne(eq("_id", 201), document("n", 2), new ReplaceOptions().upsert(true))),
            "after", rows.findOneAndUpdate(gte("n", 15), inc("n", 1), after),
            "before", rows.findOneAndReplace(eq("_id", 1), document("replaced", true), new FindOneAndReplaceOptions().projection(Projections.include("name"))),
            "deleted", rows.findOneAndDelete(eq("_id", 2)),
            "nothing", rows.findOneAndDelete(eq("_id", 2)),
            "removed", List.of(rows.deleteOne(eq("n", 0)).getDeletedCount(), rows.deleteMany(or(regex("name", "^NAME"), exists("changed"))).getDeletedCount()),
            "counts", List.of(rows.countDocuments(gt("n", 3)), rows.estimatedDocumentCount()),
            "distinct", list(rows.distinct("n", lt("_id", 50), Integer.class)),
            "left", list(rows.find(or(lt("_id", 7), gt("_id", 100))).sort(ID)));
    }

    private static Object records(MongoClient client, String database) {
        MongoCollection<Person> people = client.getDatabase(database).getCollection("people", Person.class);
        Instant born = Instant.parse("1990-02-03T04:05:06.789Z");
        people.insertMany(List.of(new Person(1, "Ada", new Address("A", 5), List.of("x", "y"), new BigDecimal("1.10"), born), new Person(2, "Bob", null, List.of(), null, null)));
        people.updateOne(eq("tags", "x"), set("home.zip", 7));
        people.replaceOne(eq("_id", 2), new Person(2, "Bob", new Address("B", null), List.of("z"), new BigDecimal("2"), born));
        return document(
            "read", list(people.find().sort(ID)).stream().map(Object::toString).toList(),
            "stored", list(people.withDocumentClass(Document.class).find().sort(ID)),
            "money", people.countDocuments(eq("money", new BigDecimal("1.1"))));
    }

    private static Object bulk(MongoClient client, String database) {
        MongoCollection<Document> rows = client.getDatabase(database).getCollection("bulk");
        var result = rows.bulkWrite(List.of(
            new InsertOneModel<>(document("_id", 1, "n", 1)), new InsertOneModel<>(document("_id", 2, "n", 2)), new UpdateOneModel<>(eq("_id", 1), inc("n", 10)),
            new UpdateManyModel<>(gt("n", 1), set("big", true)), new ReplaceOneModel<>(eq("_id", 9), document("n", 9), new ReplaceOptions().upsert(true)),
            new DeleteManyModel<>(eq("n", 2))));
        List<InsertOneModel<Document>> twice = IntStream.of(20, 1, 21, 9, 22).mapToObj(id -> new InsertOneModel<>(document("_id", id))).toList();
        return document(
            "counts", List.of(result.getInsertedCount(), result.getMatchedCount(), result.getModifiedCount(), result.getDeletedCount()),
            "upserts", result.getUpserts().stream().map(one -> document("index", one.getIndex(), "id", one.getId())).toList(),
            "ordered", refusal(() -> rows.bulkWrite(twice)),
            "unordered", refusal(() -> rows.bulkWrite(twice, new BulkWriteOptions().ordered(false))),
            // More than the 100,000 writes of one message.
            "many", rows.insertMany(IntStream.range(1000, 101_500).mapToObj(i -> new Document("_id", i)).toList()).getInsertedIds().size(),
            "unacknowledged", rows.withWriteConcern(WriteConcern.UNACKNOWLEDGED).insertOne(document("_id", 30)).wasAcknowledged(),
            "count", rows.countDocuments(gte("_id", 1000)),
            "left", list(rows.find(lt("_id", 30)).sort(ID)));
    }

    private static Object cursors(MongoClient client, String database) {
        MongoCollection<Document> rows = rows(client.getDatabase(database));
        int seen = 0;
        Document last = null;
        try (MongoCursor<Document> cursor = rows.find().sort(ID).batchSize(7).cursor()) {
            while (seen < 50) {
                last = cursor.next();
                seen++;
            }
        }
        return document(
            "seen", List.of(seen, last.get("_id")),
            "all", list(rows.find().batchSize(9).noCursorTimeout(false).sort(descending("_id")).map(row -> row.getInteger("_id"))),
            "limited", list(rows.find().sort(ID).batchSize(3).limit(-5).map(row -> row.getInteger("_id"))),
            "aggregated", list(rows.aggregate(List.of(Aggregates.match(eq("n", 1)), Aggregates.sort(ID))).batchSize(2).map(row -> row.getInteger("_id"))),
            "hinted", list(rows.find(gt("_id", 97)).hint(ID).maxTime(5, TimeUnit.SECONDS).comment("daily").allowDiskUse(true).map(row -> row.getInteger("_id"))),
            "bounds", list(rows.find().hint(ID).min(document("_id", 10)).max(document("_id", 13)).map(row -> row.getInteger("_id"))),
            "natural", rows.find().sort(document("$natural", -1)).first().get("_id"),
            "refused", refusal(() -> rows.find(document("n", document("$unknown", 1))).first()),
            "explained", ((Document) rows.find(eq("_id", 5)).explain().get("queryPlanner")).get("namespace"));
    }

    private static Object aggregation(MongoClient client, String database) {
        MongoDatabase db = client.getDatabase(database);
        MongoCollection<Document> rows = rows(db);
        MongoCollection<Document> names = db.getCollection("names");
        names.insertMany(IntStream.range(0, 6).mapToObj(i -> document("_id", i, "label", "label " + i, "parent", i / 2)).toList());
        rows.aggregate(List.of(Aggregates.group("$n", Accumulators.sum("count", 1)), Aggregates.merge("totals", new MergeOptions().whenMatched(MergeOptions.WhenMatched.REPLACE)))).toCollection();
        return document(
            "groups", list(rows.aggregate(List.of(
                Aggregates.group("$n", Accumulators.sum("sum", "$_id"), Accumulators.avg("mean", "$_id"), Accumulators.min("first", "$at"), Accumulators.stdDevPop("deviation", "$_id"),
                    Accumulators.topN("top", descending("_id"), "$_id", 2)),
                Aggregates.sort(ID)))),
            "joined", list(rows.aggregate(List.of(Aggregates.match(lt("_id", 9)), Aggregates.sort(ID), Aggregates.lookup("names", "n", "_id", "label"),
                Aggregates.unwind("$label"), Aggregates.project(Projections.computed("label", "$label.label"))))),
            "tree", list(names.aggregate(List.of(Aggregates.match(eq("_id", 5)), Aggregates.graphLookup("names", "$parent", "parent", "_id", "up"), Aggregates.project(Projections.computed("up", document("$size", "$up")))))),
            "facets", list(rows.aggregate(List.of(Aggregates.facet(
                new Facet("auto", Aggregates.bucketAuto("$_id", 3, new BucketAutoOptions().output(Accumulators.sum("n", "$n")))),
                new Facet("fixed", Aggregates.bucket("$n", List.of(0, 3, 7))),
                new Facet("counted", Aggregates.unwind("$marks"), Aggregates.match(gt("marks.value", 0)), Aggregates.count()))))),
            "windows", list(rows.aggregate(List.of(
                Aggregates.setWindowFields("$n", ID, WindowOutputFields.sum("moving", "$_id", Windows.documents(-1, 0))), Aggregates.match(gt("_id", 96)), Aggregates.sort(ID),
                Aggregates.project(Projections.include("moving"))))),
            "union", list(names.aggregate(List.of(Aggregates.unionWith("totals", List.of(Aggregates.match(gt("_id", 4)))), Aggregates.sort(Sorts.ascending("_id", "count"))))),
            "dates", list(rows.aggregate(List.of(Aggregates.group(document("$dateTrunc", document("date", "$at", "unit", "month", "timezone", "Europe/Berlin")), Accumulators.sum("n", 1)), Aggregates.sort(ID)))),
            "refused", refusal(() -> rows.aggregate(List.of(document("$group", document("n", 1)))).first()));
    }

    private static Object indexes(MongoClient client, String database) {
        MongoCollection<Document> users = client.getDatabase(database).getCollection("users");
        Collation german = Collation.builder().locale("de").collationStrength(CollationStrength.SECONDARY).build();
        List<String> made = users.createIndexes(List.of(
            new IndexModel(ascending("email"), new IndexOptions().unique(true)),
            new IndexModel(compoundIndex(ascending("name"), descending("score")), new IndexOptions().name("ranking")),
            new IndexModel(ascending("seen"), new IndexOptions().expireAfter(1L, TimeUnit.HOURS)),
            new IndexModel(ascending("nick"), new IndexOptions().unique(true).partialFilterExpression(exists("nick"))),
            new IndexModel(ascending("town"), new IndexOptions().collation(german).sparse(true)),
            new IndexModel(Indexes.hashed("name")), new IndexModel(Indexes.geo2dsphere("at")), new IndexModel(ascending("old"), new IndexOptions().hidden(true))));
        users.insertMany(List.of(document("_id", 1, "email", "a", "nick", "n", "town", "Köln"), document("_id", 2, "email", "b", "town", "köln")));
        return document(
            "made", made,
            "duplicate", refusal(() -> users.insertOne(document("_id", 3, "email", "a"))),
            "partial", refusal(() -> users.updateOne(eq("_id", 2), set("nick", "n"))),
            "primary", refusal(() -> users.insertOne(document("_id", 1, "email", "c"))),
            "again", users.createIndex(ascending("email"), new IndexOptions().unique(true)),
            "conflict", refusal(() -> users.createIndex(ascending("email"))),
            "named", refusal(() -> users.createIndex(ascending("other"), new IndexOptions().name("ranking"))),
            "collated", list(users.find(eq("town", "KÖLN")).collation(german).sort(ID).map(user -> user.getInteger("_id"))),
            "missing", refusal(() -> { users.dropIndex("none"); return null; }),
            "dropped", refusal(() -> { users.dropIndex("ranking"); users.dropIndex(ascending("old")); return null; }),
            "listed", list(users.listIndexes()));
    }

    private static Object geo(MongoClient client, String database) {
        MongoCollection<Document> places = client.getDatabase(database).getCollection("places");
        places.createIndex(Indexes.geo2dsphere("at"));
        places.createIndex(Indexes.geo2d("flat"));
        Map.of("Paris", new double[] {2.35, 48.85}, "Lyon", new double[] {4.83, 45.76}, "Tours", new double[] {0.68, 47.39}, "Nice", new double[] {7.26, 43.7})
            .forEach((name, at) -> places.insertOne(document("_id", name, "at", new Point(new Position(at[0], at[1])), "flat", List.of(at[0], at[1]))));
        Point center = new Point(new Position(2, 48));
        Polygon area = new Polygon(List.of(new Position(0, 46), new Position(3, 46), new Position(3, 49), new Position(0, 49), new Position(0, 46)));
        LineString line = new LineString(List.of(new Position(2.35, 48.85), new Position(4.83, 45.76)));
        var nearOptions = GeoNearOptions.geoNearOptions().key("at").maxDistance(400_000).includeLocs("where").spherical();
        return document(
            "near", ids(places, near("at", center, 300_000.0, 1000.0)),
            "sphere", ids(places, nearSphere("at", 2, 48, 0.05, null)),
            "flat", ids(places, near("flat", 5, 45, 3.0, null)),
            "within", sorted(ids(places, geoWithin("at", area))),
            "circle", sorted(ids(places, geoWithinCenterSphere("at", 2, 48, 300 / 6378.1))),
            "box", sorted(ids(places, geoWithinBox("flat", 0, 43, 5, 48))),
            "line", sorted(ids(places, geoIntersects("at", line))),
            "distances", list(places.aggregate(List.of(Aggregates.geoNear(center, "meters", nearOptions), Aggregates.project(Projections.include("meters", "where"))))),
            "refused", refusal(() -> places.insertOne(document("_id", "no", "at", document("type", "Point", "coordinates", List.of(200, 95))))),
            "wrong", refusal(() -> places.find(geoWithin("at", center)).first()));
    }

    private static List<Object> ids(MongoCollection<Document> places, Bson filter) {
        return list(places.find(filter).map(place -> place.get("_id")));
    }

    private static List<?> sorted(List<?> values) {
        return values.stream().sorted().toList();
    }

    /** Every type there and back, changed by operators, converted, and found by another number type. */
    private static Object types(MongoClient client, String database) {
        MongoCollection<Document> values = client.getDatabase(database).getCollection("values");
        Document every = document("_id", new ObjectId("0123456789abcdef01234567"), "int", 1, "long", 1L << 40, "double", 1.5, "decimal", Decimal128.parse("1.10"), "string", "größer",
            "date", new Date(-5), "nothing", null, "bytes", new Binary(new byte[] {1, 2}), "uuid", new UUID(1, 2), "regex", Pattern.compile("^a", Pattern.CASE_INSENSITIVE),
            "code", new Code("x"), "timestamp", new BsonTimestamp(5, 6), "min", new MinKey(), "max", new MaxKey(), "list", List.of(1, 2L, 3.0, List.of()), "flag", true, "object", new Document());
        values.insertOne(every);
        Document back = values.find().first();
        values.updateOne(new Document(), combine(inc("int", 1L), inc("long", 0.5), inc("double", Decimal128.parse("0.25"))));
        Bson convert = document("$project", document("_id", 0, "string", document("$toString", "$decimal"), "int", document("$toInt", "$double"), "date", document("$toDate", "$_id"),
            "failed", document("$convert", document("input", "$string", "to", "double", "onError", "no number"))));
        return document(
            "back", back,
            "changed", values.find().projection(Projections.include("int", "long", "double")).first(),
            "converted", values.aggregate(List.of(convert)).first(),
            "found", List.of(values.countDocuments(eq("int", 2.0)), values.countDocuments(eq("decimal", Decimal128.parse("1.1"))), values.countDocuments(document("uuid", document("$type", "binData")))),
            "overflow", refusal(() -> values.updateOne(new Document(), inc("int", Long.MAX_VALUE))),
            "text", refusal(() -> values.updateOne(new Document(), inc("string", 1))));
    }

    /** Sessions without transactions; writes and reads are retryable, as they are by default. */
    private static Object sessions(MongoClient client, String database) {
        MongoCollection<Document> rows = rows(client.getDatabase(database)).withReadConcern(ReadConcern.LOCAL).withWriteConcern(WriteConcern.MAJORITY);
        try (ClientSession session = client.startSession()) {
            rows.insertOne(session, document("_id", 200, "n", 3));
            rows.updateOne(session, eq("_id", 200), inc("n", 1));
            List<Integer> seen = list(rows.find(session, gt("_id", 95)).sort(ID).batchSize(2).map(row -> row.getInteger("_id")));
            return document("seen", seen, "count", rows.countDocuments(session, eq("n", 4)), "deleted", rows.deleteMany(session, gt("_id", 95)).getDeletedCount());
        }
    }

    private static Object collections(MongoClient client, String database) {
        MongoDatabase db = client.getDatabase(database);
        Bson schema = document("$jsonSchema", document("required", List.of("n"), "properties", document("n", document("bsonType", "int", "minimum", 1))));
        db.createCollection("checked", new CreateCollectionOptions().validationOptions(new ValidationOptions().validator(schema)));
        db.createCollection("capped", new CreateCollectionOptions().capped(true).sizeInBytes(4096).maxDocuments(2));
        db.getCollection("capped").insertMany(List.of(document("_id", 1), document("_id", 2), document("_id", 3)));
        rows(db);
        db.createView("high", "rows", List.of(Aggregates.match(gt("_id", 97)), Aggregates.project(Projections.include("name")), Aggregates.sort(descending("_id"))));
        db.getCollection("capped").renameCollection(new MongoNamespace(database, "kept"), new RenameCollectionOptions().dropTarget(true));
        return document(
            "invalid", refusal(() -> db.getCollection("checked").insertOne(document("_id", 1, "n", 0))),
            "capped", list(db.getCollection("kept").find()),
            "high", list(db.getCollection("high").find()),
            "exists", refusal(() -> { db.createCollection("kept"); return null; }),
            "names", sorted(list(db.listCollectionNames())),
            "options", options(db, "checked", "kept", "high"));
    }

    private static List<Object> options(MongoDatabase db, String... names) {
        return list(db.listCollections().filter(in("name", names))).stream().sorted(Comparator.comparing(one -> one.getString("name"))).map(one -> one.get("options")).toList();
    }

    private static Object timeseries(MongoClient client, String database) {
        MongoDatabase db = client.getDatabase(database);
        TimeSeriesOptions options = new TimeSeriesOptions("at").metaField("sensor").granularity(TimeSeriesGranularity.HOURS);
        db.createCollection("series", new CreateCollectionOptions().expireAfter(20_000, TimeUnit.DAYS).timeSeriesOptions(options));
        MongoCollection<Document> series = db.getCollection("series");
        series.insertMany(IntStream.range(0, 20).mapToObj(i -> document("_id", i, "at", day(i / 4.0), "sensor", i % 2, "value", i)).toList());
        return document(
            "sums", list(series.aggregate(List.of(Aggregates.group("$sensor", Accumulators.sum("sum", "$value")), Aggregates.sort(ID)))),
            "late", list(series.find(and(eq("sensor", 1), gt("at", day(3)))).sort(descending("at")).map(one -> one.get("value"))),
            "deleted", series.deleteMany(eq("sensor", 0)).getDeletedCount(),
            "left", series.countDocuments(),
            "options", options(db, "series"));
    }

    private static Object files(MongoClient client, String database) throws Exception {
        GridFSBucket bucket = GridFSBuckets.create(client.getDatabase(database), "pictures");
        byte[] data = new byte[600_000];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i * 31);
        }
        ObjectId id = bucket.uploadFromStream("a.bin", new ByteArrayInputStream(data), new GridFSUploadOptions().metadata(document("kind", "test")));
        bucket.uploadFromStream("a.bin", new ByteArrayInputStream(new byte[] {1}));
        ByteArrayOutputStream read = new ByteArrayOutputStream();
        bucket.downloadToStream(id, read);
        bucket.rename(id, "b.bin");
        Document found = list(bucket.find(eq("metadata.kind", "test")).map(file -> document("name", file.getFilename(), "length", file.getLength(), "chunk", file.getChunkSize()))).get(0);
        bucket.delete(id);
        return document("same", Arrays.equals(read.toByteArray(), data), "found", found, "missing", refusal(() -> { bucket.delete(id); return null; }).get("error"),
            "left", client.getDatabase(database).getCollection("pictures.chunks").countDocuments(), "indexes", list(client.getDatabase(database).getCollection("pictures.chunks").listIndexes()));
    }

    public static void main(String[] arguments) {
        Map<String, Steps.Step> steps = new LinkedHashMap<>();
        steps.put("crud", DriverWork::crud);
        steps.put("records", DriverWork::records);
        steps.put("bulk", DriverWork::bulk);
        steps.put("cursors", DriverWork::cursors);
        steps.put("aggregation", DriverWork::aggregation);
        steps.put("indexes", DriverWork::indexes);
        steps.put("geo", DriverWork::geo);
        steps.put("types", DriverWork::types);
        steps.put("sessions", DriverWork::sessions);
        steps.put("collections", DriverWork::collections);
        steps.put("timeseries", DriverWork::timeseries);
        steps.put("files", DriverWork::files);
        Steps.run("java", arguments[0], steps);
    }

    private DriverWork() {}
}
