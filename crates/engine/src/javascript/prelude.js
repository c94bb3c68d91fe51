// What MongoDB's server puts into the global scope of JavaScript: BSON's types, and helpers that old scripts use.
// Its value is what the engine needs: `make` builds values of BSON's types, `kind` is where such a value says its type,
// `emitted` hands out what `emit` took. `native` has what only the host can do.
(native) => {
  "use strict";
  // What the host calls is taken now: clients may change all globals and prototypes.
  const HostTypeError = TypeError, HostRangeError = RangeError, { defineProperty, create } = Object, HostError = Error, HostDate = Date, HostRegExp = RegExp, { apply } = Reflect;
  const { getTime } = Date.prototype, { toString: functionText } = Function.prototype, { toWellFormed } = String.prototype;
  const kind = Symbol("bson");
  // The number of the document that an object was made of, while a function runs.
  const original = Symbol("original");
  const hidden = (object, name, value) =>
    defineProperty(object, name, { value, enumerable: false, writable: true, configurable: true });
  const mark = (object, type, value) => {
    defineProperty(object, kind, { value: type });
    if (value !== undefined) defineProperty(object, "$value", { value });
    return object;
  };
  const global = (name, value) => hidden(globalThis, name, value);
  // Types may be made with and without `new`, as in MongoDB.
  const type = (name, build, methods) => {
    const make = { [name]: function (...args) {
      return build(create(prototype), ...args);
    } }[name];
    const { prototype } = make;
    for (const [method, body] of Object.entries(methods)) hidden(prototype, method, body);
    global(name, make);
    return make;
  };
  // An error of the host, with MongoDB's code.
  const refuse = (text, number = 2) => {
    native.refused(text, number);
    const error = new HostError(text);
    defineProperty(error, "code", { value: number });
    throw error;
  };

  const wrap = (value) => BigInt.asIntN(64, BigInt(value));
  const NumberLong = type("NumberLong", (self, ...args) => {
    if (args.length === 0) return mark(self, "long", 0n);
    if (args.length === 3) return mark(self, "long", wrap((BigInt(args[1]) << 32n) | BigInt(args[2] >>> 0)));
    if (args.length > 1) refuse("NumberLong needs 0, 1 or 3 arguments");
    const [value] = args;
    if (typeof value === "bigint") return mark(self, "long", wrap(value));
    if (typeof value === "string") {
      if (!/^\s*[+-]?\d+\s*$/.test(value)) refuse("could not convert string to long long");
      const number = BigInt(value.trim().replace(/^\+/, ""));
      if (number !== wrap(number)) refuse("could not convert string to long long");
      return mark(self, "long", number);
    }
    if (value instanceof NumberLong) return mark(self, "long", value.$value);
    const number = Number(value);
    if (typeof value === "object" || value === undefined) return mark(self, "long", 0n);
    if (!Number.isInteger(number) || number >= 2 ** 63 || number < -(2 ** 63)) {
      refuse("number passed to NumberLong must be representable as an int64_t");
    }
    return mark(self, "long", BigInt(number));
  }, {
    toNumber() { return Number(this.$value); },
    valueOf() { return Number(this.$value); },
    toString() {
      const value = this.$value;
      const isSafe = value >= -(2n ** 53n) && value <= 2n ** 53n;
      return isSafe ? `NumberLong(${value})` : `NumberLong("${value}")`;
    },
    toJSON() { return { $numberLong: String(this.$value) }; },
    tojson() { return this.toString(); },
    compare(other) {
      if (!(other instanceof NumberLong)) refuse("NumberLong.compare() argument must be a NumberLong");
      const [own, its] = [this.$value, other.$value];
      return own < its ? -1 : own > its ? 1 : 0;
    },
  });
  defineProperty(NumberLong.prototype, "floatApprox", { get() { return Number(this.$value); } });
  defineProperty(NumberLong.prototype, "top", { get() { return Number(BigInt.asUintN(32, this.$value >> 32n)); } });
  defineProperty(NumberLong.prototype, "exactValueString", { get() { return String(this.$value); } });
  defineProperty(NumberLong.prototype, "bottom", { get() { return Number(BigInt.asUintN(32, this.$value)); } });

  const NumberInt = type("NumberInt", (self, ...args) => {
    if (args.length > 1) refuse("NumberInt takes 0 or 1 arguments");
    const [value] = args;
    return mark(self, "int", (typeof value === "string" ? parseInt(value, 10) : Number(value ?? 0)) | 0);
  }, {
    toNumber() { return this.$value; },
    valueOf() { return this.$value; },
    toString() { return `NumberInt(${this.$value})`; },
    toJSON() { return this.$value; },
    tojson() { return this.toString(); },
  });

  const NumberDecimal = type("NumberDecimal", (self, ...args) => {
    if (args.length > 1) refuse("NumberDecimal needs 0 or 1 arguments");
    const [value = "0"] = args;
    const text = typeof value === "number" ? value.toPrecision(15) : String(value.$value ?? value);
    return mark(self, "decimal", native.decimal(text) ?? refuse("Input is not a valid Decimal128 value."));
  }, {
    toString() { return `NumberDecimal("${this.$value}")`; },
    toJSON() { return { $numberDecimal: this.$value }; },
    equals(other) { return other instanceof NumberDecimal && other.$value === this.$value; },
    tojson() { return this.toString(); },
  });

  const ObjectId = type("ObjectId", (self, text) => {
    if (text !== undefined && !(typeof text === "string" && text.length === 24)) {
      refuse("invalid object id: length", 10448);
    }
    if (text !== undefined && !/^[0-9a-fA-F]{24}$/.test(text)) refuse("invalid object id: not hex", 10430);
    const hex = text === undefined ? native.objectId() : text.toLowerCase();
    defineProperty(self, "str", { value: hex });
    return mark(self, "objectId", hex);
  }, {
    toString() { return `ObjectId("${this.$value}")`; },
    tojson() { return this.toString(); },
    toJSON() { return { $oid: this.$value }; },
    valueOf() { return this.$value; },
    isObjectId: true,
    getTimestamp() { return new Date(parseInt(this.$value.slice(0, 8), 16) * 1000); },
    equals(other) { return other instanceof ObjectId && other.$value === this.$value; },
  });
  hidden(ObjectId, "fromDate", (date) => ObjectId(`${Math.trunc(date.getTime() / 1000).toString(16).padStart(8, "0")}0000000000000000`));

  const Timestamp = type("Timestamp", (self, ...args) => {
    if (args.length !== 0 && args.length !== 2) refuse("Timestamp needs 0 or 2 arguments");
    const part = (value, words) => {
      if (typeof value !== "number") refuse(`Timestamp ${words} must be a number`);
      if (value < 0 || value > 4294967295) {
        refuse(`Timestamp ${words} must be non-negative and not greater than 4294967295, got ${value}`);
      }
      return value >>> 0;
    };
    const [time, increment] = args.length === 0 ? [0, 0] : args;
    [self.t, self.i] = [part(time, "time (seconds)"), part(increment, "increment")];
    return mark(self, "timestamp");
  }, {
    getTime() { return this.t; },
    getInc() { return this.i; },
    toString() { return `Timestamp(${this.t}, ${this.i})`; },
    tojson() { return this.toString(); },
    toJSON() { return { $timestamp: { t: this.t, i: this.i } }; },
  });

  const BinData = type("BinData", (self, ...args) => {
    if (args.length !== 2) refuse("BinData takes 2 arguments -- BinData(subtype,data)");
    const [subtype, text] = args;
    if (typeof subtype !== "number" || subtype < 0 || subtype > 255) {
      refuse("BinData subtype must be a Number between 0 and 255 inclusive");
    }
    if (typeof text !== "string") refuse("BinData data must be a String");
    const len = native.lengthOfBase64(text);
    if (len === -1) refuse("invalid base64", 10270);
    if (len === -2) refuse("Invalid base64 character", 40537);
    defineProperty(self, "type", { value: subtype });
    defineProperty(self, "len", { value: len });
    return mark(self, "binary", text);
  }, {
    length() { return this.len; },
    subtype() { return this.type; },
    base64() { return this.$value; },
    hex() { return native.hexOfBase64(this.$value); },
    tojson() { return this.toString(); },
    toString() {
      if (this.type !== 4 || this.len !== 16) return `BinData(${this.type},"${this.$value}")`;
      return `UUID("${this.hex().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")}")`;
    },
    toJSON() { return { $binary: this.$value, $type: String(this.type).padStart(2, "0") }; },
  });
  const hex = (text) => {
    if (text.length % 2) refuse("BinData hex string must be an even length");
    const wrong = /[^0-9a-fA-F]/.exec(text);
    if (wrong) refuse(`The character \\x${wrong[0].charCodeAt(0).toString(16)} failed to parse from hex.`, 9);
    return native.base64OfHex(text);
  };
  global("HexData", (...args) => {
    if (args.length !== 2) refuse("HexData needs 2 arguments");
    return BinData(args[0], hex(String(args[1])));
  });
  global("UUID", (text) => {
    if (text === undefined) return BinData(4, native.base64OfHex(native.uuid()));
    if (/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/.test(text)) return BinData(4, hex(text.replace(/-/g, "")));
    if (/^[0-9a-fA-F]{32}$/.test(text)) return BinData(3, hex(text));
    return refuse(`Invalid UUID string: ${text}`, 207);
  });
  global("MD5", (text) => {
    if (typeof text !== "string" || text.length !== 32) refuse("MD5 string must have 32 characters");
    return BinData(5, hex(text));
  });

  const DBPointer = type("DBPointer", (self, ...args) => {
    if (args.length !== 2) refuse("DBPointer needs 2 arguments");
    const [ns, id] = args;
    if (typeof ns !== "string") refuse("DBPointer 1st parameter must be a string");
    if (!(id instanceof ObjectId)) refuse("DBPointer 2nd parameter must be an ObjectId");
    Object.assign(self, { ns, id });
    return mark(self, "dbPointer");
  }, {
    getNs() { return this.ns; },
    getId() { return this.id; },
    toString() { return `DBPointer("${this.ns}", ${tojson(this.id)})`; },
    tojson() { return this.toString(); },
  });
  const DBRef = type("DBRef", (self, ...args) => {
    if (args.length < 2 || args.length > 3) refuse("DBRef needs 2 or 3 arguments");
    const [ref, id, db] = args;
    if (typeof ref !== "string") refuse("DBRef 1st parameter must be a string");
    if (db !== undefined && typeof db !== "string") refuse("DBRef 3rd parameter must be a string");
    Object.assign(self, { $ref: ref, $id: id });
    if (db !== undefined) self.$db = db;
    return self;
  }, {
    getRef() { return this.$ref; },
    getCollection() { return this.$ref; },
    getId() { return this.$id; },
    getDb() { return this.$db; },
    toString() { return `DBRef("${this.$ref}", ${tojson(this.$id)}${this.$db === undefined ? "" : `, "${this.$db}"`})`; },
    tojson() { return this.toString(); },
  });
  // The constructor is the value.
  const key = (name) => {
    const self = { [name]: function () { return self; } }[name];
    mark(self, name === "MinKey" ? "minKey" : "maxKey");
    defineProperty(self, "name", { value: name });
    hidden(self, "constructor", self);
    hidden(self, "toString", () => `[object ${name}]`);
    hidden(self, "tojson", () => `{ "$${name[0].toLowerCase()}${name.slice(1)}" : 1 }`);
    hidden(self, "toJSON", () => ({ [`$${name[0].toLowerCase()}${name.slice(1)}`]: 1 }));
    global(name, self);
    return self;
  };
  const MinKey = key("MinKey"), MaxKey = key("MaxKey");
  const Code = type("Code", (self, code = "", scope) => {
    if (typeof code !== "string") refuse("code must be a string");
    if (scope !== undefined && (typeof scope !== "object" || scope === null)) refuse("scope must be an object");
    self.code = code;
    if (scope !== undefined) self.scope = scope;
    return mark(self, "code");
  }, {
    toString() { return `Code(${JSON.stringify(this)})`; },
  });

  global("ISODate", (text) => {
    if (text === undefined) return new Date();
    const form = /^(\d{4})-?(\d\d)-?(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d(?:\.\d+)?))?)?(Z|[+-]\d\d:?\d\d)?)?$/;
    const found = form.exec(text);
    if (!found) throw new HostError(`invalid ISO date: ${text}`);
    const [, year, month, day, hour = 0, minute = 0, second = 0, zone] = found;
    const whole = Math.trunc(second), part = Math.trunc(`${second}00`.slice(3, 6).padEnd(3, "0"));
    // Years before 100 mean others to Date.UTC: the calendar repeats itself every 400 years.
    const cycle = 146_097 * 86_400_000;
    let time = Date.UTC(+year + 400, month - 1, day, hour, minute, whole, part) - cycle;
    if (zone && zone !== "Z") {
      const sign = zone[0] === "-" ? 1 : -1;
      time += sign * (60 * zone.slice(1, 3) + Number(zone.slice(-2))) * 60_000;
    }
    return new Date(time);
  });

  // Text of values.
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const dateText = (date) => {
    if (Number.isNaN(date.getTime())) return String(date);
    const ms = date.getUTCMilliseconds();
    return `ISODate("${pad(date.getUTCFullYear(), 4)}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}T${
      pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}:${pad(date.getUTCSeconds())}${ms ? `.${pad(ms, 3)}` : ""}Z")`;
  };
  const list = (open, parts, close, indent, isOneLine) => {
    const [end, tab] = isOneLine ? [" ", ""] : ["\n", "\t"];
    return `${open}${end}${parts.map((part) => `${indent}${tab}${part}`).join(`,${end}`)}${end}${
      isOneLine ? "" : indent}${close}`;
  };
  const lines = (value, indent, isOneLine, depth) => {
    const within = isOneLine ? indent : `${indent}\t`;
    const inner = (part) => tojson(part, within, isOneLine, depth + 1);
    if (Array.isArray(value)) {
      return value.length === 0 ? "[ ]" : list("[", value.map(inner), "]", isOneLine ? "" : indent, isOneLine);
    }
    const parts = [];
    for (const key in value) parts.push(`${JSON.stringify(key)} : ${inner(value[key])}`);
    if (parts.length === 0) return isOneLine && indent ? "{   }" : "{ }";
    return list("{", parts, "}", indent, isOneLine);
  };
  function tojson(value, indent = "", isOneLine = undefined, depth = 0) {
    if (value === null) return "null";
    switch (typeof value) {
      case "string": return JSON.stringify(value);
      case "number": case "boolean": case "undefined": return String(value);
      case "bigint": case "symbol": throw new Error(`tojson can't handle type ${typeof value}`);
      case "function": return value[kind] ? value.tojson() : value.toString();
    }
    if (depth > 150) return "{ ... }";
    if (value instanceof Date) return dateText(value);
    if (value instanceof RegExp || value instanceof Error) return value.toString();
    const own = value.tojson;
    if (typeof own === "function" && !Array.isArray(value)) return value.tojson(indent, isOneLine, depth);
    const text = lines(value, indent, isOneLine, depth);
    const isShort = isOneLine !== false && text.length < 80 && indent.length === 0;
    return isShort ? text.replace(/[\t\r\n]+/g, " ") : text;
  }
  global("tojson", tojson);
  global("tojsononeline", (value) => tojson(value, " ", true));
  global("tojsonObject", tojson);
  hidden(Date.prototype, "tojson", function () { return dateText(this); });
  hidden(RegExp.prototype, "tojson", RegExp.prototype.toString);
  hidden(RegExp.prototype, "toJSON", function () { return { $regex: this.source, $options: this.flags }; });
  hidden(Array, "tojson", (array, indent = "", isOneLine = false) => lines(array, indent, isOneLine, 0));
  global("print", (...parts) => native.print(parts.map(String).join(" ")));
  global("printjson", (value) => native.print(tojson(value)));
  global("printjsononeline", (value) => native.print(tojson(value, " ", true)));

  global("isNumber", (value) => typeof value === "number");
  global("isString", (value) => typeof value === "string");
  global("isObject", (value) => typeof value === "object");
  global("isFunction", (value) => typeof value === "function");
  global("hex_md5", (...args) => {
    if (args.length !== 1 || typeof args[0] !== "string") refuse("hex_md5 takes a single string argument -- hex_md5(string)", 10261);
    return native.md5(args[0]);
  });
  global("sleep", (...args) => {
    if (args.length !== 1 || typeof args[0] !== "number") {
      refuse("sleep takes a single numeric argument -- sleep(milliseconds)", 16259);
    }
    native.sleep(args[0]);
  });
  global("version", () => native.version());
  global("gc", () => {});

  // Helpers on arrays, numbers and texts.
  hidden(Array, "contains", (array, value) => {
    needsArray(array, "contains");
    return array.some((own) => own == value);
  });
  hidden(Array, "unique", (array) => array.filter((value, at) => array.findIndex((own) => own == value) === at));
  const needsArray = (array, name) => {
    if (!Array.isArray(array)) throw new Error(`The first argument to Array.${name} must be an array`);
  };
  hidden(Array, "sum", (array) => {
    needsArray(array, "sum");
    return array.length === 0 ? null : array.slice(1).reduce((sum, value) => sum + value, array[0]);
  });
  hidden(Array, "avg", (array) => {
    needsArray(array, "avg");
    return array.length === 0 ? null : Array.sum(array) / array.length;
  });
  hidden(Array, "stdDev", (array) => {
    needsArray(array, "stdDev");
    const mean = Array.avg(array);
    return Math.sqrt(array.reduce((sum, value) => sum + (value - mean) ** 2, 0) / array.length);
  });
  hidden(Object, "extend", (target, source) => Object.assign(target, source));
  hidden(Object, "merge", (target, source) => Object.assign({}, target, source));
  hidden(Object, "keySet", (object) => Object.keys(object));
  hidden(Array, "shuffle", (array) => {
    for (let at = array.length - 1; at > 0; at--) {
      const other = Math.floor(Math.random() * (at + 1));
      [array[at], array[other]] = [array[other], array[at]];
    }
    return array;
  });
  hidden(Number.prototype, "toPercentStr", function () { return `${(this * 100).toFixed(2)}%`; });
  hidden(Number.prototype, "zeroPad", function (width) { return pad(this, width); });
  hidden(String.prototype, "ltrim", String.prototype.trimStart);
  hidden(String.prototype, "rtrim", String.prototype.trimEnd);
  hidden(String.prototype, "pad", function (width, right, filler = " ") {
    return right ? this.padEnd(width, filler) : this.padStart(width, filler);
  });
  hidden(RegExp, "escape", (text) => text.replace(/[-[\]{}()*+?.,\\^$|#\s]/g, "\\$&"));

  // What searches a text in another compares all of it at each place, and cannot be interrupted: long ones are searched
  // in parts. What to do with a long text that is found is not worth an algorithm of its own.
  const COMPARISONS_MAX = 1e8;
  const { indexOf, slice } = String.prototype;
  const place = (text, wanted, from = 0) => {
    const step = Math.ceil(COMPARISONS_MAX / wanted.length);
    for (let at = from; at + wanted.length <= text.length; at += step) {
      const found = apply(indexOf, apply(slice, text, [at, at + step + wanted.length - 1]), [wanted]);
      if (found >= 0) return at + found;
      native.sleep(0);
    }
    return -1;
  };
  const isShort = (text, wanted) => text.length * wanted.length <= COMPARISONS_MAX;
  const searching = (name, symbol, unfound) => {
    const original = String.prototype[name];
    hidden(String.prototype, name, { [name](wanted, ...rest) {
      if (this === null || this === undefined) return apply(original, this, [wanted, ...rest]);
      if (symbol && typeof wanted === "object" && wanted !== null) {
        const method = wanted[symbol];
        if (method !== undefined && method !== null) {
          if (name === "replaceAll" && wanted instanceof HostRegExp && !wanted.global) {
            throw new HostTypeError("replaceAll must be called with a global RegExp");
          }
          return apply(method, wanted, [this, ...rest]);
        }
      }
      if (name === "includes" && wanted instanceof HostRegExp) throw new HostTypeError("a regular expression is no text");
      if (wanted === undefined && name === "split") return [`${this}`];
      const text = typeof this === "string" ? this : `${this}`;
      const needle = typeof wanted === "string" ? wanted : `${wanted}`;
      if (isShort(text, needle)) return apply(original, text, [needle, ...rest]);
      const found = place(text, needle);
      if (found < 0) return unfound(text);
      if (name === "includes") return true;
      if (name === "indexOf") return place(text, needle, Math.max(0, Math.trunc(rest[0]) || 0));
      throw new HostRangeError(`${name} of so long texts`);
    } }[name]);
  };
  searching("indexOf", null, () => -1);
  searching("lastIndexOf", null, () => -1);
  searching("includes", null, () => false);
  searching("split", Symbol.split, (text) => [text]);
  searching("replace", Symbol.replace, (text) => text);
  searching("replaceAll", Symbol.replace, (text) => text);

  // Built-in functions of arrays go through all elements, also of arrays that have none, and cannot be interrupted.
  const LENGTH_MAX = 2 ** 24;
  const refuseLong = (value) => {
    if (typeof value === "object" && value !== null && value.length > LENGTH_MAX) {
      throw new HostRangeError("an array of so many elements");
    }
  };
  const LONG = ["reverse", "join", "sort", "concat", "flat", "copyWithin", "shift", "unshift", "splice", "fill",
    "toSorted", "toReversed", "toSpliced", "with"];
  for (const name of LONG) {
    const original = Array.prototype[name];
    hidden(Array.prototype, name, { [name](...args) {
      refuseLong(this);
      for (let at = 0; name === "concat" && at < args.length; at++) refuseLong(args[at]);
      return apply(original, this, args);
    } }[name]);
  }

  // Thousands of calls of such a function may lie between two looks at the clock.
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  for (const name of ["fill", "set", "copyWithin", "indexOf", "lastIndexOf", "includes", "reverse", "sort", "join", "slice"]) {
    const original = typed[name];
    hidden(typed, name, { [name](...args) {
      if (this.length > 1e5) native.sleep(0);
      return apply(original, this, args);
    } }[name]);
  }
  const { raw } = String;
  hidden(String, "raw", (strings, ...args) => {
    if (strings) refuseLong(strings.raw);
    return apply(raw, String, [strings, ...args]);
  });

  const made = {
    kind,
    original,
    refuse,
    from: (object, number) => defineProperty(object, original, { value: number }),
    wellFormed: (text) => apply(toWellFormed, text, []),
    sourceOf: (object) => apply(functionText, object, []),
    timeOf: (date) => apply(getTime, date, []),
    reference: () => create(DBRef.prototype),
    long: (value) => NumberLong(value),
    decimal: (text) => NumberDecimal(text),
    objectId: (hex) => ObjectId(hex),
    timestamp: (time, increment) => Timestamp(time, increment),
    binary: (subtype, text) => BinData(subtype, text),
    dbPointer: (ns, id) => DBPointer(ns, ObjectId(id)),
    minKey: () => MinKey,
    maxKey: () => MaxKey,
    code: (code, scope) => Code(code, scope),
    date: (time) => new HostDate(time),
    regex: (source, flags) => new HostRegExp(source, flags),
    // `emit` of mapReduce.
    allowEmit: () => global("emit", (...args) => {
      if (args.length !== 2) refuse("emit takes 2 args", 31220);
      native.emit(made, args[0], args[1]);
    }),
  };
  for (const name of ["Atomics", "SharedArrayBuffer"]) delete globalThis[name];
  return made;
}
