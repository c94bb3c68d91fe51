// Logs in as a URI says and works in a collection of the database `test`: node login_once.js URI COLLECTION.
//
// Out: five lines about what was done. An error goes to stderr as `code 13: message`, with exit 1.
const { MongoClient } = require("mongodb");

async function work(client, name) {
  const database = client.db("test");
  const collection = database.collection(name);
  // A read comes first: it is what a client that is not logged in is refused.
  console.log(`before ${await collection.countDocuments()}`);
  console.log(`inserted ${(await collection.insertOne({ _id: 7, text: "größer" })).insertedId}`);
  console.log(`found ${(await collection.findOne({ _id: 7 })).text}`);
  console.log(`counted ${await collection.countDocuments()}`);
  const { authInfo } = await database.command({ connectionStatus: 1 });
  for (const { user, db } of authInfo.authenticatedUsers) console.log(`user ${user} of ${db}`);
}

const client = new MongoClient(process.argv[2]);
work(client, process.argv[3])
  .catch((error) => { console.error(`code ${error.code ?? -1}: ${error.message}`); process.exitCode = 1; })
  .finally(() => client.close());
