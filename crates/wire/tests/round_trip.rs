//! Frames from the outside: what was written is what is read, and noise is refused.
#![allow(clippy::unwrap_used)]

use bson::raw::cstr;
use bson::{RawDocumentBuf, rawdoc};
use meridian_wire::{
    BrokenFrame, Compressor, DocumentWriter, Frame, Header, MESSAGE_BYTES_MAX, ReplyFrame, Request,
    RequestError,
};
use proptest::prelude::*;

fn regex() -> bson::Regex {
    bson::Regex {
        pattern: cstr!("a").into(),
        options: cstr!("i").into(),
    }
}

fn frame(op_code: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 16).expect("small");
    let mut bytes: Vec<u8> = [length, 9, 0, op_code]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    bytes.extend_from_slice(body);
    bytes
}

fn parse(bytes: &[u8]) -> Result<Request<'_>, RequestError> {
    let header = Header::parse(bytes)?;
    let bytes = bytes
        .get(..header.length)
        .ok_or(BrokenFrame::Truncated("body"))?;
    // Never freed, since the request may borrow from it.
    let rewritten = Box::leak(Box::default());
    Frame { header, bytes }.parse(rewritten)
}

fn insert_body(flags: u32, documents: &[RawDocumentBuf]) -> Vec<u8> {
    let mut body = flags.to_le_bytes().to_vec();
    body.push(1);
    let size: usize = documents
        .iter()
        .map(|document| document.as_bytes().len())
        .sum();
    body.extend_from_slice(&i32::try_from(size + 14).expect("small").to_le_bytes());
    body.extend_from_slice(b"documents\0");
    for document in documents {
        body.extend_from_slice(document.as_bytes());
    }
    body.push(0);
    body.extend_from_slice(rawdoc! { "insert": "places", "$db": "test" }.as_bytes());
    body
}

#[test]
fn a_sequence_may_come_before_the_body() {
    let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    let bytes = frame(2013, &insert_body(2, &documents));
    let Ok(Request::Message(message)) = parse(&bytes) else {
        panic!("not a message")
    };
    assert!(message.more_to_come);
    assert_eq!(message.body.get_str("insert").ok(), Some("places"));
    let sequence = message.sequence("documents").expect("present");
    assert_eq!(sequence.count, 2);
    let ids: Vec<_> = sequence
        .documents()
        .map(|document| document.get_i32("_id").ok())
        .collect();
    assert_eq!(ids, [Some(1), Some(2)]);
}

#[test]
fn a_checksum_is_verified() {
    let mut bytes = frame(2013, &insert_body(1, &[rawdoc! { "_id": 1 }]));
    let length = i32::try_from(bytes.len() + 4).expect("small");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    assert!(parse(&bytes).is_ok());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(
        parse(&bytes),
        Err(RequestError::Frame(BrokenFrame::Checksum { .. }))
    ));
}

#[test]
fn structure_errors_break_the_frame_and_document_errors_do_not() {
    let body = rawdoc! { "ping": 1 };
    let section = |kind: u8| [&[0, 0, 0, 0, kind], body.as_bytes()].concat();
    assert!(parse(&frame(2013, &section(0))).is_ok());
    let broken = |body: &[u8]| match parse(&frame(2013, body)) {
        Err(RequestError::Frame(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(broken(&section(9)), BrokenFrame::SectionKind(9));
    assert_eq!(broken(&[0, 0, 0, 0]), BrokenFrame::Body);
    assert_eq!(broken(&[4, 0, 0, 0]), BrokenFrame::Flags(4));
    assert_eq!(
        broken(&[section(0), section(0)[4..].to_vec()].concat()),
        BrokenFrame::Body
    );

    let mut invalid = section(0);
    invalid[9] = 0x55;
    assert!(matches!(
        parse(&frame(2013, &invalid)),
        Err(RequestError::Document(_))
    ));
}

#[test]
fn the_optional_flags_are_ignored() {
    let body = [&[0, 0, 1, 0, 0], rawdoc! { "ping": 1 }.as_bytes()].concat();
    assert!(parse(&frame(2013, &body)).is_ok());
}

#[test]
fn a_legacy_query_gives_its_namespace_and_document() {
    let mut body = vec![0; 4];
    body.extend_from_slice(b"admin.$cmd\0");
    body.extend_from_slice(&[0, 0, 0, 0, 255, 255, 255, 255]);
    body.extend_from_slice(rawdoc! { "ismaster": 1 }.as_bytes());
    let bytes = frame(2004, &body);
    let Ok(Request::Query(query)) = parse(&bytes) else {
        panic!("not a query")
    };
    assert_eq!(query.namespace, "admin.$cmd");
    assert_eq!(query.document.get_i32("ismaster").ok(), Some(1));
}

#[test]
fn every_compressor_round_trips() {
    for compressor in [
        Compressor::Noop,
        Compressor::Snappy,
        Compressor::Zlib,
        Compressor::Zstd,
    ] {
        let mut bytes = Vec::new();
        let reply = ReplyFrame::begin_message(&mut bytes);
        DocumentWriter::new(&mut bytes).string("text", &"abc".repeat(1000));
        reply
            .finish(&mut bytes, 3, 4, Some(compressor))
            .expect("compresses");
        let header = Header::parse(&bytes).expect("a header");
        assert_eq!(
            (header.length, header.request_id, header.response_to),
            (bytes.len(), 3, 4)
        );
        let mut plain = Vec::new();
        let compressed = Frame {
            header,
            bytes: &bytes,
        };
        let (found, inner) = Compressor::decompress(compressed, &mut plain).expect("decompresses");
        assert_eq!(found, compressor);
        let mut rewritten = Vec::new();
        let parsed = Frame {
            header: inner,
            bytes: &plain,
        }
        .parse(&mut rewritten);
        let Ok(Request::Message(message)) = parsed else {
            panic!("not a message")
        };
        assert_eq!(message.body.get_str("text").ok().map(str::len), Some(3000));
    }
}

#[test]
fn a_decompression_bomb_is_refused_before_it_is_inflated() {
    let bomb = zstd::bulk::compress(&vec![0_u8; 1 << 20], 0).expect("compresses");
    let with_size = |size: i32| {
        let mut body = 2013_i32.to_le_bytes().to_vec();
        body.extend_from_slice(&size.to_le_bytes());
        body.push(3);
        body.extend_from_slice(&bomb);
        let bytes = frame(2012, &body);
        let header = Header::parse(&bytes).expect("a header");
        let mut out = Vec::new();
        let result = Compressor::decompress(
            Frame {
                header,
                bytes: &bytes,
            },
            &mut out,
        );
        assert!(
            out.len() < 200,
            "stopped early, not after {} bytes",
            out.len()
        );
        result.map(drop)
    };
    assert!(matches!(with_size(100), Err(BrokenFrame::Compressed(_))));
    let past = i32::try_from(MESSAGE_BYTES_MAX).expect("fits");
    assert_eq!(with_size(past), Err(BrokenFrame::Length(past)));
}

#[test]
fn the_writer_writes_what_the_library_writes() {
    let expected = rawdoc! {
        "a": 1, "b": 2_i64, "c": 1.5, "d": "text", "e": true,
        "f": { "g": [ { "h": 1 }, "x" ] },
        "regex": regex(),
        "timestamp": bson::Timestamp { time: 1, increment: 2 },
        "scope": bson::raw::RawJavaScriptCodeWithScope { code: "f".into(), scope: rawdoc! { "x": 1 } },
    };
    let mut bytes = Vec::new();
    let mut writer = DocumentWriter::new(&mut bytes);
    for element in &expected {
        let (key, value) = element.expect("valid");
        writer.value(key.as_str(), value);
    }
    drop(writer);
    assert_eq!(bytes, expected.as_bytes());
}

proptest! {
    #[test]
    fn noise_is_refused_without_a_panic(op in prop::sample::select(vec![2004, 2012, 2013]),
                                        body in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes = frame(op, &body);
        let header = Header::parse(&bytes).expect("a header");
        let _ = Compressor::decompress(Frame { header, bytes: &bytes }, &mut Vec::new());
        let _ = parse(&bytes);
    }

    #[test]
    fn one_wrong_byte_never_panics(position in 0_usize..120, value: u8) {
        let mut bytes = frame(2013, &insert_body(0, &[rawdoc! { "_id": 1, "a": { "b": [1, 2] } }]));
        let position = position % bytes.len();
        bytes[position] = value;
        if let Ok(Request::Message(message)) = parse(&bytes) {
            for sequence in &message.sequences {
                prop_assert_eq!(sequence.documents().count(), sequence.count);
            }
        }
    }

    #[test]
    fn sequences_of_any_length_round_trip(ids in prop::collection::vec(any::<i64>(), 0..50)) {
        let documents: Vec<_> = ids.iter().map(|id| rawdoc! { "_id": *id }).collect();
        let bytes = frame(2013, &insert_body(0, &documents));
        let Ok(Request::Message(message)) = parse(&bytes) else { panic!("not a message") };
        let sequence = message.sequence("documents").expect("present");
        let found: Vec<_> = sequence.documents().map(|d| d.get_i64("_id").expect("int64")).collect();
        prop_assert_eq!(found, ids);
    }
}
