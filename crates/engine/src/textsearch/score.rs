//! How much each term says of a document.

use super::{FieldText, TextIndexSpec, index_terms};
use crate::Result;
use bson::raw::RawDocument;
use std::collections::BTreeMap;

/// What is counted of one term in one text.
#[derive(Default)]
struct Occurrences {
    count: f64,
    /// 1 + ½ + ¼ + …: each occurrence says half as much as the one before it.
    frequency: f64,
    /// What the next occurrence is divided by.
    divisor: f64,
}

impl TextIndexSpec {
    /// The terms of a document with their scores: the entries that it has in the index.
    ///
    /// # Errors
    /// As [`TextIndexSpec::texts`].
    pub fn scores(&self, document: &RawDocument) -> Result<BTreeMap<String, f64>> {
        let mut scores = BTreeMap::new();
        for text in self.texts(document)? {
            add_scores(&text, &mut scores);
        }
        Ok(scores)
    }
}

/// The order of the operations is mongod's: scores are equal to the last bit.
fn add_scores(field: &FieldText<'_>, scores: &mut BTreeMap<String, f64>) {
    let mut terms: BTreeMap<String, Occurrences> = BTreeMap::new();
    let mut tokens_count = 0.0;
    for term in index_terms(field.text, field.language) {
        let found = terms.entry(term).or_default();
        found.divisor = if found.count > 0.0 {
            found.divisor * 2.0
        } else {
            1.0
        };
        found.count += 1.0;
        found.frequency += 1.0 / found.divisor;
        tokens_count += 1.0;
    }
    for (term, found) in terms {
        let coefficient = 0.5 * found.count / tokens_count + 0.5;
        // A field that is nothing but the term says a little more.
        let is_whole = field.text.eq_ignore_ascii_case(&term);
        let adjustment = if is_whole { 1.1 } else { 1.0 };
        *scores.entry(term).or_default() +=
            field.weight * found.frequency * coefficient * adjustment;
    }
}
