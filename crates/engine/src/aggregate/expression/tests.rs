//! Expressions against answers of a real mongod 6.0.5.

use super::{Expression, VariableScope, Variables};
use bson::{Bson, doc};

fn evaluate(spec: Bson, document: bson::Document) -> Result<Option<Bson>, String> {
    let holder = bson::RawDocumentBuf::try_from(&doc! { "e": spec }).unwrap();
    let document = bson::RawDocumentBuf::try_from(&document).unwrap();
    let raw = holder.get("e").unwrap().unwrap();
    let show = |error: crate::error::Error| format!("{}: {}", error.code.number(), error.message);
    let expression = Expression::parse(raw, &VariableScope::default()).map_err(show)?;
    expression
        .evaluate(&document, &Variables::default())
        .map_err(show)
}

#[test]
fn paths_reach_through_documents_and_arrays() {
    let document = doc! { "a": { "b": 1 }, "l": [{ "x": 1 }, 5, { "y": 1 }, { "x": [2] }] };
    assert_eq!(
        evaluate("$a.b".into(), document.clone()),
        Ok(Some(Bson::Int32(1)))
    );
    let through = bson::bson!([1, [2]]);
    assert_eq!(evaluate("$l.x".into(), document.clone()), Ok(Some(through)));
    assert_eq!(evaluate("$a.b.c".into(), document), Ok(None));
}
