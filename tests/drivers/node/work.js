// Daily work with the Node.js driver. Prints one line `ok NAME` for each step;
// throws on the first wrong answer. Warnings go to stderr, which the test asserts to be empty.
'use strict';
const assert = require('node:assert');
const { MongoClient, Long, Double, Int32, ObjectId, Decimal128 } = require('mongodb');

process.on('warning', (warning) => { console.error(`warning: ${warning.stack}`); });

const uri = process.argv[2];
const done = (name) => console.log(`ok ${name}`);

async function driver() {
  for (const compressors of [[], ['zlib']]) {
    const client = new MongoClient(uri, { compressors, serverSelectionTimeoutMS: 5000 });
    await client.connect();
    const db = client.db('drv_node');
    await db.dropDatabase();
    const c = db.collection('c');
    const inserted = await c.insertMany(Array.from({ length: 500 }, (_, i) => ({ _id: i, n: i % 10, big: Long.fromNumber(i) })));
    assert.strictEqual(inserted.insertedCount, 500);
    const seen = [];
    for await (const document of c.find({ n: 3 }).sort({ _id: 1 }).batchSize(7)) seen.push(document._id);
    assert.deepStrictEqual(seen, Array.from({ length: 50 }, (_, i) => i * 10 + 3));
    const updated = await c.updateMany({ n: 3 }, { $inc: { n: 100 } });
    assert.deepStrictEqual([updated.matchedCount, updated.modifiedCount], [50, 50]);
    assert.strictEqual((await c.deleteMany({ n: 103 })).deletedCount, 50);
    assert.strictEqual(await c.countDocuments({}), 450);
    assert.strictEqual(await c.estimatedDocumentCount(), 450);
    const upsert = await c.updateOne({ _id: 'new' }, { $set: { x: 1 } }, { upsert: true });
    assert.strictEqual(upsert.upsertedId, 'new');
    assert.strictEqual((await c.findOneAndUpdate({ _id: 'new' }, { $inc: { x: 1 } }, { returnDocument: 'after' })).x, 2);
    await assert.rejects(c.insertOne({ _id: 0 }), (error) => error.code === 11000 && error.keyPattern._id === 1);
    await assert.rejects(c.bulkWrite([{ insertOne: { document: { _id: 0 } } }, { insertOne: { document: { _id: 'b' } } }], { ordered: false }),
      (error) => error.writeErrors.length === 1 && error.result.insertedCount === 1);
    assert.strictEqual(await c.createIndex({ p: '2dsphere' }), 'p_2dsphere');
    assert.strictEqual(await c.createIndex({ n: 1, _id: -1 }), 'n_1__id_-1');
    assert.strictEqual((await c.indexes()).length, 3);
    assert.deepStrictEqual((await db.listCollections({}, { nameOnly: true }).toArray()).map((x) => x.name), ['c']);
    const groups = await c.aggregate([{ $match: { n: { $lt: 3 } } }, { $group: { _id: '$n', k: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray();
    assert.deepStrictEqual(groups, [{ _id: 0, k: 50 }, { _id: 1, k: 50 }, { _id: 2, k: 50 }]);
    assert.strictEqual((await c.distinct('n', { n: { $lt: 3 } })).length, 3);
    const session = client.startSession();
    await c.insertOne({ _id: 'in session' }, { session });
    assert.ok(await c.findOne({ _id: 'in session' }, { session }));
    await session.endSession();
    const plan = await c.find({ n: 5 }).explain('executionStats');
    assert.strictEqual(plan.executionStats.nReturned, 50);
    assert.ok((await client.db().admin().serverStatus()).version);
    assert.ok((await client.db().admin().listDatabases()).databases.some((x) => x.name === 'drv_node'));
    await c.insertOne({ _id: 'types', l: Long.fromString('9007199254740993'), d: new Double(1), i: new Int32(1), o: new ObjectId(), m: Decimal128.fromString('1.10'), u: new Date(0) });
    const types = await c.findOne({ _id: 'types' }, { promoteValues: false });
    assert.deepStrictEqual(['l', 'd', 'i', 'o', 'm'].map((k) => types[k]._bsontype), ['Long', 'Double', 'Int32', 'ObjectId', 'Decimal128']);
    await c.insertOne({ _id: 'quiet' }, { writeConcern: { w: 0 } });
    await db.dropDatabase();
    await client.close();
    done(`driver ${compressors}`);
  }
}

driver().catch((error) => { console.error(error); process.exit(1); });
