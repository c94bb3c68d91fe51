//! Rewrites that keep what a filter means and make it plainer for evaluation and planning.
//!
//! Nested conjunctions are flattened, single branches unwrapped, constants folded, and an `$or`
//! of equalities on one path becomes an `$in`.

use super::filter::{Comparison, Filter, InList, Predicate};
use bson::RawBson;
use meridian_value::Collation;

impl Filter {
    /// The same filter in its plainest form.
    #[must_use]
    pub fn simplify(self) -> Self {
        match self {
            Self::And(children) => conjunction(children),
            Self::Or(children) => disjunction(children),
            Self::Nor(children) => negated_disjunction(children),
            Self::Field { path, predicate } => match simplify_predicate(predicate) {
                Predicate::In(list) if list.values().is_empty() && list.patterns().is_empty() => {
                    Self::Never
                }
                // `{ a: { $all: [1, 2] } }`: each may hold for another value of the path.
                Predicate::And(predicates) => conjunction(
                    predicates
                        .into_iter()
                        .map(|predicate| Self::Field {
                            path: path.clone(),
                            predicate,
                        })
                        .collect(),
                ),
                predicate => Self::Field { path, predicate },
            },
            other => other,
        }
    }
}

fn simplify_predicate(predicate: Predicate) -> Predicate {
    match predicate {
        Predicate::In(list) if list.patterns().is_empty() && list.values().len() == 1 => {
            Predicate::Compare(Comparison::Eq, list.operand(list.values()[0].clone()))
        }
        Predicate::In(list) if list.values().is_empty() && list.patterns().len() == 1 => {
            Predicate::Regex(list.patterns()[0].clone())
        }
        Predicate::Not(inner) => match simplify_predicate(*inner) {
            // A condition that is negated twice stays so, as in MongoDB: it leaves no position for `a.$`.
            Predicate::Exists(wanted) => Predicate::Exists(!wanted),
            once => Predicate::Not(Box::new(once)),
        },
        other => other,
    }
}

fn conjunction(children: Vec<Filter>) -> Filter {
    let mut flat = Vec::with_capacity(children.len());
    // Behind all others, as MongoDB puts them: `a.$` goes by the order.
    let mut taken_in = Vec::new();
    for child in children {
        match child.simplify() {
            Filter::Always => {}
            Filter::Never => return Filter::Never,
            Filter::And(grandchildren) => taken_in.extend(grandchildren),
            other => flat.push(other),
        }
    }
    flat.append(&mut taken_in);
    match flat.len() {
        0 => Filter::Always,
        1 => flat.remove(0),
        _ => Filter::And(flat),
    }
}

fn disjunction(children: Vec<Filter>) -> Filter {
    let mut flat = Vec::with_capacity(children.len());
    for child in children {
        match child.simplify() {
            Filter::Always => return Filter::Always,
            Filter::Never => {}
            Filter::Or(grandchildren) => flat.extend(grandchildren),
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => Filter::Never,
        1 => flat.remove(0),
        _ => equalities_as_in(flat),
    }
}

fn negated_disjunction(children: Vec<Filter>) -> Filter {
    match disjunction(children) {
        Filter::Always => Filter::Never,
        Filter::Never => Filter::Always,
        Filter::Or(children) => Filter::Nor(children),
        Filter::Field { path, predicate } => Filter::Field {
            path,
            predicate: simplify_predicate(Predicate::Not(Box::new(predicate))),
        },
        other => Filter::Nor(vec![other]),
    }
}

/// `$or: [{ a: 1 }, { a: 2 }]` asks what `{ a: { $in: [1, 2] } }` asks.
fn equalities_as_in(children: Vec<Filter>) -> Filter {
    let Some(Filter::Field { path: first, .. }) = children.first() else {
        return Filter::Or(children);
    };
    let mut values: Vec<RawBson> = Vec::with_capacity(children.len());
    let mut collation = Collation::SIMPLE;
    for child in &children {
        match child {
            Filter::Field {
                path,
                predicate: Predicate::Compare(Comparison::Eq, value),
            } if path == first && !matches!(**value, RawBson::RegularExpression(_)) => {
                collation = value.collation().clone();
                values.push(RawBson::clone(value));
            }
            _ => return Filter::Or(children),
        }
    }
    let predicate = Predicate::In(InList::new(values, collation, Vec::new()));
    Filter::Field {
        path: first.clone(),
        predicate: simplify_predicate(predicate),
    }
}
