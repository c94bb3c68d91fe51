// What login_once.js does, for mongosh: COLLECTION in the environment. mongosh itself tells of a failed login.
try {
  const database = db.getSiblingDB("test");
  const collection = database.getCollection(process.env.COLLECTION);
  print(`before ${collection.countDocuments()}`);
  print(`inserted ${collection.insertOne({ _id: 7, text: "größer" }).insertedId}`);
  print(`found ${collection.findOne({ _id: 7 }).text}`);
  print(`counted ${collection.countDocuments()}`);
  for (const { user, db } of database.runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers) print(`user ${user} of ${db}`);
} catch (error) {
  console.error(`code ${error.code ?? -1}: ${error.message}`);
  process.exit(1);
}
