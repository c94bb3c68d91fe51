//! Documents out of bytes: every byte string is some document, so that mutation of bytes is
//! mutation of structure.

use bson::oid::ObjectId;
use bson::raw::{CString, cstr};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, doc};

/// Nesting deeper than this becomes a scalar.
const LEVELS_MAX: usize = 6;

const FIELDS: &[&str] = &[
    "a",
    "b",
    "a.b",
    "a.0",
    "a.b.c",
    "_id",
    "",
    "x.y.z",
    "a.$",
    "$a",
    "type",
    "coordinates",
];

/// Every operator a filter, update or expression may hold; the parsers must refuse the rest.
const OPERATORS: &[&str] = &[
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$and",
    "$or",
    "$nor",
    "$not",
    "$exists",
    "$type",
    "$regex",
    "$options",
    "$mod",
    "$size",
    "$all",
    "$elemMatch",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$expr",
    "$jsonSchema",
    "$geoWithin",
    "$geoIntersects",
    "$geometry",
    "$box",
    "$center",
    "$centerSphere",
    "$polygon",
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$push",
    "$pull",
    "$pop",
    "$addToSet",
    "$pullAll",
    "$bit",
    "$each",
    "$slice",
    "$sort",
    "$position",
    "$setOnInsert",
    "$currentDate",
    "$add",
    "$subtract",
    "$divide",
    "$concat",
    "$cond",
    "$dateTrunc",
    "$let",
    "$map",
    "$foo",
    "properties",
    "bsonType",
    "required",
    "items",
    "minimum",
    "enum",
    "pattern",
];
const STRINGS: &[&str] = &[
    "",
    "a",
    "abc",
    "^a",
    "(",
    "[a-z]+$",
    "int",
    "string",
    "Point",
    "Polygon",
    "LineString",
    "day",
    "$a",
    "$$ROOT",
    "$$x",
    "Europe/Paris",
    "or",
    "and",
    "object",
    "ä\u{0}b",
];

/// Consumes bytes one choice at a time; zeros when there are none left.
pub struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        let mut eight = [0; 8];
        eight.fill_with(|| self.byte());
        u64::from_le_bytes(eight)
    }

    fn choose<'t>(&mut self, table: &[&'t str]) -> &'t str {
        table[usize::from(self.byte()) % table.len()]
    }

    /// A document whose names are fields and operators.
    pub fn document(&mut self) -> Document {
        self.document_at(0)
    }

    fn document_at(&mut self, level: usize) -> Document {
        let mut document = Document::new();
        for _ in 0..self.byte() % 4 {
            let name = if self.byte().is_multiple_of(2) {
                self.choose(OPERATORS)
            } else {
                self.choose(FIELDS)
            };
            document.insert(name, self.value_at(level + 1));
        }
        document
    }

    /// How many of something: from none over the limits that MongoDB has to a hundred times as many.
    pub fn length(&mut self) -> usize {
        let near = [0, 1, 2, 99, 179, 198, 255, 999, 1000, 2000, 5000, 20_000];
        near[usize::from(self.byte()) % near.len()] + usize::from(self.byte() % 4)
    }

    /// A name of one or many parts.
    pub fn deep_name(&mut self) -> String {
        if self.byte().is_multiple_of(3) {
            return self.choose(OPERATORS).to_owned();
        }
        let part = self.choose(&["a", "b", "0", "$", "$[]", "abc"]);
        let parts = self.length().max(1);
        vec![part; parts].join(".")
    }

    /// A value inside of many others of one kind, or a loop that makes such a one.
    pub fn deep_value(&mut self) -> Bson {
        const LEVELS_MAX: usize = 230;
        let levels = self.length().min(LEVELS_MAX);
        let mut value = match self.byte() % 4 {
            0 => Bson::String(format!("${}", self.deep_name())),
            1 => self.value(),
            2 => self.loop_value(),
            _ => doc! {self.deep_name(): 1}.into(),
        };
        let name = self.choose(OPERATORS);
        let kind = self.byte() % 6;
        for _ in 0..levels {
            value = match kind {
                0 => Bson::Array(vec![value]),
                1 => doc! {"a": value}.into(),
                2 => doc! {name: [value]}.into(),
                3 => doc! {name: value}.into(),
                4 => doc! {"$let": {"vars": {"v": value}, "in": [["$$v"]]}}.into(),
                _ => doc! {"properties": {"a": value}}.into(),
            };
        }
        value
    }

    fn loop_value(&mut self) -> Bson {
        let times = i32::try_from(self.length()).unwrap_or(i32::MAX);
        let body = match self.byte() % 3 {
            0 => Bson::Array(vec!["$$value".into()]),
            1 => doc! {"a": "$$value"}.into(),
            _ => Bson::Array(vec![doc! {"a": ["$$value", 1]}.into()]),
        };
        let reduce = doc! {"$reduce": {
            "input": {"$range": [0, times]}, "initialValue": "$a", "in": body,
        }};
        match self.byte() % 3 {
            0 => reduce.into(),
            1 => doc! {"$size": reduce}.into(),
            _ => doc! {"$eq": [reduce.clone(), reduce]}.into(),
        }
    }

    /// A value of any type.
    pub fn value(&mut self) -> Bson {
        self.value_at(0)
    }

    fn value_at(&mut self, level: usize) -> Bson {
        match self.byte() % 24 {
            0 => Bson::Null,
            1 => Bson::Boolean(self.byte().is_multiple_of(2)),
            2 => Bson::Int32(i32::from(self.byte()) - 5),
            3 => Bson::Int32(self.number() as i32),
            4 => Bson::Int64(self.number() as i64),
            5 => Bson::Double(f64::from_bits(self.number())),
            6 => Bson::Double((f64::from(self.byte()) - 100.0) / 4.0),
            7 => Bson::String(self.choose(STRINGS).to_owned()),
            8 => Bson::DateTime(DateTime::from_millis(self.number() as i64)),
            9 => Bson::ObjectId(ObjectId::from_bytes([self.byte(); 12])),
            10 => self.binary(),
            11 => Bson::Timestamp(Timestamp {
                time: self.number() as u32,
                increment: 1,
            }),
            12 => self.regex(),
            13 => self.decimal(),
            14 => Bson::MinKey,
            15 => Bson::MaxKey,
            16 => Bson::Undefined,
            17 => Bson::Symbol(self.choose(STRINGS).to_owned()),
            18 => self.geometry(),
            19 | 20 if level < LEVELS_MAX => Bson::Array(
                (0..self.byte() % 4)
                    .map(|_| self.value_at(level + 1))
                    .collect(),
            ),
            21.. if level < LEVELS_MAX => Bson::Document(self.document_at(level)),
            _ => Bson::Int32(1),
        }
    }

    fn binary(&mut self) -> Bson {
        let bytes = vec![self.byte(); usize::from(self.byte() % 20)];
        Bson::Binary(Binary {
            subtype: BinarySubtype::from(self.byte()),
            bytes,
        })
    }

    fn regex(&mut self) -> Bson {
        let pattern = self.choose(STRINGS).replace('\0', "");
        match CString::try_from(pattern) {
            Ok(pattern) => Bson::RegularExpression(Regex {
                pattern,
                options: cstr!("i").to_owned(),
            }),
            Err(_) => Bson::Null,
        }
    }

    /// Any 128 bits are some decimal; small ones are likelier to meet their equals.
    fn decimal(&mut self) -> Bson {
        if self.byte().is_multiple_of(2) {
            let text = format!(
                "{}E{}",
                i32::from(self.byte()) - 9,
                i32::from(self.byte() % 9) - 4
            );
            return text.parse().map_or(Bson::Null, Bson::Decimal128);
        }
        let mut bytes = [0; 16];
        bytes.fill_with(|| self.byte());
        Bson::Decimal128(Decimal128::from_bytes(bytes))
    }

    fn coordinate(&mut self) -> f64 {
        f64::from(self.byte()) * 2.0 - 250.0
    }

    /// Something like GeoJSON: rings close more often than chance would have it.
    fn geometry(&mut self) -> Bson {
        let mut ring: Vec<Bson> = (0..self.byte() % 7)
            .map(|_| {
                Bson::Array(vec![
                    self.coordinate().into(),
                    (self.coordinate() / 3.0).into(),
                ])
            })
            .collect();
        if let Some(first) = ring.first().cloned() {
            ring.push(first);
        }
        match self.byte() % 4 {
            0 => {
                doc! {"type": "Point", "coordinates": [self.coordinate(), self.coordinate()]}.into()
            }
            1 => doc! {"type": "LineString", "coordinates": ring}.into(),
            2 => doc! {"$geometry": {"type": "Polygon", "coordinates": [ring]}}.into(),
            _ => doc! {"type": "Polygon", "coordinates": [ring]}.into(),
        }
    }
}
