package work;

import com.mongodb.ConnectionString;
import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.bson.Document;
import org.bson.UuidRepresentation;
import org.bson.codecs.DocumentCodec;
import org.bson.codecs.configuration.CodecRegistries;
import org.bson.json.JsonMode;
import org.bson.json.JsonWriterSettings;

/** What the programs of this package share: named steps, and a line of extended JSON for each. */
final class Steps {
    private static final JsonWriterSettings EXACT = JsonWriterSettings.builder().outputMode(JsonMode.EXTENDED).build();

    private static final DocumentCodec CODEC = new DocumentCodec(CodecRegistries.withUuidRepresentation(MongoClientSettings.getDefaultCodecRegistry(), UuidRepresentation.STANDARD));

    /** Works in a database of its own; what it returns has to be a BSON value. */
    interface Step {
        Object work(MongoClient client, String database) throws Exception;
    }

    /** Runs every step; one that throws gives its stack in place of a result. */
    static void run(String program, String uri, Map<String, Step> steps) {
        var settings = MongoClientSettings.builder().applyConnectionString(new ConnectionString(uri)).uuidRepresentation(UuidRepresentation.STANDARD);
        try (MongoClient client = MongoClients.create(settings.build())) {
            steps.forEach((name, step) -> {
                String database = program + "_" + name;
                client.getDatabase(database).drop();
                System.out.println(outcome(name, step, client, database));
                client.getDatabase(database).drop();
            });
        }
    }

    private static String outcome(String name, Step step, MongoClient client, String database) {
        try {
            return new Document("step", name).append("result", step.work(client, database)).toJson(EXACT, CODEC);
        } catch (Exception error) {
            StringWriter stack = new StringWriter();
            error.printStackTrace(new PrintWriter(stack));
            return new Document("step", name).append("failed", stack.toString()).toJson(EXACT, CODEC);
        }
    }

    /** A document of names and values in turn. */
    static Document document(Object... fields) {
        Document document = new Document();
        for (int i = 0; i < fields.length; i += 2) {
            document.append((String) fields[i], fields[i + 1]);
        }
        return document;
    }

    static <T> List<T> list(Iterable<T> values) {
        List<T> list = new ArrayList<>();
        values.forEach(list::add);
        return list;
    }

    /** What an action was refused, or what it gave. The driver's message names the server's address. */
    static Document refusal(Callable<?> action) {
        try {
            return document("accepted", String.valueOf(action.call()));
        } catch (Exception error) {
            if (error instanceof MongoBulkWriteException bulk) {
                return document("error", "bulk", "codes", bulk.getWriteErrors().stream().map(one -> one.getIndex() + " " + one.getCode() + " " + one.getMessage()).toList(),
                    "inserted", bulk.getWriteResult().getInsertedCount());
            }
            String message = String.valueOf(error.getMessage()).replaceAll(" 127\\.0\\.0\\.1:\\d+", "");
            return document("error", error.getClass().getSimpleName(), "code", codeOf(error), "message", message);
        }
    }

    /** The server's code; Spring's errors have the driver's as their cause. */
    private static int codeOf(Throwable error) {
        return error == null ? 0 : error instanceof MongoException refused ? refused.getCode() : codeOf(error.getCause());
    }

    private Steps() {}
}
