//! What an `$expr` implies of single fields, so that an index can be used for it.
//!
//! `{$expr: {$eq: ["$a", 5]}}` is true only of documents whose `a` is 5 itself, which `{a: {$eq: 5}}` finds, among others
//! (arrays that hold a 5). So the condition stays, and the simpler one is put beside it, as MongoDB does too.

use super::filter::{Comparison, ExprCondition, Filter, Operand, Predicate};
use bson::RawBson;
use meridian_value::path::Path;

impl Filter {
    /// The same filter with what its `$expr`s imply.
    #[must_use]
    pub fn with_implied(self) -> Self {
        let mut implied = Vec::new();
        match &self {
            Self::Expr(condition) => add_implied(condition, &mut implied),
            Self::And(children) => {
                for child in children {
                    if let Self::Expr(condition) = child {
                        add_implied(condition, &mut implied);
                    }
                }
            }
            _ => {}
        }
        if implied.is_empty() {
            return self;
        }
        let mut children = match self {
            Self::And(children) => children,
            other => vec![other],
        };
        children.extend(implied);
        Self::And(children)
    }
}

fn add_implied(condition: &ExprCondition, implied: &mut Vec<Filter>) {
    condition
        .expression()
        .for_each_equality(&mut |path, value| {
            if is_plain(&value) {
                implied.push(Filter::Field {
                    path: Path::parse(&path.join(".")),
                    predicate: Predicate::Compare(
                        Comparison::Eq,
                        Operand::new(value, condition.collation().clone()),
                    ),
                });
            }
        });
}

/// Whether a value is found by its key: null and missing fields share one, and what has parts compares otherwise.
fn is_plain(value: &RawBson) -> bool {
    match value {
        RawBson::Double(number) => !number.is_nan(),
        RawBson::String(_)
        | RawBson::Boolean(_)
        | RawBson::Int32(_)
        | RawBson::Int64(_)
        | RawBson::DateTime(_)
        | RawBson::ObjectId(_)
        | RawBson::Binary(_)
        | RawBson::Timestamp(_) => true,
        _ => false,
    }
}
