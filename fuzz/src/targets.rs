//! The targets, by name.

use crate::source::Source;
use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use meridian_engine::STACK_BYTES;
use meridian_engine::aggregate::{Limits, Pipeline, run as run_stages};
use meridian_engine::expression::{VariableScope, Variables};
use meridian_engine::query::{Filter, Projection, Sort};
use meridian_engine::update::{ApplyMode, Update};
use meridian_value::key::{Direction, TypeBits, TypeBitsReader, decode, encode, skip, transcode};
use meridian_value::{compare, compare_documents, with_raw};
use meridian_wire::{
    Compressor, Frame, HEADER_BYTES, Header, OpCode, ReplyFrame, Request, check_document,
};
use std::cmp::Ordering;

/// A function that must survive any bytes, and examples worth mutating.
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs that reach deep; empty where random bytes do.
    pub examples: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "frame",
        run: frame,
        examples: frame_examples,
    },
    Target {
        name: "bson",
        run: document,
        examples: document_examples,
    },
    Target {
        name: "key",
        run: key,
        examples: none,
    },
    Target {
        name: "corrupt-key",
        run: corrupt_key,
        examples: key_examples,
    },
    Target {
        name: "filter",
        run: filter,
        examples: none,
    },
    Target {
        name: "pipeline",
        run: pipeline,
        examples: none,
    },
    Target {
        name: "deep",
        run: deep,
        examples: none,
    },
];

fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

fn raw(document: &bson::Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document of plain values has bytes")
}

// -- frames

/// A frame is refused or read; what is read lies inside it.
fn frame(input: &[u8]) {
    let Ok(header) = Header::parse(input) else {
        return;
    };
    let Some(bytes) = input.get(..header.length) else {
        return;
    };
    if header.op_code != OpCode::Compressed {
        return request(Frame { header, bytes });
    }
    let mut inside = Vec::new();
    if let Ok((_, header)) = Compressor::decompress(Frame { header, bytes }, &mut inside) {
        assert_eq!(
            inside.len(),
            header.length,
            "the announced size is what came out"
        );
        request(Frame {
            header,
            bytes: &inside,
        });
    }
}

fn request(frame: Frame<'_>) {
    let mut rewritten = Vec::new();
    match frame.parse(&mut rewritten) {
        Ok(Request::Message(message)) => {
            walk(message.body);
            comes_back(message.body);
            for sequence in &message.sequences {
                for document in sequence.documents() {
                    walk(document);
                }
            }
        }
        Ok(Request::Query(_)) | Err(_) => {}
    }
}

/// What is sent in a reply would be received as the same, whatever its strings are.
fn comes_back(body: &RawDocument) {
    let mut out = Vec::new();
    let reply = ReplyFrame::begin_message(&mut out);
    out.extend_from_slice(body.as_bytes());
    let sent = reply.finish(&mut out, 1, 0, None);
    sent.expect("nothing is compressed");
    let header = Header::parse(&out).expect("a reply has a header");
    let mut rewritten = Vec::new();
    let frame = Frame {
        header,
        bytes: &out,
    };
    match frame.parse(&mut rewritten) {
        Ok(Request::Message(message)) => assert_eq!(message.body.as_bytes(), body.as_bytes()),
        other => panic!("{other:?}"),
    }
}

/// Every element of a checked document can be read.
fn walk(document: &RawDocument) {
    for element in document {
        let (_, value) = element.expect("a checked document has readable elements");
        if let bson::RawBsonRef::Document(inner) = value {
            walk(inner);
        }
    }
}

fn frame_examples() -> Vec<Vec<u8>> {
    let command = raw(&doc! {"find": "c", "filter": {"a": {"$gt": 1}}, "$db": "d"});
    let mut message = vec![0; 5];
    message.extend_from_slice(command.as_bytes());
    let mut sequence = message.clone();
    sequence.push(1);
    let document = raw(&doc! {"_id": 1});
    let size = 4 + 10 + document.as_bytes().len() as i32;
    sequence.extend_from_slice(&size.to_le_bytes());
    sequence.extend_from_slice(b"documents\0");
    sequence.extend_from_slice(document.as_bytes());
    let mut compressed = 2013_i32.to_le_bytes().to_vec();
    compressed.extend_from_slice(&(message.len() as i32).to_le_bytes());
    compressed.push(0);
    compressed.extend_from_slice(&message);
    // The find's collection and the field of its filter, not in UTF-8.
    let text = message.iter().map(|&byte| match byte {
        b'c' => 0xff,
        b'a' => 0xf4,
        byte => byte,
    });
    let text: Vec<u8> = text.collect();
    vec![
        framed(2013, &text),
        framed(2013, &message),
        framed(2013, &sequence),
        framed(2012, &compressed),
    ]
}

fn framed(op_code: i32, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + body.len()) as i32;
    let mut bytes: Vec<u8> = [length, 1, 0, op_code]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    bytes.extend_from_slice(body);
    bytes
}

// -- BSON

/// A document that is accepted can be read to its end, and compares equal to itself.
fn document(input: &[u8]) {
    let Ok(document) = check_document(input) else {
        return;
    };
    walk(document);
    assert_eq!(compare_documents(document, document), Ordering::Equal);
    let path = meridian_value::path::Path::parse("a.b.0");
    let _ = meridian_value::path::get(document, &path);
}

fn document_examples() -> Vec<Vec<u8>> {
    let mut examples: Vec<Vec<u8>> = (0..=255_u8)
        .map(|seed| {
            let bytes: Vec<u8> = (0..200_u8)
                .map(|at| at.wrapping_mul(seed).wrapping_add(seed ^ at))
                .collect();
            raw(&Source::new(&bytes).document()).into_bytes()
        })
        .collect();
    examples.push(raw(&doc! {"a": {"b": [1, "x", null]}, "c": 1.5}).into_bytes());
    examples
}

// -- key encoding

/// Keys order as values do, and give the values back exactly.
fn key(input: &[u8]) {
    let mut source = Source::new(input);
    let direction = if source.byte().is_multiple_of(2) {
        Direction::Ascending
    } else {
        Direction::Descending
    };
    let (left, right) = (source.value(), source.value());
    let (left_key, left_types) = encoded(&left, direction);
    let (right_key, right_types) = encoded(&right, direction);
    let expected = with_both(&left, &right, compare);
    let expected = if direction == Direction::Ascending {
        expected
    } else {
        expected.reverse()
    };
    assert_eq!(left_key.cmp(&right_key), expected, "{left:?} and {right:?}");
    gives_back(&left, &left_key, &left_types, direction);
    gives_back(&right, &right_key, &right_types, direction);
}

fn encoded(value: &Bson, direction: Direction) -> (Vec<u8>, TypeBits) {
    let (mut key, mut types) = (Vec::new(), TypeBits::new());
    with_raw(value, |value| {
        encode(value, direction, &mut key, &mut types)
    });
    (key, types)
}

fn with_both<R>(
    left: &Bson,
    right: &Bson,
    ask: impl FnOnce(bson::RawBsonRef<'_>, bson::RawBsonRef<'_>) -> R,
) -> R {
    with_raw(left, |a| with_raw(right, |b| ask(a, b)))
}

fn gives_back(value: &Bson, key: &[u8], types: &TypeBits, direction: Direction) {
    assert_eq!(skip(key, direction), Some(key.len()), "{value:?}");
    let mut reader = TypeBitsReader::from_bytes(types.as_bytes());
    let (back, length) =
        decode(key, direction, &mut reader).expect("what was encoded can be decoded");
    assert_eq!(length, key.len(), "{value:?}");
    let bytes = |value: Bson| raw(&doc! {"v": value}).into_bytes();
    let expected = bytes(value.clone());
    assert_eq!(bytes(back), expected, "{value:?}");
    let (mut reader, mut written) = (TypeBitsReader::from_bytes(types.as_bytes()), Vec::new());
    let (kind, _) = transcode(key, direction, &mut reader, &mut written)
        .expect("what was encoded can be written out");
    // Around the value: the length, its type and its name, and the document's end.
    assert_eq!(kind as u8, expected[4], "{value:?}");
    assert_eq!(written, expected[7..expected.len() - 1], "{value:?}");
}

/// Bytes from a damaged disk are refused, not trusted.
fn corrupt_key(input: &[u8]) {
    for direction in [Direction::Ascending, Direction::Descending] {
        if let Some(length) = skip(input, direction) {
            assert!(length <= input.len());
        }
        let types = || TypeBitsReader::from_bytes(input.get(1..).unwrap_or_default());
        let _ = decode(input, direction, &mut types());
        let _ = transcode(input, direction, &mut types(), &mut Vec::new());
    }
}

fn key_examples() -> Vec<Vec<u8>> {
    let values = [
        Bson::Int32(5),
        Bson::Double(-1.5),
        Bson::String("abc\0d".into()),
        Bson::Document(doc! {"a": [1, {"b": "x"}]}),
        Bson::Array(vec![Bson::Null, Bson::Int64(1 << 40)]),
    ];
    values
        .iter()
        .map(|value| encoded(value, Direction::Ascending).0)
        .collect()
}

// -- meaning

/// Any document is a filter or a refusal; a filter answers for any document.
fn filter(input: &[u8]) {
    let mut source = Source::new(input);
    let condition = raw(&source.document());
    let Ok(filter) = Filter::parse(&condition) else {
        return;
    };
    for _ in 0..3 {
        let document = raw(&source.document());
        let first = filter.matches(&document);
        let again = filter.matches(&document);
        assert_eq!(
            first.as_ref().ok(),
            again.as_ref().ok(),
            "the same question, the same answer"
        );
    }
}

/// Any list of stages is a pipeline or a refusal.
fn pipeline(input: &[u8]) {
    let mut source = Source::new(input);
    let stages: Vec<RawDocumentBuf> = (0..1 + source.byte() % 2)
        .map(|_| {
            let name = STAGES[usize::from(source.byte()) % STAGES.len()];
            raw(&doc! {name: source.value()})
        })
        .collect();
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    let _ = Pipeline::parse(&stages);
}

const STAGES: &[&str] = &[
    "$match",
    "$project",
    "$set",
    "$unset",
    "$group",
    "$sort",
    "$limit",
    "$skip",
    "$count",
    "$unwind",
    "$replaceRoot",
    "$sample",
    "$out",
    "$merge",
];

// -- depth and length

/// What is deep or long is refused or done, on the stack that a statement has; nothing ends the process.
fn deep(input: &[u8]) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || try_deep(input));
        let outcome = thread.expect("a thread can be started").join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn try_deep(input: &[u8]) {
    let mut source = Source::new(input);
    let kind = source.byte();
    let asked = raw(&doc! {source.deep_name(): source.deep_value()});
    let stored = raw(&doc! {"_id": 1, "a": source.deep_value(), "b": source.deep_value()});
    // What is deeper than a message may be never gets further.
    if check_document(asked.as_bytes()).is_err() || check_document(stored.as_bytes()).is_err() {
        return;
    }
    let _ = compare_documents(&asked, &stored);
    match kind % 6 {
        0 => {
            let _ = Filter::parse(&asked).map(|filter| filter.matches(&stored));
        }
        1 => {
            let _ = Projection::parse(&asked, None).map(|kept| kept.apply(&stored, None));
        }
        2 => {
            let _ = Sort::parse(&asked);
        }
        3 => update(
            ["$set", "$unset", "$push", "$rename"],
            &mut source,
            &asked,
            &stored,
        ),
        4 => stages(
            &[&raw(&doc! {"$match": asked_document(&asked)})],
            1,
            &stored,
        ),
        _ => {
            let name = ["$set", "$project", "$replaceWith", "$unwind", "$group"];
            let name = name[usize::from(source.byte()) % name.len()];
            let operand = match name {
                "$unwind" => Bson::String("$b".into()),
                "$replaceWith" => doc! {"a": asked_document(&asked), "b": "$$ROOT"}.into(),
                "$group" => doc! {"_id": asked_document(&asked), "a": {"$push": "$$ROOT"}}.into(),
                _ => asked_document(&asked).into(),
            };
            let times = source.length();
            stages(&[&raw(&doc! {name: operand})], times, &stored);
        }
    }
}

fn asked_document(asked: &RawDocument) -> bson::Document {
    asked.try_into().expect("a checked document has values")
}

fn update(names: [&str; 4], source: &mut Source<'_>, asked: &RawDocument, stored: &RawDocument) {
    let name = names[usize::from(source.byte()) % names.len()];
    let change = raw(&doc! {name: asked_document(asked)});
    let parsed = Update::parse(
        RawBsonRef::Document(&change),
        &[],
        &VariableScope::default(),
    );
    let _ = parsed.map(|update| update.apply(stored, None, ApplyMode::Update));
}

/// The stages so many times over, on one document.
fn stages(once: &[&RawDocument], times: usize, stored: &RawDocument) {
    let all: Vec<&RawDocument> = once.iter().copied().cycle().take(times).collect();
    let Ok(pipeline) = Pipeline::parse(&all) else {
        return;
    };
    let input = std::iter::once(Ok(stored.to_owned()));
    let rows = run_stages(
        &pipeline.stages,
        input,
        Variables::default(),
        &Limits::new(false),
    );
    // An array unwound over and over may make many documents.
    for row in rows.into_iter().flatten().take(100).flatten() {
        assert!(
            check_document(row.as_bytes()).is_ok(),
            "what comes out can be sent"
        );
    }
}
