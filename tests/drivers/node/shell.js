// What people type into mongosh. Each line prints something the test looks for.
db = db.getSiblingDB('drv_shell');
db.dropDatabase();
print('inserted', db.c.insertMany([{ _id: 1, n: 1 }, { _id: 2, n: 2 }, { _id: 3, n: 3 }]).acknowledged);
print('found', db.c.find({ n: { $gte: 2 } }).toArray().length);
print('counted', db.c.countDocuments());
print('updated', db.c.updateOne({ _id: 1 }, { $set: { x: 1 } }).modifiedCount);
print('index', db.c.createIndex({ n: 1 }));
print('indexes', db.c.getIndexes().length);
print('explained', db.c.find({ n: 2 }).explain().queryPlanner.winningPlan !== undefined);
print('aggregated', db.c.aggregate([{ $group: { _id: null, s: { $sum: '$n' } } }]).next().s);
print('distinct', db.c.distinct('n').length);
print('collections', db.getCollectionNames().join());
print('databases', db.adminCommand({ listDatabases: 1 }).databases.some((d) => d.name === 'drv_shell'));
print('stats', db.c.stats().count);
print('dbstats', db.stats().collections);
print('hello', db.hello().isWritablePrimary);
print('version', /^\d+\.\d+\.\d+/.test(db.version()));
print('status', db.serverStatus().ok);
print('host', db.hostInfo().ok);
print('validate', db.c.validate().valid);
print('modify', db.runCommand({ collMod: 'c', validator: { n: { $exists: true } } }).ok);
try { db.c.insertOne({ _id: 9 }); } catch (error) { print('refused', error.code); }
print('removed', db.c.deleteMany({}).deletedCount);
print('dropped', db.c.drop());
print('gone', db.dropDatabase().ok);
