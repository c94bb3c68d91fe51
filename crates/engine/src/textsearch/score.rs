//! How much each term says of a document.

use super::{FieldText, TextIndexSpec, any_of, index_terms};
use crate::Result;
use crate::operation::memory::Reservation;
use bson::raw::RawDocument;
use std::collections::BTreeMap;

/// What a term takes while it is counted, roughly.
const TERM_BYTES: usize = 96;
/// After so many terms their memory is counted.
const TERMS_COUNTED: usize = 1 << 12;

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
        let mut memory = Reservation::default();
        for text in self.texts(document)? {
            add_scores(&text, &mut scores, &mut memory)?;
        }
        Ok(scores)
    }
}

/// The order of the operations is mongod's: scores are equal to the last bit.
fn add_scores(
    field: &FieldText<'_>,
    scores: &mut BTreeMap<String, f64>,
    memory: &mut Reservation,
) -> Result<()> {
    let mut terms: BTreeMap<String, Occurrences> = BTreeMap::new();
    let mut tokens_count = 0.0;
    any_of(index_terms(field.text, field.language), |term| {
        if !terms.contains_key(term) {
            terms.insert(term.to_owned(), Occurrences::default());
            if terms.len().is_multiple_of(TERMS_COUNTED) {
                memory.grow((scores.len() + terms.len()) * TERM_BYTES)?;
            }
        }
        if let Some(found) = terms.get_mut(term) {
            found.divisor = match found.count > 0.0 {
                true => found.divisor * 2.0,
                false => 1.0,
            };
            found.count += 1.0;
            found.frequency += 1.0 / found.divisor;
        }
        tokens_count += 1.0;
        Ok(false)
    })?;
    for (term, found) in terms {
        let coefficient = 0.5 * found.count / tokens_count + 0.5;
        // A field that is nothing but the term says a little more.
        let is_whole = field.text.eq_ignore_ascii_case(&term);
        let adjustment = if is_whole { 1.1 } else { 1.0 };
        *scores.entry(term).or_default() +=
            field.weight * found.frequency * coefficient * adjustment;
    }
    Ok(())
}
