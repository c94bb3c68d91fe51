// Logs in by each mechanism, with and without compression, and is refused what it may not do.
const { MongoClient } = require("mongodb");

async function main(uri) {
  for (const authMechanism of ["SCRAM-SHA-1", "SCRAM-SHA-256", undefined]) {
    const auth = { username: "someone", password: "pässword" };
    const client = new MongoClient(uri, { auth, authSource: "test", ...(authMechanism ? { authMechanism } : {}) });
    await client.connect();
    await client.db("test").collection("c").insertOne({ a: 1 });
    let refused = 0;
    await client.db("other").collection("c").insertOne({ a: 1 }).catch((error) => { refused = error.code; });
    console.log(`${authMechanism ?? "default"} ${refused}`);
    await client.close();
  }
  const wrong = new MongoClient(uri, { auth: { username: "someone", password: "wrong" }, authSource: "test" });
  await wrong.db("test").command({ ping: 1 }).then(() => console.log("let in"), (error) => console.log(`wrong ${error.code}`));
  await wrong.close();
}

main(process.argv[2]).catch((error) => { console.error(error); process.exit(1); });
