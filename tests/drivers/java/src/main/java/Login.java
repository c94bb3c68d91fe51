import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import org.bson.Document;

/**
 * Logs in as a URI says and works in a collection of the database `test`: Login URI COLLECTION.
 *
 * <p>Out: five lines about what was done. An error goes to stderr as `code 13: message`, with exit 1.
 * The driver takes certificates from the JVM's own settings (javax.net.ssl.*), not from the URI.
 */
public final class Login {
    private static void work(String uri, String name) {
        try (MongoClient client = MongoClients.create(uri)) {
            MongoDatabase database = client.getDatabase("test");
            MongoCollection<Document> collection = database.getCollection(name);
            // A read comes first: it is what a client that is not logged in is refused.
            System.out.println("before " + collection.countDocuments());
            var inserted = collection.insertOne(new Document("_id", 7).append("text", "größer"));
            System.out.println("inserted " + inserted.getInsertedId().asInt32().getValue());
            System.out.println("found " + collection.find(new Document("_id", 7)).first().getString("text"));
            System.out.println("counted " + collection.countDocuments());
            Document status = database.runCommand(new Document("connectionStatus", 1));
            Document info = status.get("authInfo", Document.class);
            for (Document user : info.getList("authenticatedUsers", Document.class)) {
                System.out.println("user " + user.getString("user") + " of " + user.getString("db"));
            }
        }
    }

    /** The code the server gave, or -1. A failed login holds the server's error as its cause. */
    private static int codeOf(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof MongoException refused && refused.getCode() > 0) {
                return refused.getCode();
            }
        }
        return -1;
    }

    public static void main(String[] arguments) {
        try {
            work(arguments[0], arguments[1]);
        } catch (MongoException error) {
            System.err.println("code " + codeOf(error) + ": " + error.getMessage());
            System.exit(1);
        }
    }
}
