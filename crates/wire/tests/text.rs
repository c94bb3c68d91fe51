//! Strings that are not valid UTF-8: inside they are, and what leaves is what came.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawBsonRef, RawDocument};
use meridian_wire::{
    BrokenFrame, Compressor, Frame, HEADER_BYTES, Header, InvalidKind, MESSAGE_BYTES_MAX,
    ReplyFrame, Request, RequestError, check_document,
};
use proptest::prelude::*;

const NAME: &[u8] = b"n\xff\xf4\x8f\xbf\xbf";
const TEXT: &[u8] = b"\xc3t\xf4\x8f\xbf\xbf\xc2\x80\xed\xa0\x80\0";

type Element = (u8, Vec<u8>, Vec<u8>);

fn number(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap().to_le_bytes()
}

fn string(text: &[u8]) -> Vec<u8> {
    [&number(text.len() + 1)[..], text, b"\0"].concat()
}

fn document(elements: &[Element]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for (kind, name, content) in elements {
        bytes.push(*kind);
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(content);
    }
    bytes.push(0);
    let length = number(bytes.len());
    bytes[..4].copy_from_slice(&length);
    bytes
}

fn scope(code: &[u8], scope: &[u8]) -> Vec<u8> {
    let code = string(code);
    let length = number(4 + code.len() + scope.len());
    [&length[..], &code, scope].concat()
}

fn every_kind() -> Vec<u8> {
    let pattern = [NAME, b"\0", NAME, b"\0"].concat();
    let pointer = [&string(TEXT)[..], &[7; 12]].concat();
    let inner = document(&[(0x02, NAME.to_vec(), string(TEXT))]);
    let list = document(&[(0x03, b"0".to_vec(), inner.clone())]);
    let binary = [&number(6)[..], &[0], b"\xff\xf4\x8f\xbf\xbf\xc3"].concat();
    let old = [&number(6)[..], &[2], &number(2), b"\xff\xff"].concat();
    let contents = [
        (0x01, vec![0xff; 8]),
        (0x02, string(TEXT)),
        (0x03, inner.clone()),
        (0x04, list),
        (0x05, binary),
        (0x05, old),
        (0x06, Vec::new()),
        (0x07, vec![0xff; 12]),
        (0x08, vec![1]),
        (0x09, vec![0xff; 8]),
        (0x0a, Vec::new()),
        (0x0b, pattern),
        (0x0c, pointer),
        (0x0d, string(TEXT)),
        (0x0e, string(TEXT)),
        (0x0f, scope(TEXT, &inner)),
        (0x10, vec![0xff; 4]),
        (0x11, vec![0xff; 8]),
        (0x12, vec![0xff; 8]),
        (0x13, vec![0xff; 16]),
        (0x7f, Vec::new()),
        (0xff, Vec::new()),
    ];
    let elements: Vec<Element> = contents
        .into_iter()
        .map(|(kind, content)| (kind, NAME.to_vec(), content))
        .collect();
    document(&elements)
}

fn frame(op_code: i32, body: &[u8]) -> Vec<u8> {
    let numbers = [number(body.len() + HEADER_BYTES), number(9), number(0)];
    [&numbers.concat(), &op_code.to_le_bytes()[..], body].concat()
}

fn message(body: &[u8], sequence: &[&[u8]]) -> Vec<u8> {
    let documents = sequence.concat();
    let length = number(documents.len() + 14);
    let sections = [&[0; 5], body, &[1], &length, b"documents\0", &documents].concat();
    frame(2013, &sections)
}

fn parse<'a>(bytes: &'a [u8], rewritten: &'a mut Vec<u8>) -> Result<Request<'a>, RequestError> {
    let header = Header::parse(bytes)?;
    Frame { header, bytes }.parse(rewritten)
}

/// The document that a client is sent for one that is in the form of the inside.
fn sent(inside: &RawDocument) -> Vec<u8> {
    let mut out = Vec::new();
    let reply = ReplyFrame::begin_message(&mut out);
    let start = reply.document_start();
    out.extend_from_slice(inside.as_bytes());
    reply.finish(&mut out, 1, 2, None).unwrap();
    assert_eq!(Header::parse(&out).unwrap().length, out.len());
    out.split_off(start)
}

fn assert_comes_and_goes(original: &[u8]) {
    let bytes = message(original, &[original, original]);
    let mut rewritten = Vec::new();
    let Ok(Request::Message(message)) = parse(&bytes, &mut rewritten) else {
        panic!("not a message")
    };
    let sequence = message.sequence("documents").unwrap();
    assert_eq!(sequence.documents().len(), 2);
    for inside in sequence.documents().chain([message.body]) {
        check_document(inside.as_bytes()).expect("valid UTF-8 inside");
        assert_eq!(sent(inside), original);
    }
}

#[test]
fn every_kind_of_text_comes_and_goes() {
    assert!(check_document(&every_kind()).is_err());
    assert_comes_and_goes(&every_kind());
}

#[test]
fn lengths_are_those_of_the_inside() {
    let original = document(&[(0x02, b"a\xff".to_vec(), string(b"b\xffc"))]);
    let bytes = message(&original, &[]);
    let mut rewritten = Vec::new();
    let Ok(Request::Message(message)) = parse(&bytes, &mut rewritten) else {
        panic!("not a message")
    };
    let inside = message.body.get("a\u{10ffff}\u{ff}").unwrap();
    assert_eq!(inside, Some(RawBsonRef::String("b\u{10ffff}\u{ff}c")));
    assert_eq!(message.body.as_bytes().len(), original.len() + 10);
}

#[test]
fn plain_messages_are_borrowed() {
    let plain = document(&[(0x02, b"a".to_vec(), string("é\u{10fffe}".as_bytes()))]);
    let bytes = message(&plain, &[&plain]);
    let mut rewritten = Vec::new();
    assert!(parse(&bytes, &mut rewritten).is_ok());
    assert_eq!(rewritten.capacity(), 0);
    assert_comes_and_goes(&plain);
}

#[test]
fn legacy_queries_and_checksums() {
    let original = every_kind();
    let body = [&[0; 4], &b"admin.$cmd\0"[..], &[0; 8], &original].concat();
    let bytes = frame(2004, &body);
    let mut rewritten = Vec::new();
    let Ok(Request::Query(query)) = parse(&bytes, &mut rewritten) else {
        panic!("not a query")
    };
    let mut out = Vec::new();
    let reply = ReplyFrame::begin_legacy(&mut out);
    let start = reply.document_start();
    out.extend_from_slice(query.document.as_bytes());
    reply.finish_with_checksum(&mut out, 1, 2);
    let end = out.len() - 4;
    assert_eq!(out[start..end], original);
    assert_eq!(out[end..], crc32c::crc32c(&out[..end]).to_le_bytes());
}

#[test]
fn compressed_replies_hold_the_original() {
    let original = every_kind();
    let bytes = message(&original, &[]);
    let mut rewritten = Vec::new();
    let Ok(Request::Message(message)) = parse(&bytes, &mut rewritten) else {
        panic!("not a message")
    };
    let mut out = Vec::new();
    let reply = ReplyFrame::begin_message(&mut out);
    let start = reply.document_start();
    out.extend_from_slice(message.body.as_bytes());
    reply
        .finish(&mut out, 1, 2, Some(Compressor::Zlib))
        .unwrap();
    let header = Header::parse(&out).unwrap();
    let mut plain = Vec::new();
    let compressed = Frame {
        header,
        bytes: &out,
    };
    Compressor::decompress(compressed, &mut plain).unwrap();
    assert_eq!(plain[start..], original);
}

#[test]
fn what_is_malformed_is_refused_as_before() {
    let refused = |body: &[u8]| match parse(&message(body, &[]), &mut Vec::new()) {
        Err(RequestError::Document(invalid)) => invalid,
        other => panic!("{other:?}"),
    };
    let mut wrong_kind = document(&[
        (0x02, b"a".to_vec(), string(b"\xff")),
        (0x10, b"b".to_vec(), vec![0; 4]),
    ]);
    let at = wrong_kind.iter().position(|&byte| byte == 0x10).unwrap();
    wrong_kind[at] = 0x55;
    assert_eq!(refused(&wrong_kind).kind, InvalidKind::Malformed);
    let wrong_end = document(&[(0x02, b"a".to_vec(), [&number(2)[..], b"\xffx"].concat())]);
    let invalid = refused(&wrong_end);
    assert_eq!(
        (invalid.kind, invalid.path.as_str()),
        (InvalidKind::Malformed, "a")
    );
    let deep = (0..202).fold(every_kind(), |inner, _| {
        document(&[(0x03, b"a".to_vec(), inner)])
    });
    assert_eq!(refused(&deep).kind, InvalidKind::TooDeep);
}

#[test]
fn a_sequence_has_a_name() {
    let mut bytes = message(&document(&[]), &[]);
    let at = bytes.windows(3).position(|part| part == b"doc").unwrap();
    bytes[at] = 0xff;
    let refused = parse(&bytes, &mut Vec::new()).map(drop);
    let expected = BrokenFrame::Utf8("sequence identifier");
    assert_eq!(refused, Err(RequestError::Frame(expected)));
}

#[test]
fn a_rewritten_message_is_at_most_as_long_as_a_message() {
    for (bytes_of_text, fits) in [(7_999_000, true), (8_001_000, false), (47_000_000, false)] {
        let text = vec![0xff; bytes_of_text];
        let part = document(&[(0x02, b"a".to_vec(), string(&text))]);
        let bytes = message(&document(&[]), &[&part]);
        let mut rewritten = Vec::new();
        match parse(&bytes, &mut rewritten) {
            Ok(_) => assert!(fits),
            Err(RequestError::Document(invalid)) => {
                assert_eq!((invalid.kind, fits), (InvalidKind::TooLarge, false));
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(
            rewritten.len() <= MESSAGE_BYTES_MAX + 6 * 3 + bytes_of_text * 6 * usize::from(fits)
        );
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"a",
        b"\xff",
        b"\xc3",
        b"\xf4",
        b"\x8f",
        b"\xbf",
        "\u{10ffff}".as_bytes(),
        "\u{ff}".as_bytes(),
    ];
    let piece = prop_oneof![
        prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    text().prop_map(|text| text.into_iter().filter(|&byte| byte != 0).collect())
}

fn value() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let leaf = prop_oneof![
        (prop::sample::select(vec![0x02, 0x0d, 0x0e]), text())
            .prop_map(|(kind, text)| (kind, string(&text))),
        (name(), name()).prop_map(|(a, b)| (0x0b, [&a[..], b"\0", &b, b"\0"].concat())),
        text().prop_map(|text| (0x05, [&number(text.len())[..], &[0], &text].concat())),
        any::<i32>().prop_map(|number| (0x10, number.to_le_bytes().to_vec())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let whole = prop::collection::vec((name(), inner), 0..4).prop_map(|fields| {
            let fields: Vec<Element> = fields
                .into_iter()
                .map(|(name, (kind, content))| (kind, name, content))
                .collect();
            document(&fields)
        });
        (0..3, whole, text()).prop_map(|(kind, whole, code)| match kind {
            0 => (0x03, whole),
            1 => (0x04, whole),
            _ => (0x0f, scope(&code, &whole)),
        })
    })
}

proptest! {
    #[test]
    fn any_document_comes_and_goes(name in name(), value in value()) {
        assert_comes_and_goes(&document(&[(value.0, name, value.1)]));
    }

    #[test]
    fn a_damaged_document_never_panics(position in 0_usize..400, byte: u8) {
        let mut damaged = every_kind();
        let position = position % damaged.len();
        damaged[position] = byte;
        let bytes = message(&damaged, &[]);
        let mut rewritten = Vec::new();
        if let Ok(Request::Message(message)) = parse(&bytes, &mut rewritten) {
            prop_assert_eq!(sent(message.body), damaged);
        }
    }
}
