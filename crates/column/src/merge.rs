//! The reference document of interleaved mode: which documents fit it, and how it grows by those that do not.

use crate::bytes::{Element, elements, is_empty};
use std::collections::{HashMap, HashSet};

/// Whether a document, or one within it, is empty.
pub(crate) fn has_empty(document: &[u8]) -> bool {
    let mut containers = elements(document).filter(Element::is_container);
    is_empty(document) || containers.any(|element| has_empty(element.value))
}

/// Whether there is any scalar in a document or within those in it.
pub(crate) fn has_scalars(document: &[u8]) -> bool {
    elements(document).any(|element| !element.is_container() || has_scalars(element.value))
}

/// Whether there are no more scalars than that in a document and in those within it.
pub(crate) fn has_scalars_at_most(document: &[u8], most: usize) -> bool {
    let mut scalars = 0;
    for_scalars(document, &mut |_| scalars += 1);
    scalars <= most
}

/// Gives `each` every scalar of a document and of those within it.
pub(crate) fn for_scalars<'d>(document: &'d [u8], each: &mut impl FnMut(Element<'d>)) {
    for element in elements(document) {
        if element.is_container() {
            for_scalars(element.value, each);
        } else {
            each(element);
        }
    }
}

/// Gives `each` every scalar of the reference, and the document's of the same path if it has one. False where the
/// document does not fit: it has others, or in another order, or something else is empty.
pub(crate) fn match_up<'r, 'd>(
    reference: &'r [u8],
    document: &'d [u8],
    each: &mut impl FnMut(Element<'r>, Option<Element<'d>>),
) -> bool {
    let mut own = elements(document).peekable();
    for wanted in elements(reference) {
        let found = own.next_if(|element| element.name == wanted.name);
        let fits = match (wanted.is_container(), found) {
            (false, None) => {
                each(wanted, None);
                true
            }
            (false, Some(found)) => {
                let is_scalar = !found.is_container();
                if is_scalar {
                    each(wanted, Some(found));
                }
                is_scalar
            }
            (true, None) => match_none(wanted.value, each),
            (true, Some(found)) => {
                found.kind == wanted.kind
                    && is_empty(found.value) == is_empty(wanted.value)
                    && match_up(wanted.value, found.value, each)
            }
        };
        if !fits {
            return false;
        }
    }
    own.next().is_none()
}

/// Gives `each` every scalar of a part of the reference that a document does not have; false where something is empty.
fn match_none<'r, 'd>(
    reference: &'r [u8],
    each: &mut impl FnMut(Element<'r>, Option<Element<'d>>),
) -> bool {
    for wanted in elements(reference) {
        if !wanted.is_container() {
            each(wanted, None);
        } else if !match_none(wanted.value, each) {
            return false;
        }
    }
    !is_empty(reference)
}

/// The reference with a document's further fields; `None` where they contradict each other: in the order of fields, in
/// what is a document, or in what is empty.
pub(crate) fn merge(reference: &[u8], document: &[u8]) -> Option<Vec<u8>> {
    let mut merged = Merged {
        bytes: vec![0; 4],
        names: HashSet::new(),
    };
    let mut references = elements(reference).peekable();
    let mut own = elements(document).enumerate().peekable();
    // Of the document's names, the last element. It is looked up for each of the reference's that is not there.
    let numbered = elements(document).enumerate();
    let last_of: HashMap<&[u8], usize> = numbered
        .map(|(number, element)| (element.name, number))
        .collect();
    while let (Some(&wanted), Some(&(number, found))) = (references.peek(), own.peek()) {
        if wanted.name == found.name {
            merged.add_both(wanted, found)?;
            references.next();
            own.next();
        } else if last_of.get(wanted.name).is_some_and(|last| *last > number) {
            merged.add_new(found)?;
            own.next();
        } else {
            merged.add_new(wanted)?;
            references.next();
        }
    }
    for rest in references.chain(own.map(|(_, element)| element)) {
        merged.add_new(rest)?;
    }
    Some(merged.finish())
}

/// A document that is being put together.
struct Merged<'a> {
    bytes: Vec<u8>,
    names: HashSet<&'a [u8]>,
}

impl<'a> Merged<'a> {
    /// Adds a field that both have.
    fn add_both(&mut self, wanted: Element<'a>, found: Element<'a>) -> Option<()> {
        if !wanted.is_container() && !found.is_container() {
            self.add(wanted, wanted.value);
            return Some(());
        }
        let fit = wanted.kind == found.kind && is_empty(wanted.value) == is_empty(found.value);
        let inner = fit.then(|| merge(wanted.value, found.value))??;
        self.add(wanted, &inner);
        Some(())
    }

    /// Adds a field that only one has.
    fn add_new(&mut self, element: Element<'a>) -> Option<()> {
        let is_hollow = element.is_container() && has_empty(element.value);
        if is_hollow || self.names.contains(element.name) {
            return None;
        }
        self.add(element, element.value);
        Some(())
    }

    fn add(&mut self, element: Element<'a>, value: &[u8]) {
        self.names.insert(element.name);
        self.bytes.push(element.kind);
        self.bytes.extend_from_slice(element.name);
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes
    }
}
