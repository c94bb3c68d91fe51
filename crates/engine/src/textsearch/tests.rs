//! Text search beside mongod 6.0.5.
//!
//! The files of `testdata` were made from its answers: `characters`, `stems` and `queries` from the
//! `parsedTextQuery` that `explain` shows of `$text` (random texts, and words of word lists of each language);
//! `scores` from documents inserted into a collection with a text index: the count of keys that `validate` tells,
//! and `{$meta: "textScore"}` of searches as the bits of a double, or the error of the insert; `matches` from
//! searches of such collections with all options; `definitions` from createIndexes and listIndexes.

use super::*;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};
use meridian_value::number::Number;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn lines(file: &str) -> impl Iterator<Item = Value> {
    file.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn language(value: &Value) -> Language {
    Language::parse(text(value)).unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    list(value)
        .iter()
        .map(|item| text(item).to_owned())
        .collect()
}

fn document(value: &Value) -> RawDocumentBuf {
    let value = Bson::try_from(value.clone()).unwrap();
    RawDocumentBuf::try_from(value.as_document().unwrap()).unwrap()
}

fn sensitivity(value: &Value) -> Sensitivity {
    Sensitivity {
        case: value["case"] == true,
        diacritics: value["diacritics"] == true,
    }
}

fn read(definition: &RawDocument) -> crate::Result<TextIndexSpec> {
    let version = definition.get("textIndexVersion").unwrap();
    TextIndexDefinition {
        key: definition.get_document("key").unwrap(),
        weights: definition.get("weights").unwrap(),
        default_language: definition.get_str("default_language").ok(),
        language_override: definition.get_str("language_override").ok(),
        version: version.and_then(Number::from_raw),
    }
    .read()
}

/// The sum of the scores of the terms that a document has, as bits; nothing for a document without any.
fn score(query: &TextQuery, scores: &BTreeMap<String, f64>) -> Option<String> {
    let found = query.index_terms.iter().filter_map(|term| scores.get(term));
    let found: Vec<f64> = found.copied().collect();
    let sum = found.iter().fold(0.0, |sum, score| sum + score);
    (!found.is_empty()).then(|| format!("{:016x}", sum.to_bits()))
}

#[test]
fn characters_are_folded_as_in_mongod() {
    for line in lines(include_str!("testdata/characters.jsonl")) {
        let word = format!("q{}q", text(&line["character"]));
        let folded = |language, diacritics| {
            let sensitivity = Sensitivity {
                case: false,
                diacritics,
            };
            let term = tokens(&word, language, sensitivity).next().unwrap();
            let rest = term.strip_prefix('q').unwrap();
            rest.strip_suffix('q').map(str::to_owned)
        };
        let expected = |field: &str| line[field].as_str().map(str::to_owned);
        // The stemmer of Turkish leaves such words alone.
        assert_eq!(
            folded(Language::Turkish, false),
            expected("turkish"),
            "{line}"
        );
        assert_eq!(folded(Language::None, false), expected("other"), "{line}");
        assert_eq!(
            folded(Language::None, true),
            expected("diacritics"),
            "{line}"
        );
    }
}

#[test]
fn stems_and_stop_words_are_those_of_mongod() {
    let sensitivity = Sensitivity {
        case: false,
        diacritics: true,
    };
    for line in lines(include_str!("testdata/stems.jsonl")) {
        let language = language(&line["language"]);
        for (word, expected) in line["words"].as_object().unwrap() {
            let term = tokens(word, language, sensitivity)
                .without_stop_words()
                .next();
            assert_eq!(term.as_deref(), expected.as_str(), "{language:?} {word}");
        }
    }
}

#[test]
fn queries_are_read_as_in_mongod() {
    for line in lines(include_str!("testdata/queries.jsonl")) {
        let query = TextQuery::parse(
            text(&line["search"]),
            language(&line["language"]),
            sensitivity(&line),
        );
        let expected = &line["expected"];
        let set = |field: &str| texts(&expected[field]).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(query.terms, set("terms"), "{line}");
        assert_eq!(query.negated_terms, set("negatedTerms"), "{line}");
        assert_eq!(query.phrases, texts(&expected["phrases"]), "{line}");
        assert_eq!(
            query.negated_phrases,
            texts(&expected["negatedPhrases"]),
            "{line}"
        );
    }
}

#[test]
fn scores_are_those_of_mongod_to_the_bit() {
    for line in lines(include_str!("testdata/scores.jsonl")) {
        let spec = read(&document(&line["spec"])).unwrap();
        for case in list(&line["documents"]) {
            let scores = match spec.scores(&document(&case["document"])) {
                Ok(scores) => scores,
                Err(error) => {
                    let shown = format!("{} {}", error.code.number(), error.message);
                    assert_eq!(shown, text(&case["expected"]));
                    continue;
                }
            };
            assert_eq!(
                format!("count {}", scores.len()),
                text(&case["expected"]),
                "{case}"
            );
            for (search, expected) in case["searches"].as_object().unwrap() {
                let query =
                    TextQuery::parse(search, language(&expected[0]), Sensitivity::default());
                assert_eq!(
                    score(&query, &scores).as_deref(),
                    expected[1].as_str(),
                    "{search} {case}"
                );
            }
        }
    }
}

#[test]
fn documents_match_as_in_mongod() {
    for line in lines(include_str!("testdata/matches.jsonl")) {
        let spec = read(&document(&line["spec"])).unwrap();
        let documents: Vec<_> = list(&line["documents"]).iter().map(document).collect();
        for search in list(&line["searches"]) {
            let query = TextQuery::parse(
                text(&search["search"]),
                language(&search["language"]),
                sensitivity(search),
            );
            let mut found = serde_json::Map::new();
            for (index, document) in documents.iter().enumerate() {
                let score = score(&query, &spec.scores(document).unwrap());
                let matches = query.matches(&spec.texts(document).unwrap()).unwrap();
                if let Some(score) = score.filter(|_| matches) {
                    found.insert(index.to_string(), Value::from(score));
                }
            }
            assert_eq!(
                Value::Object(found),
                search["expected"],
                "{search} {}",
                line["spec"]
            );
        }
    }
}

#[test]
fn definitions_are_completed_as_in_mongod() {
    for line in lines(include_str!("testdata/definitions.jsonl")) {
        let definition = document(&line["spec"]);
        match read(&definition) {
            Ok(spec) => {
                let mut shown = Document::new();
                shown.insert("key", Document::try_from(&*spec.key).unwrap());
                shown.extend(Document::try_from(&*spec.listing).unwrap());
                let expected = document(&line["expected"]);
                assert_eq!(
                    shown.to_string(),
                    Document::try_from(&*expected).unwrap().to_string()
                );
            }
            Err(error) => {
                let shown = format!("{} {}", error.code.number(), error.message);
                assert_eq!(shown, text(&line["expected"]), "{line}");
            }
        }
    }
}

#[test]
fn long_terms_are_cut_in_keys() {
    let short = "y".repeat(224);
    assert_eq!(index_key(&short), short);
    let key = index_key(&"y".repeat(225)).into_owned();
    assert_eq!(key, short + "13147699647ee722106f209248fcadad");
    assert!(index_key(&"語".repeat(75)).starts_with(&"語".repeat(74)));
}

#[test]
fn older_versions_are_refused_by_name() {
    let definition = bson::rawdoc! { "key": { "a": "text" }, "textIndexVersion": 2 };
    let error = read(&definition).unwrap_err();
    assert_eq!(error.code, crate::Code::NotImplemented);
}

/// The score of a term of one text by its definition: of n occurrences, each says half as much as the last.
fn twin_score(words: &[String], term: &str, whole: &str, weight: f64) -> f64 {
    let count = words.iter().filter(|word| *word == term).count() as f64;
    let frequency = 2.0 - 2f64.powf(1.0 - count);
    let coefficient = 0.5 * count / words.len() as f64 + 0.5;
    let is_whole = whole.to_lowercase() == term;
    weight * frequency * coefficient * if is_whole { 1.1 } else { 1.0 }
}

#[test]
fn scores_are_those_of_a_twin() {
    use rand::{Rng, SeedableRng};
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(17);
    let definition = bson::rawdoc! {
        "key": { "a": "text" }, "weights": { "b": 7 }, "default_language": "none",
    };
    let spec = read(&definition).unwrap();
    for _ in 0..2000 {
        let mut sentence = || {
            let count = random.random_range(0..30);
            let words = (0..count).map(|_| ["tea", "milk", "Rum", "x"][random.random_range(0..4)]);
            words
                .collect::<Vec<_>>()
                .join([" ", ", ", "-"][random.random_range(0..3)])
        };
        let (first, second) = (sentence(), sentence());
        let scores = spec
            .scores(&bson::rawdoc! { "a": first.as_str(), "b": second.as_str() })
            .unwrap();
        let mut expected = BTreeMap::new();
        for (text, weight) in [(&first, 1.0), (&second, 7.0)] {
            let words: Vec<String> = index_terms(text, Language::None).collect();
            for term in words.iter().collect::<BTreeSet<_>>() {
                *expected.entry(term.clone()).or_insert(0.0) +=
                    twin_score(&words, term, text, weight);
            }
        }
        assert_eq!(scores, expected, "{first:?} {second:?}");
    }
}

#[test]
fn words_of_two_texts_are_those_of_both() {
    for (language, sentence) in [
        (
            Language::English,
            "The dogs' houses aren't Über-big\u{feff}ger",
        ),
        (Language::Turkish, "Iğdır'ın İstanbul'a"),
        (Language::Russian, "бегущие по волнам"),
    ] {
        let words = |text: &str| index_terms(text, language).collect::<Vec<_>>();
        for split in (0..=sentence.len()).filter(|&at| sentence.is_char_boundary(at)) {
            let (first, second) = sentence.split_at(split);
            let joined = words(&format!("{first} {second}"));
            assert_eq!(joined, [words(first), words(second)].concat());
        }
    }
}
