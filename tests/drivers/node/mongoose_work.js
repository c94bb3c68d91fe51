// A day's work with Mongoose, in named steps: node mongoose_work.js URI.
//
// Each step has a database of its own and prints `{"step": NAME, "result": ...}` in a line, as extended JSON. A step that
// throws prints `"failed"` in place of `"result"`. Text and wildcard indexes, transactions and change streams are absent:
// Meridian does not have them yet.
'use strict';
const mongoose = require('mongoose');
const { EJSON } = mongoose.mongo.BSON;
const { Schema } = mongoose;

process.on('warning', (warning) => { console.error(`warning: ${warning.stack}`); });

// A model whose collection and indexes exist.
async function model(db, name, definition, options = {}) {
  const schema = definition instanceof Schema ? definition : new Schema(definition, { versionKey: false, ...options });
  const made = db.model(name, schema);
  await made.init();
  return made;
}

// What the server or Mongoose refused, and why.
async function refusal(promise) {
  try {
    return { accepted: await promise };
  } catch (error) {
    return { name: error.name, code: error.code ?? null, message: error.message };
  }
}

const point = (longitude, latitude) => ({ type: 'Point', coordinates: [longitude, latitude] });
const GeoPoint = { type: { type: String, enum: ['Point'] }, coordinates: [Number] };
const indexes = (made) => made.collection.listIndexes().toArray();
const day = (number) => new Date(Date.UTC(2024, 0, number));

const steps = {
  async validation(db) {
    const User = await model(db, 'User', {
      _id: Number,
      name: { type: String, required: true, trim: true, maxlength: 20 },
      email: { type: String, lowercase: true, match: /@/ },
      age: { type: Number, min: 0, max: 150, default: 18 },
      role: { type: String, enum: ['reader', 'writer'], default: 'reader' },
      tags: { type: [String], validate: { validator: (tags) => tags.length < 3, message: 'too many tags' } },
      address: { street: String, zip: { type: String, required: true } },
    });
    await User.create({ _id: 1, name: '  Ada ', email: 'ADA@example.org', address: { zip: '1' } });
    // The server's own validation, beside Mongoose's.
    await db.createCollection('checked', { validator: { $jsonSchema: { required: ['n'], properties: { n: { bsonType: 'int', minimum: 1 } } } } });
    const checked = await refusal(db.collection('checked').insertOne({ _id: 1, n: 0 }));
    return {
      saved: await User.find().lean(),
      refused: await refusal(User.create({ _id: 2, email: 'none', age: -1, role: 'other', tags: ['a', 'b', 'c'] })),
      cast: await refusal(User.create({ _id: 2, name: 'x', age: 'many', address: { zip: '1' } })),
      update: await refusal(User.updateOne({ _id: 1 }, { age: 200 }, { runValidators: true })),
      checked,
      count: await User.countDocuments(),
    };
  },

  async populate(db) {
    const Publisher = await model(db, 'Publisher', { _id: Number, name: String });
    const authorSchema = new Schema({ _id: Number, name: String, publisher: { type: Number, ref: 'Publisher' } }, { versionKey: false });
    authorSchema.virtual('books', { ref: 'Book', localField: '_id', foreignField: 'authors', options: { sort: { year: -1 } } });
    authorSchema.virtual('bookCount', { ref: 'Book', localField: '_id', foreignField: 'authors', count: true });
    const Author = await model(db, 'Author', authorSchema);
    const Book = await model(db, 'Book', { _id: Number, title: String, year: Number, authors: [{ type: Number, ref: 'Author' }] });
    const Note = await model(db, 'Note', { _id: Number, kind: { type: String, enum: ['Author', 'Book'] }, about: { type: Number, refPath: 'kind' } });
    await Publisher.create({ _id: 1, name: 'North' }, { _id: 2, name: 'South' });
    await Author.create({ _id: 1, name: 'Ada', publisher: 1 }, { _id: 2, name: 'Bob', publisher: 2 }, { _id: 3, name: 'Cleo' });
    await Book.insertMany([[1, 2001, [1]], [2, 2002, [1, 2]], [3, 2003, [2, 9]], [4, 2004, []]].map(([_id, year, authors]) => ({ _id, title: `Book ${_id}`, year, authors })));
    await Note.create({ _id: 1, kind: 'Author', about: 2 }, { _id: 2, kind: 'Book', about: 4 });
    const book = await Book.findById(2);
    await book.populate('authors', 'name');
    return {
      single: await Author.find().sort('_id').populate('publisher').lean(),
      nested: await Book.find().sort('_id').populate({ path: 'authors', populate: { path: 'publisher', select: 'name -_id' } }).lean(),
      virtual: await Author.find().sort('_id').populate('books').lean(),
      counted: await Author.find().sort('_id').populate('bookCount').lean(),
      matched: await Book.find().sort('_id').populate({ path: 'authors', match: { name: /^B/ }, options: { limit: 1 } }).lean(),
      byPath: await Note.find().sort('_id').populate('about').lean(),
      document: book.toObject(),
    };
  },

  async discriminators(db) {
    const schema = new Schema({ _id: Number, at: Date, parts: [new Schema({ size: Number }, { discriminatorKey: 'shape', _id: false })] }, { discriminatorKey: 'kind', versionKey: false });
    schema.path('parts').discriminator('Round', new Schema({ radius: Number }, { _id: false }));
    schema.path('parts').discriminator('Square', new Schema({ side: Number }, { _id: false }));
    const Event = await model(db, 'Event', schema);
    const Click = Event.discriminator('Click', new Schema({ url: { type: String, index: true } }));
    const Sale = Event.discriminator('Sale', new Schema({ price: { type: Number, required: true } }));
    await Promise.all([Click.init(), Sale.init()]);
    await Click.create({ _id: 1, at: day(1), url: '/a' });
    await Sale.create({ _id: 2, at: day(2), price: 5, parts: [{ shape: 'Round', radius: 1 }, { shape: 'Square', side: 2 }] });
    await Event.create({ _id: 3, at: day(3) }, { _id: 4, kind: 'Click', url: '/b' });
    await Event.updateOne({ _id: 2, 'parts.shape': 'Round' }, { $set: { 'parts.$.radius': 7 } });
    return {
      all: await Event.find().sort('_id').lean(),
      clicks: await Click.find({ url: /^\// }).sort('-_id').lean(),
      counts: [await Event.countDocuments(), await Click.countDocuments(), await Sale.countDocuments({ price: { $gt: 4 } })],
      changed: await Click.updateMany({}, { $set: { url: '/c' } }),
      aggregated: await Click.aggregate([{ $group: { _id: '$kind', urls: { $addToSet: '$url' } } }]),
      refused: await refusal(Sale.create({ _id: 5 })),
      models: (await Event.find().sort('_id')).map((event) => event.constructor.modelName),
      indexes: await indexes(Event),
    };
  },

  async middleware(db) {
    const log = [];
    const schema = new Schema({ _id: Number, name: { type: String, unique: true }, hidden: Boolean, length: Number }, { versionKey: false });
    schema.pre('save', function () { this.length = this.name.length; log.push(`save ${this.isNew}`); });
    schema.post('save', (document) => log.push(`saved ${document._id}`));
    schema.post('save', (error, _document, next) => next(error.code === 11000 ? new Error(`taken: ${JSON.stringify(error.keyValue)}`) : error));
    schema.pre(/^find/, function () { this.where({ hidden: { $ne: true } }); });
    schema.pre('updateOne', function () { this.set({ length: -1 }); });
    schema.pre('aggregate', function () { this.pipeline().unshift({ $match: { hidden: { $ne: true } } }); });
    schema.pre('deleteOne', { document: true, query: false }, function () { log.push(`delete ${this._id}`); });
    const Item = await model(db, 'Item', schema);
    await Item.create({ _id: 1, name: 'one' });
    await Item.create({ _id: 2, name: 'three', hidden: true });
    const third = await Item.create({ _id: 3, name: 'gone' });
    await third.deleteOne();
    await Item.updateOne({ _id: 1 }, { name: 'uno' });
    return {
      found: await Item.find().lean(),
      counted: await Item.aggregate([{ $count: 'n' }]),
      taken: await refusal(Item.create({ _id: 4, name: 'uno' })),
      log,
    };
  },

  async aggregations(db) {
    const Order = await model(db, 'Order', { _id: Number, customer: Number, at: Date, lines: [{ _id: false, item: String, count: Number, price: Number }] });
    const Customer = await model(db, 'Customer', { _id: Number, name: String, city: String, invitedBy: Number });
    await Customer.insertMany([{ _id: 1, name: 'Ada', city: 'Paris' }, { _id: 2, name: 'Bob', city: 'Lyon', invitedBy: 1 }, { _id: 3, name: 'Cleo', city: 'Paris', invitedBy: 2 }]);
    await Order.insertMany(Array.from({ length: 30 }, (_, i) => ({
      _id: i, customer: i % 4, at: day(1 + i), lines: [{ item: 'pen', count: 1 + i % 3, price: 2 }, { item: 'book', count: i % 2, price: 10.5 }],
    })));
    const total = { $sum: { $map: { input: '$lines', in: { $multiply: ['$$this.count', '$$this.price'] } } } };
    const joined = Order.aggregate().match({ _id: { $lt: 6 } }).sort('_id')
      .lookup({ from: 'customers', localField: 'customer', foreignField: '_id', as: 'buyer' }).unwind({ path: '$buyer', preserveNullAndEmptyArrays: true });
    await Order.aggregate([{ $group: { _id: '$customer', spent: { $sum: total } } }, { $merge: { into: 'spendings', whenMatched: 'replace' } }]);
    return {
      joined: await joined.project({ name: '$buyer.name', total }),
      pipeline: await Customer.aggregate([
        { $lookup: { from: 'orders', let: { id: '$_id' }, as: 'big', pipeline: [
          { $match: { $expr: { $and: [{ $eq: ['$customer', '$$id'] }, { $gt: [total, 14] }] } } }, { $sort: { _id: 1 } }, { $project: { total } }] } },
        { $sort: { _id: 1 } }]),
      items: await Order.aggregate().unwind('lines').group({ _id: '$lines.item', count: { $sum: '$lines.count' }, mean: { $avg: '$lines.count' }, first: { $min: '$at' } }).sort('_id'),
      facets: await Order.aggregate().facet({
        weeks: [{ $group: { _id: { $isoWeek: '$at' }, n: { $sum: 1 } } }, { $sort: { _id: 1 } }],
        sizes: [{ $bucket: { groupBy: total, boundaries: [0, 5, 15, 100], output: { ids: { $push: '$_id' } } } }],
        count: [{ $count: 'n' }] }),
      running: await Order.aggregate([
        { $setWindowFields: { partitionBy: '$customer', sortBy: { at: 1 }, output: { sofar: { $sum: total, window: { documents: ['unbounded', 'current'] } }, rank: { $rank: {} } } } },
        { $match: { rank: { $gt: 6 } } }, { $sort: { _id: 1 } }, { $project: { sofar: '$sofar', rank: '$rank' } }]),
      invited: await Customer.aggregate([{ $match: { _id: 3 } }, { $graphLookup: { from: 'customers', startWith: '$invitedBy', connectFromField: 'invitedBy', connectToField: '_id', as: 'chain', depthField: 'depth' } }, { $unwind: '$chain' }, { $sort: { 'chain.depth': 1 } }]),
      merged: await db.collection('spendings').find().sort({ _id: 1 }).toArray(),
      cities: await Customer.aggregate().sortByCount('city'),
      union: await Customer.aggregate().project({ label: '$name' }).unionWith({ coll: 'orders', pipeline: [{ $match: { _id: 29 } }, { $project: { label: 'last' } }] }).sort('label'),
    };
  },

  async geo(db) {
    const schema = new Schema({ _id: String, at: GeoPoint, area: { type: { type: String }, coordinates: { type: [[[Number]]], default: undefined } } }, { versionKey: false });
    schema.index({ at: '2dsphere' });
    const Place = await model(db, 'Place', schema);
    const square = (x, y, size) => ({ type: 'Polygon', coordinates: [[[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]] });
    await Place.create({ _id: 'Paris', at: point(2.35, 48.85), area: square(2, 48, 1) }, { _id: 'Lyon', at: point(4.83, 45.76) },
      { _id: 'Tours', at: point(0.68, 47.39), area: square(0, 47, 1) }, { _id: 'Nice', at: point(7.26, 43.7) });
    const ids = async (query) => (await query.lean()).map((place) => place._id);
    return {
      near: await ids(Place.find({ at: { $near: { $geometry: point(2, 48), $maxDistance: 300000 } } })),
      built: await ids(Place.find().where('at').near({ center: point(5, 45), spherical: true, minDistance: 100000 }).limit(2)),
      distances: await Place.aggregate().near({ near: point(2, 48), distanceField: 'meters', spherical: true, query: { _id: { $ne: 'Nice' } } }),
      within: await ids(Place.find({ at: { $geoWithin: { $geometry: square(0, 46, 3) } } }).sort('_id')),
      circle: await ids(Place.find().where('at').within({ center: [2.35, 48.85], radius: 250 / 6378.1, spherical: true }).sort('_id')),
      box: await ids(Place.find().where('at').within().box([0, 43], [5, 48]).sort('_id')),
      crosses: await ids(Place.find().where('area').intersects().geometry({ type: 'LineString', coordinates: [[0.5, 47.5], [2.5, 48.5]] }).sort('_id')),
      counted: await Place.countDocuments({ at: { $geoWithin: { $centerSphere: [[5, 45], 0.05] } } }),
      refused: await refusal(Place.create({ _id: 'nowhere', at: point(200, 100) })),
      indexes: await indexes(Place),
    };
  },

  async reading(db) {
    const Row = await model(db, 'Row', { _id: Number, n: Number, name: String, list: [{ _id: false, a: Number, b: String }], extra: Schema.Types.Mixed });
    await Row.insertMany(Array.from({ length: 100 }, (_, i) => ({ _id: i, n: i % 7, name: `name ${i % 10}`, list: [{ a: i, b: 'x' }, { a: -i, b: 'y' }], extra: i % 3 ? { deep: { value: i } } : null })));
    const streamed = [];
    for await (const row of Row.find({ n: 3 }).sort('-_id').batchSize(4).cursor()) streamed.push(row._id);
    const aggregated = [];
    await Row.aggregate([{ $match: { n: 5 } }, { $sort: { _id: 1 } }]).cursor({ batchSize: 3 }).eachAsync((row) => { aggregated.push(row._id); });
    return {
      streamed, aggregated,
      lean: await Row.find({ n: { $in: [1, 2] }, _id: { $lt: 20 } }).sort({ n: 1, _id: -1 }).select('n name').skip(1).limit(3).lean(),
      sliced: await Row.find({ _id: 7 }, { list: { $slice: -1 }, extra: 1 }).lean(),
      matched: await Row.find({ list: { $elemMatch: { a: { $gt: 97 }, b: 'x' } } }, { 'list.$': 1 }).sort('_id').lean(),
      built: await Row.where('_id').gte(10).lt(60).where('name').regex(/9$/).where('extra').ne(null).sort('-n _id').lean(),
      either: await Row.find().or([{ _id: 6 }, { _id: 5 }, { 'extra.deep.value': 41 }]).nor([{ n: 5 }]).distinct('_id'),
      distinct: await Row.distinct('name', { n: 0 }),
      exists: [await Row.exists({ n: 6, _id: { $gt: 90 } }), await Row.exists({ n: 99 })],
      counts: [await Row.countDocuments({ n: 1 }), await Row.estimatedDocumentCount(), await Row.countDocuments().skip(95)],
      one: await Row.findOne({ n: 4 }).sort('-_id').hint({ _id: 1 }).comment('daily').maxTimeMS(5000).lean(),
      byId: await Row.findById('12').lean(),
      expression: await Row.find({ $expr: { $eq: [{ $mod: ['$_id', 33] }, '$n'] } }).sort('_id').distinct('_id'),
      typed: await Row.countDocuments({ extra: { $type: 'null' } }),
      unfound: await refusal(Row.findOne({ _id: 1000 }).orFail()),
    };
  },

  async writing(db) {
    const Row = await model(db, 'Row', { _id: Number, n: Number, name: { type: String, default: 'new' }, grades: [{ _id: false, subject: String, mark: Number }], tags: [String], labels: { type: Map, of: Number } });
    const written = await Row.bulkWrite([
      ...Array.from({ length: 5 }, (_, i) => ({ insertOne: { document: { _id: i, n: i, grades: [{ subject: 'art', mark: 40 + i }, { subject: 'music', mark: 90 - i }] } } })),
      { updateOne: { filter: { _id: 0 }, update: { $inc: { n: 100 } } } },
      { updateMany: { filter: { n: { $lt: 3 } }, update: { $push: { tags: { $each: ['b', 'a'], $sort: 1, $slice: 3 } } } } },
      { replaceOne: { filter: { _id: 4 }, replacement: { n: 44, tags: ['replaced'] } } },
      { updateOne: { filter: { _id: 9 }, update: { $set: { n: 9 } }, upsert: true } },
      { deleteOne: { filter: { _id: 3 } } },
    ]);
    const { insertedCount, matchedCount, modifiedCount, deletedCount, upsertedCount, upsertedIds } = written;
    const document = await Row.findById(1);
    document.grades[0].mark = 99;
    document.grades.push({ subject: 'sport', mark: 1 });
    document.tags.addToSet('z', 'a');
    document.tags.pull('b');
    document.labels = new Map([['x', 1]]);
    await document.save();
    document.labels.set('y', 2);
    document.n = undefined;
    await document.save();
    const second = await Row.findById(2);
    second.n = 22;
    const saved = await Row.bulkSave([second, new Row({ _id: 5, n: 5 })]);
    return {
      bulk: { insertedCount, matchedCount, modifiedCount, deletedCount, upsertedCount, upsertedIds },
      bulkSave: [saved.insertedCount, saved.modifiedCount],
      upsert: await Row.updateOne({ _id: 10 }, { $set: { n: 1 }, $setOnInsert: { tags: ['first'] } }, { upsert: true }),
      again: await Row.updateOne({ _id: 10 }, { $set: { n: 1 }, $setOnInsert: { tags: ['first'] } }, { upsert: true }),
      filtered: await Row.updateMany({}, { $inc: { 'grades.$[low].mark': 10 } }, { arrayFilters: [{ 'low.mark': { $lt: 50 } }] }),
      positional: await Row.updateOne({ 'grades.subject': 'music' }, { $set: { 'grades.$.mark': 0 } }),
      pipeline: await Row.updateMany({ _id: { $lt: 3 } }, [{ $set: { name: { $concat: ['row ', { $toString: '$_id' }] } } }], { updatePipeline: true }),
      before: await Row.findOneAndUpdate({ _id: 2 }, { $inc: { n: 1 } }).lean(),
      after: await Row.findOneAndUpdate({ n: { $gt: 5 } }, { $inc: { n: 1 } }, { new: true, sort: '-n', projection: 'n' }).lean(),
      made: await Row.findOneAndUpdate({ _id: 11 }, { tags: ['made'] }, { new: true, upsert: true, setDefaultsOnInsert: true, includeResultMetadata: true, lean: true }),
      replaced: await Row.findOneAndReplace({ _id: 9 }, { n: 99 }, { new: true }).lean(),
      deleted: await Row.findOneAndDelete({ _id: 5 }).lean(),
      nothing: await Row.findByIdAndUpdate(77, { n: 1 }).lean(),
      duplicates: await refusal(Row.insertMany([{ _id: 20 }, { _id: 0 }, { _id: 21 }], { ordered: false })),
      conflict: await refusal(Row.updateOne({ _id: 0 }, { $inc: { n: 1 }, $set: { n: 2 } })),
      notNumber: await refusal(Row.updateOne({ _id: 0 }, { $inc: { name: 1 } })),
      removed: await Row.deleteMany({ _id: { $gte: 20 } }),
      rows: await Row.find().sort('_id').lean(),
    };
  },

  async indexing(db) {
    const schema = new Schema({ _id: Number, email: String, kind: String, score: Number, expires: Date, nick: { type: String, sparse: true, unique: true } }, { versionKey: false, autoIndex: false });
    schema.index({ email: 1 }, { unique: true, partialFilterExpression: { email: { $type: 'string' } } });
    schema.index({ kind: 1, score: -1 }, { name: 'ranking', background: true });
    schema.index({ expires: 1 }, { expires: '1h' });
    schema.index({ kind: 'hashed' });
    const User = await model(db, 'User', schema);
    await User.createCollection();
    await User.collection.createIndex({ old: 1 });
    const difference = await User.diffIndexes();
    const dropped = await User.syncIndexes();
    const listed = await indexes(User);
    await User.create({ _id: 1, email: 'a@b', nick: 'a' }, { _id: 2 }, { _id: 3 });
    // Another definition of the same index: it is dropped and made again.
    const again = db.model('Again', new Schema({ kind: String, score: Number }, { collection: 'users', autoIndex: false }).index({ kind: 1, score: 1 }, { name: 'ranking' }));
    return {
      difference, dropped, listed,
      unique: await refusal(User.create({ _id: 4, email: 'a@b' })),
      sparse: await refusal(User.updateOne({ _id: 3 }, { nick: 'a' })),
      conflict: await refusal(User.collection.createIndex({ kind: 1, score: -1 }, { name: 'other' })),
      tooLate: await refusal(User.collection.createIndex({ score: 1 }, { unique: true })),
      redone: await again.syncIndexes(),
      listedAgain: await indexes(again),
    };
  },

  async timestamps(db) {
    let clock = 1;
    const Post = await model(db, 'Post', { _id: Number, text: String, comments: [new Schema({ _id: Number, text: String }, { timestamps: { currentTime: () => day(clock) } })] },
      { timestamps: { createdAt: 'created', updatedAt: 'updated', currentTime: () => day(clock) } });
    const post = await Post.create({ _id: 1, text: 'a', comments: [{ _id: 1, text: 'c' }] });
    clock = 2;
    post.text = 'b';
    await post.save();
    await Post.updateOne({ _id: 2 }, { text: 'upserted' }, { upsert: true });
    clock = 3;
    await Post.findOneAndUpdate({ _id: 2 }, { $set: { text: 'again' } });
    await Post.updateOne({ _id: 1 }, { $push: { comments: { _id: 2, text: 'd' } } });
    await Post.bulkWrite([{ updateOne: { filter: { _id: 2 }, update: { text: 'bulk' } } }, { insertOne: { document: { _id: 3 } } }]);
    await Post.updateOne({ _id: 3 }, { text: 'silent' }, { timestamps: false });
    return Post.find().sort('_id').lean();
  },

  async versions(db) {
    const List = await model(db, 'List', new Schema({ _id: Number, items: [{ _id: false, text: String }] }));
    const Account = await model(db, 'Account', new Schema({ _id: Number, balance: Number }, { optimisticConcurrency: true, versionKey: 'version' }));
    await List.create({ _id: 1, items: [{ text: 'a' }, { text: 'b' }] });
    await Account.create({ _id: 1, balance: 10 });
    const [mine, theirs] = [await List.findById(1), await List.findById(1)];
    theirs.items.shift();
    theirs.markModified('items');
    await theirs.save();
    mine.items[1].text = 'too late';
    const [first, second] = [await Account.findById(1), await Account.findById(1)];
    first.balance += 5;
    await first.save();
    second.balance -= 5;
    const gone = await Account.create({ _id: 2, balance: 1 });
    await Account.deleteOne({ _id: 2 });
    gone.balance = 2;
    return { list: await refusal(mine.save()), account: await refusal(second.save()), gone: await refusal(gone.save()), lists: await List.find().lean(), accounts: await Account.find().lean() };
  },

  async collations(db) {
    const Word = await model(db, 'Word', new Schema({ _id: Number, word: { type: String, unique: true } }, { versionKey: false, collation: { locale: 'en', strength: 1 } }));
    const Plain = await model(db, 'Plain', { _id: Number, word: String });
    const words = ['zebra', 'Äpfel', 'apfel2', 'Öl', 'ol2', 'item 10', 'item 9'].map((word, _id) => ({ _id, word }));
    await Word.insertMany(words);
    await Plain.insertMany([...words, { _id: 99, word: 'ZEBRA' }]);
    const list = async (query) => (await query.lean()).map((row) => row.word);
    return {
      found: await Word.find({ word: 'apfel' }).lean(),
      sorted: await list(Word.find().sort('word')),
      unique: await refusal(Word.create({ _id: 8, word: 'ZEBRA' })),
      german: await list(Plain.find().collation({ locale: 'de' }).sort('word')),
      swedish: await list(Plain.find().collation({ locale: 'sv' }).sort('word')),
      numbers: await list(Plain.find({ word: /^item/ }).collation({ locale: 'en', numericOrdering: true }).sort('word')),
      upper: await list(Plain.find({ word: /zebra/i }).collation({ locale: 'en', caseFirst: 'upper' }).sort('word')),
      refused: await refusal(Plain.find().collation({ locale: 'en', strength: 2, caseFirst: 'upper' }).lean()),
      groups: await Plain.aggregate([{ $group: { _id: '$word', n: { $sum: 1 } } }, { $match: { n: 2 } }]).collation({ locale: 'en', strength: 2 }),
      updated: await Plain.updateMany({ word: 'zebra' }, { word: 'horse' }, { collation: { locale: 'en', strength: 2 } }),
      indexes: await indexes(Word),
    };
  },

  async timeseries(db) {
    const Reading = await model(db, 'Reading', new Schema({ at: Date, sensor: { id: Number, room: String }, value: Number, _id: Number },
      { versionKey: false, autoIndex: false, timeseries: { timeField: 'at', metaField: 'sensor', granularity: 'minutes' }, expireAfterSeconds: 1e9 }));
    const at = (minute) => new Date(Date.UTC(2024, 0, 1, 0, minute));
    await Reading.insertMany(Array.from({ length: 120 }, (_, i) => ({ _id: i, at: at(i), sensor: { id: i % 3, room: i % 3 ? 'hall' : 'attic' }, value: i / 4 })));
    await Reading.collection.createIndex({ 'sensor.id': 1, at: -1 });
    const listed = await db.listCollections();
    // mongod returns the fields of measurements in any order.
    const values = async (query) => (await query).map(({ _id, value, mean = null }) => [_id, value, mean]);
    return {
      collections: listed.filter((one) => one.name !== 'system.views').map(({ name, type, options }) => ({ name, type, options })).sort((a, b) => (a.name < b.name ? -1 : 1)),
      found: await values(Reading.find({ 'sensor.id': 1, at: { $gte: at(10), $lt: at(20) } }).sort('at').lean()),
      hours: await Reading.aggregate([
        { $group: { _id: { hour: { $dateTrunc: { date: '$at', unit: 'hour' } }, room: '$sensor.room' }, mean: { $avg: '$value' }, last: { $max: '$at' } } }, { $sort: { _id: 1 } }]),
      moving: await values(Reading.aggregate([
        { $setWindowFields: { partitionBy: '$sensor', sortBy: { at: 1 }, output: { mean: { $avg: '$value', window: { range: [-10, 0], unit: 'minute' } } } } },
        { $match: { _id: { $gt: 116 } } }, { $sort: { _id: 1 } }])),
      count: await Reading.countDocuments({ value: { $gte: 25 } }),
      renamed: await Reading.updateMany({ 'sensor.id': 2 }, { $set: { 'sensor.room': 'cellar' } }),
      removed: await Reading.deleteMany({ 'sensor.id': 0 }),
      refused: await refusal(Reading.deleteMany({ value: 1 })),
      rooms: (await Reading.distinct('sensor.room')).sort(),
      indexes: await indexes(Reading),
    };
  },

  async capped(db) {
    const Log = await model(db, 'Log', new Schema({ _id: Number, text: String }, { versionKey: false, capped: { size: 4096, max: 3 } }));
    for (let i = 0; i < 5; i++) await Log.create({ _id: i, text: 'x'.repeat(i) });
    const tail = Log.find().tailable().cursor();
    const seen = [];
    for (let i = 0; i < 3; i++) seen.push((await tail.next())._id);
    await Log.create({ _id: 5 });
    seen.push((await tail.next())._id);
    await tail.close();
    return { capped: await Log.collection.isCapped(), options: await Log.collection.options(), newestFirst: await Log.find().sort({ $natural: -1 }).lean(), seen, updated: await Log.updateOne({ _id: 5 }, { text: 'y' }) };
  },

  async types(db) {
    const Value = await model(db, 'Value', {
      _id: Number, decimal: Schema.Types.Decimal128, bytes: Buffer, uuid: Schema.Types.UUID, big: BigInt, double: Schema.Types.Double, int: Schema.Types.Int32,
      id: Schema.Types.ObjectId, flag: Boolean, date: Date, map: { type: Map, of: String }, mixed: {}, list: [[Number]],
    });
    await Value.create({
      _id: 1, decimal: '1.10', bytes: Buffer.from('abc'), uuid: '0123456789ab4def8123456789abcdef'.replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'), big: 9007199254740993n, double: 2, int: 3,
      id: '0123456789abcdef01234567', flag: 'yes', date: '2024-02-29', map: { a: 'b' }, mixed: { nothing: null, list: [1, 'a'] }, list: [[1], [2, 3]],
    });
    await Value.updateOne({ _id: 1 }, { $inc: { big: 1n, decimal: '0.05' }, $mul: { int: 2 } });
    const raw = await Value.collection.findOne({ _id: 1 }, { promoteValues: false, promoteLongs: false });
    return {
      raw,
      types: await Value.aggregate([{ $project: { _id: 0, types: { $map: { input: { $objectToArray: '$$ROOT' }, in: { k: '$$this.k', v: { $type: '$$this.v' } } } } } }]),
      byDecimal: await Value.countDocuments({ decimal: '1.15' }),
      byUuid: await Value.countDocuments({ uuid: raw.uuid }),
      byBig: await Value.countDocuments({ big: { $gt: 9007199254740993n } }),
    };
  },

  async sessions(db) {
    const Row = await model(db, 'Row', { _id: Number, n: Number });
    const session = await db.startSession({ causalConsistency: true });
    await Row.create([{ _id: 1, n: 1 }, { _id: 2, n: 2 }], { session, ordered: true });
    await Row.updateOne({ _id: 1 }, { n: 5 }, { session });
    const document = await Row.findById(2).session(session);
    document.n = 7;
    await document.save();
    const streamed = [];
    for await (const row of Row.find({}, null, { session }).sort('_id').batchSize(1).cursor()) streamed.push(row.toObject());
    await session.endSession();
    return { streamed, ended: session.hasEnded };
  },
};

async function main(uri) {
  for (const [step, work] of Object.entries(steps)) {
    const db = await mongoose.createConnection(uri, { dbName: `mongoose_${step}`, serverSelectionTimeoutMS: 5000 }).asPromise();
    await db.dropDatabase();
    const outcome = await work(db).then((result) => ({ step, result }), (error) => ({ step, failed: error.stack }));
    console.log(EJSON.stringify(outcome, { relaxed: false }));
    await db.dropDatabase();
    await db.close();
  }
}

main(process.argv[2]).catch((error) => { console.error(error); process.exit(1); });
