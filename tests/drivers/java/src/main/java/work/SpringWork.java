package work;

import static org.springframework.data.domain.Sort.Direction.DESC;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.group;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.limit;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.lookup;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.match;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.newAggregation;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.project;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.sort;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.unwind;
import static org.springframework.data.mongodb.core.query.Criteria.where;
import static org.springframework.data.mongodb.core.query.Query.query;
import static work.Steps.document;
import static work.Steps.list;
import static work.Steps.refusal;

import com.mongodb.client.MongoClient;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.bson.Document;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.domain.Limit;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.ScrollPosition;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;
import org.springframework.data.domain.Window;
import org.springframework.data.geo.Box;
import org.springframework.data.geo.Circle;
import org.springframework.data.geo.Distance;
import org.springframework.data.geo.GeoResults;
import org.springframework.data.geo.Metrics;
import org.springframework.data.geo.Point;
import org.springframework.data.mongodb.core.BulkOperations.BulkMode;
import org.springframework.data.mongodb.core.CollectionOptions;
import org.springframework.data.mongodb.core.FindAndModifyOptions;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.SimpleMongoClientDatabaseFactory;
import org.springframework.data.mongodb.core.aggregation.Aggregation;
import org.springframework.data.mongodb.core.aggregation.AggregationUpdate;
import org.springframework.data.mongodb.core.aggregation.ArithmeticOperators;
import org.springframework.data.mongodb.core.aggregation.DateOperators;
import org.springframework.data.mongodb.core.aggregation.TypedAggregation;
import org.springframework.data.mongodb.core.convert.DefaultDbRefResolver;
import org.springframework.data.mongodb.core.convert.MappingMongoConverter;
import org.springframework.data.mongodb.core.convert.MongoCustomConversions;
import org.springframework.data.mongodb.core.geo.GeoJsonPoint;
import org.springframework.data.mongodb.core.geo.GeoJsonPolygon;
import org.springframework.data.mongodb.core.index.CompoundIndex;
import org.springframework.data.mongodb.core.index.GeoSpatialIndexType;
import org.springframework.data.mongodb.core.index.GeoSpatialIndexed;
import org.springframework.data.mongodb.core.index.GeospatialIndex;
import org.springframework.data.mongodb.core.index.HashIndexed;
import org.springframework.data.mongodb.core.index.Index;
import org.springframework.data.mongodb.core.index.Indexed;
import org.springframework.data.mongodb.core.index.PartialIndexFilter;
import org.springframework.data.mongodb.core.mapping.DBRef;
import org.springframework.data.mongodb.core.mapping.DocumentReference;
import org.springframework.data.mongodb.core.mapping.Field;
import org.springframework.data.mongodb.core.mapping.FieldType;
import org.springframework.data.mongodb.core.mapping.MongoMappingContext;
import org.springframework.data.mongodb.core.mapping.TimeSeries;
import org.springframework.data.mongodb.core.query.Collation;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.NearQuery;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.data.mongodb.core.schema.JsonSchemaProperty;
import org.springframework.data.mongodb.core.schema.MongoJsonSchema;
import org.springframework.data.mongodb.core.timeseries.Granularity;
import org.springframework.data.mongodb.core.validation.Validator;
import org.springframework.data.mongodb.repository.MongoRepository;
import org.springframework.data.mongodb.repository.config.EnableMongoRepositories;

/**
 * A day's work with Spring Data MongoDB: SpringWork URI. A small application context holds the template and the repositories.
 *
 * <p>Absent, because Meridian does not have them yet: text queries, `@Query` with JavaScript, transactions, change streams.
 */
public final class SpringWork {
    // -- the application

    public record Address(String street, Integer zip) {}

    public record Mark(String subject, int value) {}

    @org.springframework.data.mongodb.core.mapping.Document("people")
    public static class Person {
        @Id public Integer id;
        public String name;
        @Field("years") public int age;
        public Address home;
        public List<Mark> marks = List.of();
        public List<String> tags = List.of();
        @Field(targetType = FieldType.DECIMAL128) public BigDecimal money;
        public Map<String, Integer> counts;
        public Instant born;

        Person() {}

        Person(int id, String name, int age, Mark... marks) {
            this.id = id;
            this.name = name;
            this.age = age;
            this.marks = List.of(marks);
            this.tags = List.of(age % 2 == 0 ? "even" : "odd", "person");
            this.home = new Address("Street " + id % 3, id % 3 == 0 ? null : id);
        }
    }

    @org.springframework.data.mongodb.core.mapping.Document("accounts")
    public static class Account {
        @Id public Integer id;
        public int balance;
        @Version public Long version;
    }

    @org.springframework.data.mongodb.core.mapping.Document("users")
    @CompoundIndex(name = "ranking", def = "{'town': 1, 'score': -1}")
    @CompoundIndex(name = "once", def = "{'town': 1, 'name': 1}", unique = true, partialFilter = "{'town': {'$exists': true}}")
    public static class User {
        @Id public Integer id;
        @Indexed(unique = true) public String email;
        @Indexed(sparse = true, collation = "{'locale': 'de', 'strength': 2}") public String name;
        @Indexed(expireAfter = "20000d") public Instant seen;
        @HashIndexed public String town;
        public int score;
        @GeoSpatialIndexed(type = GeoSpatialIndexType.GEO_2DSPHERE) public GeoJsonPoint at;
    }

    @org.springframework.data.mongodb.core.mapping.Document("places")
    public static class Place {
        @Id public String name;
        @GeoSpatialIndexed(type = GeoSpatialIndexType.GEO_2DSPHERE) public GeoJsonPoint at;
        public double[] flat;

        Place() {}

        Place(String name, double longitude, double latitude) {
            this.name = name;
            at = new GeoJsonPoint(longitude, latitude);
            flat = new double[] {longitude, latitude};
        }
    }

    @org.springframework.data.mongodb.core.mapping.Document("books")
    public static class Book {
        @Id public Integer id;
        @DBRef public Person author;
        @DocumentReference public Person editor;
        @DocumentReference(lookup = "{'name': ?#{name}}") public Person owner;
    }

    @TimeSeries(collection = "readings", timeField = "at", metaField = "sensor", granularity = Granularity.HOURS)
    public record Reading(@Id Integer id, Instant at, String sensor, double value) {}

    public interface Named {
        String getName();

        Address getHome();
    }

    public record Total(String id, int count, double mean) {}

    public interface People extends MongoRepository<Person, Integer> {
        List<Person> findByNameStartingWithAndAgeGreaterThanOrderByIdDesc(String start, int age);

        List<Person> findByMarksSubjectAndMarksValueBetween(String subject, int low, int high, Sort sort);

        Page<Person> findByAgeIn(Collection<Integer> ages, PageRequest page);

        Slice<Person> findByTagsContaining(String tag, PageRequest page);

        Window<Person> findFirst4ByAgeLessThanOrderByAgeAscIdAsc(int age, ScrollPosition position);

        Optional<Person> findFirstByHomeStreetIgnoreCaseOrderByIdDesc(String street);

        List<Named> findByHomeZipIsNull(Sort sort, Limit limit);

        Stream<Person> streamByIdBetween(int low, int high);

        long countByAge(int age);

        boolean existsByName(String name);

        List<Person> deleteByAge(int age);

        @org.springframework.data.mongodb.repository.Query(value = "{'years': {'$gte': ?0}, 'tags': ?1}", fields = "{'name': 1}", sort = "{'_id': -1}")
        List<Person> olderWith(int age, String tag);

        @org.springframework.data.mongodb.repository.Update("{'$inc': {'years': ?1}}")
        long findAndIncrementAgeByName(String name, int by);

        @org.springframework.data.mongodb.repository.Aggregation({"{'$match': {'years': {'$lt': ?0}}}", "{'$group': {'_id': {'$first': '$tags'}, 'count': {'$sum': 1}, 'mean': {'$avg': '$years'}}}", "{'$sort': {'_id': 1}}"})
        List<Total> totals(int below);
    }

    public interface Accounts extends MongoRepository<Account, Integer> {}

    public interface Places extends MongoRepository<Place, String> {
        GeoResults<Place> findByAtNear(Point point, Distance distance);

        List<Place> findByAtWithin(Circle circle, Sort sort);
    }

    @EnableMongoRepositories(considerNestedRepositories = true)
    public static class Application {}

    // -- the steps

    /** The step in a context of its own, on a template that makes the indexes that annotations ask for. */
    private static Steps.Step with(BiFunction<AnnotationConfigApplicationContext, MongoTemplate, Object> step) {
        return (client, database) -> {
            try (var context = new AnnotationConfigApplicationContext()) {
                context.registerBean("mongoTemplate", MongoTemplate.class, () -> template(client, database));
                context.register(Application.class);
                context.refresh();
                return step.apply(context, context.getBean(MongoTemplate.class));
            }
        };
    }

    private static MongoTemplate template(MongoClient client, String database) {
        var factory = new SimpleMongoClientDatabaseFactory(client, database);
        var conversions = MongoCustomConversions.create(adapter -> {});
        var mapping = new MongoMappingContext();
        mapping.setAutoIndexCreation(true);
        mapping.setSimpleTypeHolder(conversions.getSimpleTypeHolder());
        var converter = new MappingMongoConverter(new DefaultDbRefResolver(factory), mapping);
        converter.setCustomConversions(conversions);
        converter.afterPropertiesSet();
        return new MongoTemplate(factory, converter);
    }

    private static final Sort BY_ID = Sort.by("id");

    private static List<Document> stored(MongoTemplate template, String collection) {
        return list(template.getCollection(collection).find().sort(document("_id", 1)));
    }

    private static List<Document> indexes(MongoTemplate template, String collection) {
        return list(template.getCollection(collection).listIndexes());
    }

    private static List<Integer> ids(Iterable<Person> people) {
        return list(people).stream().map(person -> person.id).toList();
    }

    private static List<Person> forty() {
        return IntStream.range(0, 40).mapToObj(i -> new Person(i, "Name " + i % 5, 20 + i % 4, new Mark("art", i), new Mark("music", 40 - i))).toList();
    }

    private static Object crud(AnnotationConfigApplicationContext context, MongoTemplate template) {
        Person ada = new Person(100, "Ada", 36, new Mark("art", 5));
        ada.money = new BigDecimal("1.10");
        ada.counts = Map.of("a", 1);
        ada.born = Instant.parse("1990-02-03T04:05:06.789Z");
        template.insert(ada);
        template.insertAll(forty());
        ada.age = 37;
        ada.home = new Address("B", 9);
        template.save(ada);
        Query first = query(where("age").gte(22)).with(BY_ID);
        FindAndModifyOptions after = FindAndModifyOptions.options().returnNew(true).upsert(true);
        return document(
            "stored", template.getCollection("people").find(document("_id", 100)).first(),
            "found", ids(template.find(query(where("name").regex("^name [12]$", "i").and("age").in(20, 21)).with(Sort.by(DESC, "age", "id")).skip(1).limit(5), Person.class)),
            "either", ids(template.find(query(new Criteria().orOperator(where("id").is(3), where("home.zip").gt(37), where("marks").elemMatch(where("subject").is("art").and("value").is(5)))).with(BY_ID), Person.class)),
            "not", template.count(query(where("age").not().gt(21).and("tags").nin("odd").and("money").exists(false)), Person.class),
            "money", template.exists(query(where("money").is(new BigDecimal("1.1"))), Person.class),
            "one", template.findOne(query(where("name").is("Name 3")).with(Sort.by(DESC, "id")), Person.class).id,
            "byId", template.findById(7, Person.class).name,
            "distinct", template.query(Person.class).distinct("name").as(String.class).all().stream().sorted().toList(),
            "projected", template.query(Person.class).as(Named.class).matching(query(where("id").lt(2)).with(BY_ID)).all().stream().map(Named::getName).toList(),
            "collated", template.count(query(where("name").is("NAME 1")).collation(Collation.of("en").strength(2)), Person.class),
            "update", template.updateMulti(query(where("age").is(20)), new Update().inc("age", 5).set("home.street", "new").push("tags").atPosition(0).slice(3).each("x", "y"), Person.class).getModifiedCount(),
            "filtered", template.updateMulti(query(where("id").lt(3)), new Update().inc("marks.$[low].value", 100).filterArray(where("low.value").lt(20)), Person.class).getModifiedCount(),
            "pipeline", template.updateFirst(query(where("id").is(1)), AggregationUpdate.update().set("age").toValue(ArithmeticOperators.valueOf("years").multiplyBy(2)), Person.class).getModifiedCount(),
            "upserted", template.upsert(query(where("id").is(200)), new Update().setOnInsert("name", "new").min("age", 3).addToSet("tags", "a"), Person.class).getUpsertedId(),
            "modified", template.findAndModify(first, new Update().inc("age", 1), after, Person.class).age,
            "replaced", template.findAndReplace(query(where("id").is(5)), new Person(5, "Replaced", 1)).name,
            "removed", template.findAndRemove(query(where("id").is(6)), Person.class).name,
            "many", template.remove(query(where("id").gt(10).lt(100)), Person.class).getDeletedCount(),
            "duplicate", refusal(() -> template.insert(new Person(1, "again", 1))),
            "refused", refusal(() -> template.updateFirst(query(where("id").is(1)), new Update().inc("name", 1), Person.class)),
            "left", stored(template, "people"));
    }

    private static Object repositories(AnnotationConfigApplicationContext context, MongoTemplate template) {
        People people = context.getBean(People.class);
        people.saveAll(forty());
        Page<Person> page = people.findByAgeIn(List.of(21, 23), PageRequest.of(1, 6, Sort.by(DESC, "age").and(BY_ID)));
        Slice<Person> slice = people.findByTagsContaining("odd", PageRequest.of(0, 3, BY_ID));
        Window<Person> window = people.findFirst4ByAgeLessThanOrderByAgeAscIdAsc(22, ScrollPosition.keyset());
        Window<Person> next = people.findFirst4ByAgeLessThanOrderByAgeAscIdAsc(22, window.positionAt(3));
        Person probe = new Person();
        probe.name = "Name 2";
        var example = org.springframework.data.domain.Example.of(probe, org.springframework.data.domain.ExampleMatcher.matching().withIgnorePaths("age", "marks", "tags"));
        List<Integer> streamed;
        try (Stream<Person> stream = people.streamByIdBetween(5, 9)) {
            streamed = stream.map(person -> person.id).sorted().toList();
        }
        return document(
            "derived", ids(people.findByNameStartingWithAndAgeGreaterThanOrderByIdDesc("Name 1", 21)),
            "nested", ids(people.findByMarksSubjectAndMarksValueBetween("art", 3, 8, BY_ID)),
            "page", document("ids", ids(page), "total", page.getTotalElements(), "pages", page.getTotalPages()),
            "slice", document("ids", ids(slice), "more", slice.hasNext(), "next", ids(people.findByTagsContaining("odd", (PageRequest) slice.nextPageable()))),
            "scrolled", List.of(ids(window), ids(next), next.hasNext()),
            "first", people.findFirstByHomeStreetIgnoreCaseOrderByIdDesc("STREET 1").map(person -> person.id).orElse(-1),
            "projected", people.findByHomeZipIsNull(BY_ID, Limit.of(2)).stream().map(one -> one.getName() + " " + one.getHome().street()).toList(),
            "streamed", streamed,
            "counts", List.of(people.count(), people.countByAge(21), people.existsByName("Name 4"), people.existsByName("none"), people.existsById(39)),
            "query", people.olderWith(22, "even").stream().map(person -> person.id + person.name).toList(),
            "updated", people.findAndIncrementAgeByName("Name 0", 7),
            "totals", people.totals(25).stream().map(Total::toString).toList(),
            "example", ids(people.findAll(example, BY_ID)),
            "deleted", people.deleteByAge(22).size(),
            "byIds", ids(people.findAllById(List.of(1, 2, 3, 99))).stream().sorted().toList(),
            "left", people.count());
    }

    private static Object aggregations(AnnotationConfigApplicationContext context, MongoTemplate template) {
        template.insertAll(forty());
        template.insert(List.of(document("_id", 20, "label", "twenty"), document("_id", 21, "label", "twenty-one")), "ages");
        TypedAggregation<?> marks = newAggregation(Person.class, unwind("marks"), group("marks.subject").count().as("count").avg("marks.value").as("mean"), sort(Sort.by("_id")));
        TypedAggregation<?> joined = newAggregation(Person.class, match(where("id").lt(4)), lookup("ages", "years", "_id", "label"), unwind("label", true), sort(BY_ID), project("name").and("label.label").as("label"));
        TypedAggregation<?> facets = newAggregation(Person.class,
            Aggregation.facet(Aggregation.bucket("age").withBoundaries(20, 22, 30).andOutputCount().as("count")).as("ages").and(Aggregation.sortByCount("name"), sort(Sort.by("_id")), limit(2)).as("names"));
        return document(
            "totals", template.aggregate(marks, Total.class).getMappedResults().stream().map(Total::toString).toList(),
            "joined", template.aggregate(joined, Document.class).getMappedResults(),
            "facets", template.aggregate(facets, Document.class).getUniqueMappedResult(),
            "computed", template.aggregate(newAggregation(Person.class, sort(BY_ID), limit(2), project().andExpression("age * 2 + [0]", 1).as("more").andExpression("concat(name, '!')").as("loud")), Document.class).getMappedResults(),
            "streamed", template.aggregateStream(newAggregation(Person.class, match(where("age").is(23)), sort(DESC, "id")).withOptions(Aggregation.newAggregationOptions().cursorBatchSize(3).allowDiskUse(true).build()), Document.class)
                .map(one -> one.get("_id")).toList());
    }

    private static Object geo(AnnotationConfigApplicationContext context, MongoTemplate template) {
        Places places = context.getBean(Places.class);
        places.saveAll(List.of(new Place("Paris", 2.35, 48.85), new Place("Lyon", 4.83, 45.76), new Place("Tours", 0.68, 47.39), new Place("Nice", 7.26, 43.7)));
        NearQuery near = NearQuery.near(new GeoJsonPoint(2, 48)).spherical(true).inKilometers().maxDistance(new Distance(400, Metrics.KILOMETERS)).query(query(where("name").ne("Lyon")));
        var area = new GeoJsonPolygon(new Point(0, 46), new Point(3, 46), new Point(3, 49), new Point(0, 49), new Point(0, 46));
        // $geoNear without a key wants a single geospatial index, so the second is made afterwards.
        Document nearest = document(
            "near", template.query(Place.class).near(NearQuery.near(new GeoJsonPoint(2, 48), Metrics.KILOMETERS).maxDistance(200)).all().getContent().stream().map(one -> one.getContent().name).toList(),
            "distances", list(template.aggregate(newAggregation(Aggregation.geoNear(near, "away").useIndex("at"), project("away")), "places", Document.class)),
            "repository", places.findByAtNear(new Point(2, 48), new Distance(200, Metrics.KILOMETERS)).getContent().stream().map(one -> one.getContent().name + " " + one.getDistance()).toList(),
            "sphere", names(template.find(query(where("at").nearSphere(new GeoJsonPoint(5, 45)).maxDistance(300_000)), Place.class)));
        template.indexOps(Place.class).createIndex(new GeospatialIndex("flat").withMin(-180).withMax(180).typed(GeoSpatialIndexType.GEO_2D));
        return document(
            "nearest", nearest,
            "flat", names(template.find(query(where("flat").near(new Point(5, 45)).maxDistance(3)), Place.class)),
            "within", names(template.find(query(where("at").within(area)).with(BY_NAME), Place.class)),
            "circle", names(places.findByAtWithin(new Circle(new Point(2, 48), new Distance(300, Metrics.KILOMETERS)), BY_NAME)),
            "box", names(template.find(query(where("flat").within(new Box(new Point(0, 43), new Point(5, 48)))).with(BY_NAME), Place.class)),
            "crosses", names(template.find(query(where("at").intersects(area)).with(BY_NAME), Place.class)),
            "refused", refusal(() -> places.save(new Place("no", 200, 95))),
            "stored", stored(template, "places").get(0),
            "indexes", indexes(template, "places"));
    }

    private static final Sort BY_NAME = Sort.by("name");

    private static List<String> names(List<Place> places) {
        return places.stream().map(place -> place.name).toList();
    }

    private static Object indexing(AnnotationConfigApplicationContext context, MongoTemplate template) {
        User user = new User();
        user.id = 1;
        user.email = "a";
        user.town = "Köln";
        user.name = "Ada";
        user.seen = Instant.parse("2024-01-01T00:00:00Z");
        template.insert(user);
        var operations = template.indexOps(User.class);
        operations.createIndex(new Index("score", DESC).named("high").partial(PartialIndexFilter.of(where("score").gt(5))));
        operations.createIndex(new Index().on("seen", Sort.Direction.ASC).on("email", DESC).background());
        List<Document> before = indexes(template, "users");
        operations.dropIndex("high");
        return document(
            "before", before,
            "information", operations.getIndexInfo().stream().map(one -> one.getName() + " " + one.isUnique() + " " + one.isSparse() + " " + one.getExpireAfter().isPresent()).toList(),
            "duplicate", refusal(() -> template.insert(document("_id", 2, "email", "a"), "users")),
            "compound", refusal(() -> template.insert(document("_id", 2, "email", "b", "town", "Köln", "name", "Ada"), "users")),
            "conflict", refusal(() -> operations.createIndex(new Index("email", DESC).named("email"))));
    }

    /** Versions are what the second of two writers fails by. */
    private static Object locking(AnnotationConfigApplicationContext context, MongoTemplate template) {
        Accounts accounts = context.getBean(Accounts.class);
        Account account = new Account();
        account.id = 1;
        account.balance = 10;
        accounts.save(account);
        Account mine = accounts.findById(1).orElseThrow();
        Account theirs = accounts.findById(1).orElseThrow();
        Account old = accounts.findById(1).orElseThrow();
        theirs.balance = 15;
        accounts.save(theirs);
        mine.balance = 5;
        Document late = refusal(() -> accounts.save(mine));
        Document removed = refusal(() -> { accounts.delete(old); return null; });
        template.updateFirst(query(where("id").is(1)), new Update().inc("balance", 1), Account.class);
        return document("late", late, "removed", removed, "stale", refusal(() -> accounts.save(theirs)), "stored", stored(template, "accounts"));
    }

    private static Object bulk(AnnotationConfigApplicationContext context, MongoTemplate template) {
        var result = template.bulkOps(BulkMode.ORDERED, Person.class).insert(forty())
            .updateMulti(query(where("age").is(20)), new Update().set("home.zip", 1)).upsert(query(where("id").is(90)), new Update().set("name", "up"))
            .replaceOne(query(where("id").is(1)), new Person(1, "one", 1)).remove(query(where("id").gt(4).lt(40))).execute();
        Document twice = refusal(() -> template.bulkOps(BulkMode.UNORDERED, Person.class).insert(List.of(new Person(3, "a", 1), new Person(91, "b", 1), new Person(4, "c", 1))).execute());
        return document(
            "counts", List.of(result.getInsertedCount(), result.getMatchedCount(), result.getModifiedCount(), result.getDeletedCount(), result.getUpserts().size()),
            "twice", twice, "left", stored(template, "people"));
    }

    private static Object references(AnnotationConfigApplicationContext context, MongoTemplate template) {
        List<Person> people = forty();
        template.insertAll(people);
        for (int i = 0; i < 4; i++) {
            Book book = new Book();
            book.id = i;
            book.author = people.get(i);
            book.editor = people.get(i + 1);
            template.save(book);
        }
        return document(
            "read", template.find(new Query().with(BY_ID), Book.class).stream().map(book -> book.author.name + ", " + book.editor.name).toList(),
            "byAuthor", template.find(query(where("author").is(people.get(2))), Book.class).stream().map(book -> book.id).toList(),
            "byAuthorId", template.find(query(where("author.$id").in(1, 3)).with(BY_ID), Book.class).stream().map(book -> book.id).toList(),
            "byEditor", template.find(query(where("editor").is(people.get(2))), Book.class).stream().map(book -> book.id).toList(),
            "stored", stored(template, "books").get(0));
    }

    private static Object collections(AnnotationConfigApplicationContext context, MongoTemplate template) {
        template.insertAll(forty());
        template.createCollection("log", CollectionOptions.empty().capped().size(4096).maxDocuments(2));
        template.insert(List.of(document("_id", 1), document("_id", 2), document("_id", 3)), "log");
        MongoJsonSchema schema = MongoJsonSchema.builder().required("n").properties(JsonSchemaProperty.int32("n").gt(0)).build();
        template.createCollection("checked", CollectionOptions.empty().validator(Validator.schema(schema)).failOnValidationError());
        template.createView("late", Person.class, match(where("id").gt(37)), project("name").andExclude("_id"), sort(Sort.by("name")));
        return document(
            "log", stored(template, "log"),
            "invalid", refusal(() -> template.insert(document("_id", 1, "n", 0), "checked")),
            "late", list(template.getCollection("late").find()),
            "exists", List.of(template.collectionExists("log"), template.collectionExists("none")),
            "options", options(template, "log", "checked", "late"));
    }

    private static List<Object> options(MongoTemplate template, String... names) {
        var filter = document("name", document("$in", List.of(names)));
        return list(template.getDb().listCollections().filter(filter)).stream().sorted(Comparator.comparing(one -> one.getString("name"))).map(one -> one.get("options")).toList();
    }

    private static Object timeseries(AnnotationConfigApplicationContext context, MongoTemplate template) {
        template.createCollection(Reading.class);
        template.insertAll(IntStream.range(0, 48).mapToObj(i -> new Reading(i, Instant.parse("2024-01-01T00:00:00Z").plusSeconds(3600 * i), "ab".substring(i % 2, i % 2 + 1), i / 2.0)).toList());
        var day = DateOperators.DateTrunc.truncateValueOf("at").to("day");
        TypedAggregation<?> daily = newAggregation(Reading.class, project("sensor", "value").and(day).as("day"), group("day", "sensor").avg("value").as("mean"), sort(Sort.by("_id")));
        Query evening = query(where("sensor").is("a").and("at").gte(Instant.parse("2024-01-02T20:00:00Z"))).with(Sort.by("at"));
        return document(
            "daily", template.aggregate(daily, Document.class).getMappedResults(),
            "found", template.find(evening, Reading.class).stream().map(Reading::toString).toList(),
            "options", options(template, "readings"));
    }

    public static void main(String[] arguments) {
        Map<String, Steps.Step> steps = new LinkedHashMap<>();
        steps.put("crud", with(SpringWork::crud));
        steps.put("repositories", with(SpringWork::repositories));
        steps.put("aggregations", with(SpringWork::aggregations));
        steps.put("geo", with(SpringWork::geo));
        steps.put("indexing", with(SpringWork::indexing));
        steps.put("locking", with(SpringWork::locking));
        steps.put("bulk", with(SpringWork::bulk));
        steps.put("references", with(SpringWork::references));
        steps.put("collections", with(SpringWork::collections));
        steps.put("timeseries", with(SpringWork::timeseries));
        Steps.run("spring", arguments[0], steps);
    }

    private SpringWork() {}
}
