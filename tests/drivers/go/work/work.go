// A day's work with the Go driver, in named steps: work URI.
//
// A step prints `{"step": NAME, "result": ...}` in a line, as extended JSON; one that fails prints `"failed"` in place of
// `"result"`. Transactions and change streams are absent: Meridian does not have them yet.
package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

var steps = []step{
	{"crud", crud}, {"structs", structs}, {"bulk", bulk}, {"cursors", cursors}, {"aggregation", aggregation}, {"indexes", indexes}, {"geo", geo},
	{"types", types}, {"sessions", sessions}, {"collections", collections}, {"timeseries", timeseries}, {"files", files},
}

type (
	D = bson.D
	A = bson.A
)

var byID = D{{"_id", 1}}

func id(value any) D { return D{{"_id", value}} }

func day(number int) time.Time {
	return time.Date(2024, 1, number, 0, 0, 0, 0, time.UTC)
}

// A collection `rows` of a hundred documents.
func rows(ctx context.Context, database *mongo.Database) *mongo.Collection {
	documents := []any{}
	for i := 0; i < 100; i++ {
		marks := A{D{{"by", "x"}, {"value", i}}, D{{"by", "y"}, {"value", -i}}}
		documents = append(documents, D{{"_id", i}, {"n", i % 7}, {"name", fmt.Sprint("name ", i%10)}, {"at", day(i)}, {"marks", marks}})
	}
	collection := database.Collection("rows")
	must(collection.InsertMany(ctx, documents))
	return collection
}

func shown(result *mongo.UpdateResult, err error) D {
	must(0, err)
	return D{{"matched", result.MatchedCount}, {"modified", result.ModifiedCount}, {"upserted", result.UpsertedID}}
}

func crud(ctx context.Context, database *mongo.Database) (any, error) {
	c := rows(ctx, database)
	find := func(filter any, o ...options.Lister[options.FindOptions]) []D {
		return all(ctx)(c.Find(ctx, filter, o...))
	}
	low := []any{D{{"low.value", D{{"$lt", 0}}}}}
	after := options.FindOneAndUpdate().SetReturnDocument(options.After).SetSort(D{{"n", -1}, {"_id", -1}})
	return D{
		{"inserted", must(c.InsertOne(ctx, id("text"))).InsertedID},
		{"found", find(D{{"n", D{{"$in", A{1, 2}}}}, {"_id", D{{"$lt", 20}}}}, options.Find().SetSort(D{{"n", 1}, {"_id", -1}}).SetProjection(D{{"n", 1}}).SetSkip(1).SetLimit(3))},
		{"element", find(D{{"marks", D{{"$elemMatch", D{{"by", "y"}, {"value", D{{"$lt", -97}}}}}}}}, options.Find().SetSort(byID).SetProjection(D{{"marks.$", 1}}))},
		{"regex", field("_id", find(D{{"name", bson.Regex{Pattern: "E 3$", Options: "i"}}, {"n", D{{"$ne", 3}}}}, options.Find().SetSort(byID)))},
		{"many", shown(c.UpdateMany(ctx, D{{"_id", D{{"$gt", 90}}}}, D{{"$inc", D{{"n", 10}}}, {"$set", D{{"changed", true}}}, {"$unset", D{{"name", ""}}}}))},
		{"pushed", shown(c.UpdateByID(ctx, 5, D{{"$push", D{{"tags", D{{"$each", A{"c", "a"}}, {"$sort", 1}, {"$slice", 2}}}}}, {"$pull", D{{"marks", D{{"by", "y"}}}}}}))},
		{"filters", shown(c.UpdateMany(ctx, D{{"_id", D{{"$lt", 3}}}}, D{{"$inc", D{{"marks.$[low].value", 100}}}}, options.UpdateMany().SetArrayFilters(low)))},
		{"pipeline", shown(c.UpdateMany(ctx, D{{"n", 6}}, mongo.Pipeline{D{{"$set", D{{"name", D{{"$toUpper", "$name"}}}}}}}))},
		{"upsert", shown(c.UpdateOne(ctx, id(200), D{{"$set", D{{"n", 1}}}, {"$setOnInsert", D{{"new", true}}}}, options.UpdateOne().SetUpsert(true)))},
		{"replaced", shown(c.ReplaceOne(ctx, id(201), D{{"n", 2}}, options.Replace().SetUpsert(true)))},
		{"after", one(c.FindOneAndUpdate(ctx, D{{"n", D{{"$gte", 15}}}}, D{{"$inc", D{{"n", 1}}}}, after))},
		{"before", one(c.FindOneAndReplace(ctx, id(1), D{{"replaced", true}}, options.FindOneAndReplace().SetProjection(D{{"name", 1}})))},
		{"deleted", one(c.FindOneAndDelete(ctx, id(2)))},
		{"nothing", one(c.FindOneAndDelete(ctx, id(2)))},
		{"removed", A{must(c.DeleteOne(ctx, D{{"n", 0}})).DeletedCount, must(c.DeleteMany(ctx, D{{"changed", D{{"$exists", true}}}})).DeletedCount}},
		{"counts", A{must(c.CountDocuments(ctx, D{{"n", D{{"$gt", 3}}}})), must(c.EstimatedDocumentCount(ctx))}},
		{"distinct", must(c.Distinct(ctx, "n", D{{"_id", D{{"$lt", 50}}}}).Raw())},
		{"left", find(D{{"$or", A{D{{"_id", D{{"$lt", 7}}}}, D{{"_id", D{{"$gt", 100}}}}}}}, options.Find().SetSort(byID))},
	}, nil
}

type address struct {
	Street string
	Zip    *int `bson:",omitempty"`
}

type person struct {
	ID     int `bson:"_id"`
	Name   string
	Home   address
	Tags   []string `bson:",omitempty"`
	Counts map[string]int32
	Born   time.Time
	Extra  bson.M `bson:",inline"`
}

func structs(ctx context.Context, database *mongo.Database) (any, error) {
	c := database.Collection("people")
	zip := 5
	ada := person{ID: 1, Name: "Ada", Home: address{"A", &zip}, Tags: []string{"x"}, Counts: map[string]int32{"a": 1}, Born: time.UnixMilli(634017906789)}
	must(c.InsertMany(ctx, []person{ada, {ID: 2, Name: "Bob"}}))
	must(c.UpdateByID(ctx, 2, D{{"$set", D{{"surname", "B."}}}}))
	var people []person
	cursor := must(c.Find(ctx, D{}, options.Find().SetSort(byID)))
	must(0, cursor.All(ctx, &people))
	people[1].Home.Street = "B"
	must(c.ReplaceOne(ctx, id(2), people[1]))
	return D{{"read", people}, {"stored", all(ctx)(c.Find(ctx, D{}, options.Find().SetSort(byID)))}}, nil
}

func bulk(ctx context.Context, database *mongo.Database) (any, error) {
	c := database.Collection("bulk")
	result := must(c.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(D{{"_id", 1}, {"n", 1}}), mongo.NewInsertOneModel().SetDocument(D{{"_id", 2}, {"n", 2}}),
		mongo.NewUpdateOneModel().SetFilter(id(1)).SetUpdate(D{{"$inc", D{{"n", 10}}}}),
		mongo.NewUpdateManyModel().SetFilter(D{{"n", D{{"$gt", 1}}}}).SetUpdate(D{{"$set", D{{"big", true}}}}),
		mongo.NewReplaceOneModel().SetFilter(id(9)).SetReplacement(D{{"n", 9}}).SetUpsert(true),
		mongo.NewDeleteManyModel().SetFilter(D{{"n", 2}}),
	}))
	twice := A{id(20), id(1), id(21), id(9), id(22)}
	insert := func(ordered bool) (int, D) {
		result, err := c.InsertMany(ctx, twice, options.InsertMany().SetOrdered(ordered))
		return len(result.InsertedIDs), refusal(err)
	}
	first, ordered := insert(true)
	second, unordered := insert(false)
	// More than the 100,000 writes of one message.
	many := make([]any, 100_500)
	for i := range many {
		many[i] = id(1000 + i)
	}
	quiet := database.Collection("bulk", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	return D{
		{"counts", A{result.InsertedCount, result.MatchedCount, result.ModifiedCount, result.DeletedCount, result.UpsertedCount, result.UpsertedIDs[4]}},
		{"ordered", ordered}, {"unordered", unordered}, {"inserted", A{first, second}},
		{"many", len(must(c.InsertMany(ctx, many)).InsertedIDs)},
		{"quiet", must(quiet.InsertOne(ctx, id(30))).Acknowledged},
		{"count", must(c.CountDocuments(ctx, D{{"_id", D{{"$gte", 1000}}}}))},
		{"left", all(ctx)(c.Find(ctx, D{{"_id", D{{"$lt", 30}}}}, options.Find().SetSort(byID)))},
	}, nil
}

func cursors(ctx context.Context, database *mongo.Database) (any, error) {
	c := rows(ctx, database)
	find := func(filter any, o *options.FindOptionsBuilder) A {
		return field("_id", all(ctx)(c.Find(ctx, filter, o)))
	}
	cursor := must(c.Find(ctx, D{}, options.Find().SetSort(byID).SetBatchSize(7)))
	seen := A{}
	for len(seen) < 10 && cursor.Next(ctx) {
		seen = append(seen, cursor.Current.Lookup("_id"), cursor.RemainingBatchLength())
	}
	open := cursor.ID() != 0
	must(0, cursor.Close(ctx))
	_, unknown := c.Find(ctx, D{{"n", D{{"$unknown", 1}}}})
	return D{
		{"seen", seen}, {"open", open}, {"last", one(c.FindOne(ctx, D{}, options.FindOne().SetSort(D{{"$natural", -1}}).SetProjection(byID)))},
		{"all", find(D{}, options.Find().SetSort(D{{"_id", -1}}).SetBatchSize(9))},
		{"limited", find(D{}, options.Find().SetSort(byID).SetBatchSize(3).SetLimit(-5))},
		{"hinted", find(D{{"_id", D{{"$gt", 97}}}}, options.Find().SetHint(byID).SetComment("daily").SetAllowDiskUse(true))},
		{"bounds", find(D{}, options.Find().SetHint(byID).SetMin(id(10)).SetMax(id(13)))},
		{"aggregated", field("_id", all(ctx)(c.Aggregate(ctx, A{D{{"$match", D{{"n", 1}}}}, D{{"$sort", byID}}}, options.Aggregate().SetBatchSize(2))))},
		{"unknown", refusal(unknown)},
		{"missing", one(c.FindOne(ctx, id("none")))},
	}, nil
}

func aggregation(ctx context.Context, database *mongo.Database) (any, error) {
	c, names := rows(ctx, database), database.Collection("names")
	for i := 0; i < 6; i++ {
		must(names.InsertOne(ctx, D{{"_id", i}, {"label", fmt.Sprint("label ", i)}, {"parent", i / 2}}))
	}
	aggregate := func(collection *mongo.Collection, stages ...D) []D {
		return all(ctx)(collection.Aggregate(ctx, stages))
	}
	match := func(name string, condition any) D { return D{{"$match", D{{name, condition}}}} }
	sorted := D{{"$sort", byID}}
	aggregate(c, D{{"$group", D{{"_id", "$n"}, {"count", D{{"$sum", 1}}}}}}, D{{"$out", "totals"}})
	month := D{{"$dateTrunc", D{{"date", "$at"}, {"unit", "month"}, {"timezone", "Europe/Berlin"}}}}
	_, refused := c.Aggregate(ctx, A{D{{"$group", D{{"n", 1}}}}})
	return D{
		{"groups", aggregate(c, D{{"$group", D{{"_id", "$n"}, {"sum", D{{"$sum", "$_id"}}}, {"mean", D{{"$avg", "$_id"}}}, {"first", D{{"$min", "$at"}}}, {"deviation", D{{"$stdDevPop", "$_id"}}}}}}, sorted)},
		{"joined", aggregate(c, match("_id", D{{"$lt", 9}}), sorted, D{{"$lookup", D{{"from", "names"}, {"localField", "n"}, {"foreignField", "_id"}, {"as", "label"}, {"pipeline", A{D{{"$project", D{{"label", 1}}}}}}}}}, D{{"$project", D{{"label", 1}}}})},
		{"tree", aggregate(names, match("_id", 5), D{{"$graphLookup", D{{"from", "names"}, {"startWith", "$parent"}, {"connectFromField", "parent"}, {"connectToField", "_id"}, {"as", "up"}}}}, D{{"$project", D{{"up", D{{"$size", "$up"}}}}}})},
		{"facets", aggregate(c, D{{"$facet", D{
			{"auto", A{D{{"$bucketAuto", D{{"groupBy", "$_id"}, {"buckets", 3}}}}}}, {"fixed", A{D{{"$bucket", D{{"groupBy", "$n"}, {"boundaries", A{0, 3, 7}}}}}}},
			{"marks", A{D{{"$unwind", "$marks"}}, match("marks.value", D{{"$gt", 0}}), D{{"$count", "n"}}}}}}})},
		{"windows", aggregate(c, D{{"$setWindowFields", D{{"partitionBy", "$n"}, {"sortBy", byID}, {"output", D{{"moving", D{{"$sum", "$_id"}, {"window", D{{"documents", A{-1, 0}}}}}}}}}}},
			match("_id", D{{"$gt", 96}}), sorted, D{{"$project", D{{"moving", 1}}}})},
		{"union", aggregate(names, D{{"$unionWith", D{{"coll", "totals"}, {"pipeline", A{match("_id", D{{"$gt", 4}})}}}}}, D{{"$sort", D{{"_id", 1}, {"count", 1}}}})},
		{"months", aggregate(c, D{{"$group", D{{"_id", month}, {"n", D{{"$sum", 1}}}}}}, sorted)},
		{"refused", refusal(refused)},
	}, nil
}

func indexes(ctx context.Context, database *mongo.Database) (any, error) {
	c := database.Collection("users")
	german := &options.Collation{Locale: "de", Strength: 2}
	made := must(c.Indexes().CreateMany(ctx, []mongo.IndexModel{
		{Keys: D{{"email", 1}}, Options: options.Index().SetUnique(true)}, {Keys: D{{"name", 1}, {"score", -1}}, Options: options.Index().SetName("ranking")},
		{Keys: D{{"seen", 1}}, Options: options.Index().SetExpireAfterSeconds(1_000_000_000)}, {Keys: D{{"town", 1}}, Options: options.Index().SetCollation(german).SetSparse(true)},
		{Keys: D{{"nick", 1}}, Options: options.Index().SetUnique(true).SetPartialFilterExpression(D{{"nick", D{{"$exists", true}}}})},
		{Keys: D{{"name", "hashed"}}}, {Keys: D{{"at", "2dsphere"}}}, {Keys: D{{"old", 1}}, Options: options.Index().SetHidden(true)},
	}))
	must(c.InsertMany(ctx, A{D{{"_id", 1}, {"email", "a"}, {"nick", "n"}, {"town", "Köln"}}, D{{"_id", 2}, {"email", "b"}, {"town", "köln"}}}))
	_, duplicate := c.InsertOne(ctx, D{{"_id", 3}, {"email", "a"}})
	_, partial := c.UpdateByID(ctx, 2, D{{"$set", D{{"nick", "n"}}}})
	primary := c.FindOneAndUpdate(ctx, id(7), D{{"$set", D{{"email", "b"}}}}, options.FindOneAndUpdate().SetUpsert(true)).Err()
	_, conflict := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: D{{"email", 1}}})
	_, named := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: D{{"other", 1}}, Options: options.Index().SetName("ranking")})
	missing := c.Indexes().DropOne(ctx, "none")
	must(0, c.Indexes().DropOne(ctx, "ranking"))
	return D{
		{"made", made}, {"duplicate", refusal(duplicate)}, {"partial", refusal(partial)}, {"primary", refusal(primary)}, {"conflict", refusal(conflict)},
		{"named", refusal(named)}, {"missing", refusal(missing)},
		{"collated", field("_id", all(ctx)(c.Find(ctx, D{{"town", "KÖLN"}}, options.Find().SetCollation(german).SetSort(byID))))},
		{"listed", all(ctx)(c.Indexes().List(ctx))},
	}, nil
}

func geo(ctx context.Context, database *mongo.Database) (any, error) {
	c := database.Collection("places")
	must(c.Indexes().CreateMany(ctx, []mongo.IndexModel{{Keys: D{{"at", "2dsphere"}}}, {Keys: D{{"flat", "2d"}}}}))
	point := func(longitude, latitude any) D { return D{{"type", "Point"}, {"coordinates", A{longitude, latitude}}} }
	for name, at := range map[string][2]float64{"Paris": {2.35, 48.85}, "Lyon": {4.83, 45.76}, "Tours": {0.68, 47.39}, "Nice": {7.26, 43.7}} {
		must(c.InsertOne(ctx, D{{"_id", name}, {"at", point(at[0], at[1])}, {"flat", at}}))
	}
	names := func(path string, condition D) A {
		return field("_id", all(ctx)(c.Find(ctx, D{{path, condition}})))
	}
	sorted := func(path string, condition D) A {
		return field("_id", all(ctx)(c.Find(ctx, D{{path, condition}}, options.Find().SetSort(byID))))
	}
	area := D{{"$geometry", D{{"type", "Polygon"}, {"coordinates", A{A{A{0, 46}, A{3, 46}, A{3, 49}, A{0, 49}, A{0, 46}}}}}}}
	line := D{{"$geometry", D{{"type", "LineString"}, {"coordinates", A{A{2.35, 48.85}, A{4.83, 45.76}}}}}}
	_, refused := c.InsertOne(ctx, D{{"_id", "no"}, {"at", point(200, 95)}})
	_, wrong := c.Find(ctx, D{{"at", D{{"$geoWithin", D{{"$geometry", point(1, 1)}}}}}})
	return D{
		{"near", names("at", D{{"$near", D{{"$geometry", point(2, 48)}, {"$maxDistance", 300_000}, {"$minDistance", 1000}}}})},
		{"sphere", names("at", D{{"$nearSphere", D{{"$geometry", point(5, 45)}}}})},
		{"flat", names("flat", D{{"$near", A{5, 45}}, {"$maxDistance", 3}})},
		{"within", sorted("at", D{{"$geoWithin", area}})},
		{"circle", sorted("at", D{{"$geoWithin", D{{"$centerSphere", A{A{2, 48}, 300 / 6378.1}}}}})},
		{"box", sorted("flat", D{{"$geoWithin", D{{"$box", A{A{0, 43}, A{5, 48}}}}}})},
		{"line", sorted("at", D{{"$geoIntersects", line}})},
		{"distances", all(ctx)(c.Aggregate(ctx, A{D{{"$geoNear", D{{"near", point(2, 48)}, {"key", "at"}, {"distanceField", "meters"}, {"maxDistance", 400_000}, {"spherical", true}}}}, D{{"$project", D{{"meters", 1}}}}}))},
		{"refused", refusal(refused)}, {"wrong", refusal(wrong)},
	}, nil
}

// Every type there and back, changed by operators, converted, and found by another number type.
func types(ctx context.Context, database *mongo.Database) (any, error) {
	c := database.Collection("values")
	decimal := must(bson.ParseDecimal128("1.10"))
	every := D{
		{"_id", must(bson.ObjectIDFromHex("0123456789abcdef01234567"))}, {"int", int32(1)}, {"long", int64(1) << 40}, {"double", 1.5}, {"decimal", decimal}, {"string", "größer"},
		{"date", time.UnixMilli(-5)}, {"nothing", nil}, {"bytes", []byte{1, 2}}, {"uuid", bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, {"regex", bson.Regex{Pattern: "^a", Options: "i"}},
		{"code", bson.JavaScript("x")}, {"timestamp", bson.Timestamp{T: 5, I: 6}}, {"min", bson.MinKey{}}, {"max", bson.MaxKey{}}, {"list", A{1, int64(2), 3.0, A{}}}, {"flag", true},
		{"object", D{{"z", 1}, {"a", 2}}}, {"symbol", bson.Symbol("s")}, {"undefined", bson.Undefined{}}, {"pointer", bson.DBPointer{DB: "a.b"}},
	}
	must(c.InsertOne(ctx, every))
	back := must(c.FindOne(ctx, D{}).Raw())
	sent := must(bson.Marshal(every))
	must(c.UpdateOne(ctx, D{}, D{{"$inc", D{{"int", int64(1)}, {"long", 0.5}, {"double", decimal}}}}))
	_, overflow := c.UpdateOne(ctx, D{}, D{{"$inc", D{{"int", int64(math.MaxInt64)}}}})
	_, text := c.UpdateOne(ctx, D{}, D{{"$inc", D{{"string", 1}}}})
	convert := D{{"_id", 0}, {"string", D{{"$toString", "$decimal"}}}, {"int", D{{"$toInt", "$double"}}}, {"date", D{{"$toDate", "$_id"}}}, {"none", D{{"$convert", D{{"input", "$string"}, {"to", "double"}, {"onError", "no"}}}}}}
	count := func(filter D) int64 { return must(c.CountDocuments(ctx, filter)) }
	return D{
		{"back", back}, {"same", bytes.Equal(back, sent)},
		{"changed", one(c.FindOne(ctx, D{}, options.FindOne().SetProjection(D{{"int", 1}, {"long", 1}, {"double", 1}})))},
		{"converted", all(ctx)(c.Aggregate(ctx, A{D{{"$project", convert}}}))},
		{"found", A{count(D{{"int", 2.0}}), count(D{{"decimal", 1.1}}), count(D{{"uuid", D{{"$type", "binData"}}}})}},
		{"overflow", refusal(overflow)}, {"text", refusal(text)},
	}, nil
}

// Sessions without transactions; writes and reads are retryable, as they are by default.
func sessions(ctx context.Context, database *mongo.Database) (any, error) {
	c := rows(ctx, database)
	session := must(database.Client().StartSession(options.Session().SetCausalConsistency(true)))
	defer session.EndSession(ctx)
	strict := database.Collection("rows", options.Collection().SetReadConcern(readconcern.Majority()).SetWriteConcern(writeconcern.Majority()))
	inside := mongo.NewSessionContext(ctx, session)
	must(strict.InsertOne(inside, D{{"_id", 200}, {"n", 3}}))
	must(c.UpdateByID(inside, 200, D{{"$inc", D{{"n", 1}}}}))
	seen := all(inside)(strict.Find(inside, D{{"_id", D{{"$gt", 95}}}}, options.Find().SetSort(byID).SetBatchSize(2)))
	return D{{"seen", field("_id", seen)}, {"count", must(c.CountDocuments(inside, D{{"n", 4}}))}, {"deleted", must(c.DeleteMany(inside, D{{"_id", D{{"$gt", 95}}}})).DeletedCount}}, nil
}

func collections(ctx context.Context, database *mongo.Database) (any, error) {
	schema := D{{"$jsonSchema", D{{"required", A{"n"}}, {"properties", D{{"n", D{{"bsonType", "int"}, {"minimum", 1}}}}}}}}
	must(0, database.CreateCollection(ctx, "checked", options.CreateCollection().SetValidator(schema)))
	must(0, database.CreateCollection(ctx, "capped", options.CreateCollection().SetCapped(true).SetSizeInBytes(4096).SetMaxDocuments(2)))
	must(0, database.CreateCollection(ctx, "clustered", options.CreateCollection().SetClusteredIndex(D{{"key", byID}, {"unique", true}})))
	rows(ctx, database)
	must(0, database.CreateView(ctx, "high", "rows", A{D{{"$match", D{{"_id", D{{"$gt", 97}}}}}}, D{{"$project", D{{"name", 1}}}}, D{{"$sort", D{{"_id", -1}}}}}))
	must(database.Collection("capped").InsertMany(ctx, A{id(1), id(2), id(3)}))
	_, invalid := database.Collection("checked").InsertOne(ctx, D{{"_id", 1}, {"n", 0}})
	described := must(database.ListCollectionSpecifications(ctx, D{}))
	sort.Slice(described, func(i, j int) bool { return described[i].Name < described[j].Name })
	options := A{}
	for _, one := range described {
		options = append(options, D{{"name", one.Name}, {"type", one.Type}, {"options", one.Options}})
	}
	return D{
		{"invalid", refusal(invalid)}, {"exists", refusal(database.CreateCollection(ctx, "capped"))}, {"options", options},
		{"capped", all(ctx)(database.Collection("capped").Find(ctx, D{}))}, {"high", all(ctx)(database.Collection("high").Find(ctx, D{}))},
		{"command", one(database.RunCommand(ctx, D{{"count", "capped"}}))},
	}, nil
}

func timeseries(ctx context.Context, database *mongo.Database) (any, error) {
	series := options.TimeSeries().SetTimeField("at").SetMetaField("sensor").SetGranularity("hours")
	must(0, database.CreateCollection(ctx, "series", options.CreateCollection().SetTimeSeriesOptions(series).SetExpireAfterSeconds(1_000_000_000)))
	c := database.Collection("series")
	for i := 0; i < 20; i++ {
		must(c.InsertOne(ctx, D{{"_id", i}, {"at", day(i)}, {"sensor", i % 2}, {"value", i}}))
	}
	return D{
		{"sums", all(ctx)(c.Aggregate(ctx, A{D{{"$group", D{{"_id", "$sensor"}, {"sum", D{{"$sum", "$value"}}}}}}, D{{"$sort", byID}}}))},
		{"late", field("value", all(ctx)(c.Find(ctx, D{{"sensor", 1}, {"at", D{{"$gt", day(10)}}}}, options.Find().SetSort(D{{"at", -1}}))))},
		{"deleted", must(c.DeleteMany(ctx, D{{"sensor", 0}})).DeletedCount}, {"left", must(c.CountDocuments(ctx, D{}))},
	}, nil
}

func files(ctx context.Context, database *mongo.Database) (any, error) {
	bucket := database.GridFSBucket(options.GridFSBucket().SetName("pictures"))
	data := strings.Repeat("0123456789", 60_000)
	file := must(bucket.UploadFromStream(ctx, "a.bin", strings.NewReader(data), options.GridFSUpload().SetMetadata(D{{"kind", "test"}})))
	must(bucket.UploadFromStream(ctx, "a.bin", strings.NewReader("second")))
	var read, newest bytes.Buffer
	must(bucket.DownloadToStream(ctx, file, &read))
	must(bucket.DownloadToStreamByName(ctx, "a.bin", &newest))
	must(0, bucket.Rename(ctx, file, "b.bin"))
	found := all(ctx)(bucket.Find(ctx, D{{"metadata.kind", "test"}}))
	must(0, bucket.Delete(ctx, file))
	return D{
		{"same", read.String() == data}, {"newest", newest.String()}, {"names", field("filename", found)}, {"sizes", field("length", found)},
		{"gone", refusal(bucket.Delete(ctx, file))}, {"left", must(bucket.GetChunksCollection().CountDocuments(ctx, D{}))},
	}, nil
}
