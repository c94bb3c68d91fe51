//! The shape of a filter: which conditions it has on which paths, whatever their values.
//!
//! In: a filter. Out: its nodes as MongoDB numbers them among the statements of one shape (`queryHash`): a code of two
//! letters for the kind of condition, the path, and the nodes below. The codes, and what stands between them, are those of
//! MongoDB 6.0, so that dashboards find the same hashes.

use super::filter::{Comparison, Filter, Predicate};
use crate::geo::{Metric, Region};
use bson::RawBson;
use bson::raw::RawBsonRef;
use std::collections::BTreeSet;

/// A condition of a filter.
pub struct ShapeNode<'f> {
    /// What kind of condition it is.
    code: &'static str,
    /// The path that it is about; empty for what joins others, and for what is asked of an array's element.
    pub path: &'f str,
    /// What else belongs to the shape.
    detail: String,
    /// What it joins.
    pub children: Vec<Self>,
    /// What is asked of the path, for nodes without children.
    pub predicate: Option<&'f Predicate>,
}

impl<'f> ShapeNode<'f> {
    fn new(code: &'static str, path: &'f str) -> Self {
        Self {
            code,
            path,
            detail: String::new(),
            children: Vec::new(),
            predicate: None,
        }
    }

    /// A node that joins filters, in MongoDB's order.
    fn joining(code: &'static str, filters: &'f [Filter]) -> Self {
        let mut sorted: Vec<&Filter> = filters.iter().collect();
        sorted.sort_by(|a, b| a.rank().cmp(&b.rank()));
        Self {
            children: sorted.into_iter().map(Filter::shape).collect(),
            ..Self::new(code, "")
        }
    }

    fn of_predicate(path: &'f str, predicate: &'f Predicate) -> Self {
        let joining = |code, children| Self {
            children,
            ..Self::new(code, "")
        };
        match predicate {
            Predicate::Exists(false) => joining("nt", vec![Self::new("ex", path)]),
            Predicate::And(predicates) => joining("an", of_sorted(path, predicates)),
            Predicate::Not(inner) => {
                let mut node = joining("nt", vec![Self::of_predicate(path, inner)]);
                if is_null(inner) {
                    node.detail.push_str("not_eq_null");
                }
                node
            }
            Predicate::BucketGeo(own) => Self::new(code_of(predicate), own.path.as_str()),
            _ => Self {
                detail: detail_of(predicate),
                children: match predicate {
                    Predicate::ElemMatchObject(filter) => vec![filter.shape()],
                    // An array's element has no path.
                    Predicate::ElemMatchValue(predicates) => of_sorted("", predicates),
                    _ => Vec::new(),
                },
                predicate: Some(predicate),
                ..Self::new(code_of(predicate), path)
            },
        }
    }

    /// Whether it negates another one.
    pub fn is_negation(&self) -> bool {
        self.code == "nt"
    }

    /// Appends the node and those below it.
    pub fn encode(&self, out: &mut String) {
        out.push_str(self.code);
        push_escaped(out, self.path);
        out.push_str(&self.detail);
        if self.children.is_empty() {
            return;
        }
        for (number, child) in self.children.iter().enumerate() {
            out.push(if number == 0 { '[' } else { ',' });
            child.encode(out);
        }
        out.push(']');
    }
}

impl Filter {
    /// The filter's shape.
    pub fn shape(&self) -> ShapeNode<'_> {
        match self {
            Self::Always => ShapeNode::new("an", ""),
            Self::Never => ShapeNode::new("af", ""),
            Self::And(filters) => ShapeNode::joining("an", filters),
            Self::Or(filters) => ShapeNode::joining("or", filters),
            Self::Nor(filters) if filters.len() == 1 => ShapeNode::joining("nt", filters),
            Self::Nor(filters) => ShapeNode::joining("nr", filters),
            Self::Field { path, predicate } => ShapeNode::of_predicate(path.as_str(), predicate),
            Self::Expr(_) => ShapeNode::new("xp", ""),
            Self::Where(_) => ShapeNode::new("wh", ""),
            // MongoDB has a tree of conditions in its place.
            Self::Schema(schema) => ShapeNode {
                detail: crate::text::document_text(schema.source()),
                ..ShapeNode::new("internalSchema", "")
            },
            Self::Text(_) => ShapeNode::new("te", "_fts"),
        }
    }
}

/// Appends a name of a client's; what separates is escaped.
pub fn push_escaped(out: &mut String, name: &str) {
    for character in name.chars() {
        if matches!(
            character,
            '[' | ']' | ',' | '#' | '|' | '-' | '/' | '~' | '@' | '?' | ':' | '^' | '\\'
        ) {
            out.push('\\');
        }
        out.push(character);
    }
}

fn code_of(predicate: &Predicate) -> &'static str {
    match predicate {
        Predicate::Compare(Comparison::Eq, _) => "eq",
        Predicate::Compare(Comparison::Lt, _) => "lt",
        Predicate::Compare(Comparison::Lte, _) => "le",
        Predicate::Compare(Comparison::Gt, _) => "gt",
        Predicate::Compare(Comparison::Gte, _) => "ge",
        Predicate::In(_) => "in",
        Predicate::Regex(_) => "re",
        Predicate::Exists(_) => "ex",
        Predicate::Type(_) => "ty",
        Predicate::Mod(_) => "mo",
        Predicate::Size(_) => "sz",
        Predicate::ElemMatchObject(_) => "eo",
        Predicate::ElemMatchValue(_) => "ev",
        Predicate::Bits(test) => match test.mask().name() {
            "$bitsAllSet" => "ls",
            "$bitsAllClear" => "lc",
            "$bitsAnySet" => "ys",
            _ => "yc",
        },
        Predicate::GeoWithin(_) | Predicate::GeoIntersects(_) => "go",
        Predicate::BucketGeo(_) => "internalBucketGeoWithin",
        Predicate::Near(_) => "gn",
        Predicate::And(_) => "an",
        Predicate::Not(_) => "nt",
    }
}

/// What of a predicate's operand belongs to the shape.
fn detail_of(predicate: &Predicate) -> String {
    match predicate {
        Predicate::Compare(Comparison::Gt, operand) if matches!(**operand, RawBson::MinKey) => {
            "min".to_owned()
        }
        Predicate::Compare(Comparison::Lt, operand) if matches!(**operand, RawBson::MaxKey) => {
            "max".to_owned()
        }
        Predicate::In(list) if !list.patterns().is_empty() => {
            let options = list.patterns().iter().map(|pattern| pattern.options());
            format!("_re{}", options_of(options))
        }
        Predicate::Regex(pattern) => options_of(std::iter::once(pattern.options())),
        Predicate::GeoWithin(region) => format!("wi{}", geometry_code(region)),
        Predicate::GeoIntersects(region) => format!("in{}", geometry_code(region)),
        Predicate::Near(near) => match (near.is_geojson(), near.metric()) {
            (false, Metric::Sphere) => "nssp".to_owned(),
            (true, Metric::Sphere) => "nrsp".to_owned(),
            (_, Metric::Plane) => "nrfl".to_owned(),
        },
        _ => String::new(),
    }
}

/// Whether a predicate asks for null, which entries share with what they lack.
fn is_null(predicate: &Predicate) -> bool {
    matches!(
        predicate,
        Predicate::Compare(Comparison::Eq | Comparison::Gte | Comparison::Lte, operand) if matches!(**operand, RawBson::Null)
    )
}

/// Predicates on the same value, in MongoDB's order.
fn of_sorted<'f>(path: &'f str, predicates: &'f [Predicate]) -> Vec<ShapeNode<'f>> {
    let mut sorted: Vec<&Predicate> = predicates.iter().collect();
    sorted.sort_by_key(|predicate| predicate.rank());
    let own = |predicate| ShapeNode::of_predicate(path, predicate);
    sorted.into_iter().map(own).collect()
}

/// The options of regular expressions, each once.
fn options_of<'p>(options: impl Iterator<Item = &'p str>) -> String {
    let all: BTreeSet<char> = options.flat_map(str::chars).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("/{}/", all.into_iter().collect::<String>()),
    }
}

/// The kind of a region's geometry, and whether it lies in the plane or on the sphere.
fn geometry_code(region: &Region) -> String {
    let operand = region.operand().as_raw_bson_ref();
    let written = operand
        .as_document()
        .and_then(|operand| operand.iter().flatten().next());
    let code = match written.map(|(name, value)| (name.as_str().to_owned(), value)) {
        Some((name, value)) => match (name.as_str(), value) {
            ("$box", _) => "bxfl",
            ("$polygon", _) => "plfl",
            ("$center", _) => "ccfl",
            ("$centerSphere", _) => "ccsp",
            ("$geometry", RawBsonRef::Document(geometry)) => of_geojson(geometry),
            _ => "ptfl",
        },
        None => "ptfl",
    };
    code.to_owned()
}

fn of_geojson(geometry: &bson::RawDocument) -> &'static str {
    match geometry.get_str("type").unwrap_or_default() {
        "LineString" => "lnsp",
        "Polygon"
            if geometry
                .get("crs")
                .is_ok_and(|crs| crs.is_some_and(is_strict)) =>
        {
            "plss"
        }
        "Polygon" => "plsp",
        "MultiPoint" => "mpsp",
        "MultiLineString" => "mlsp",
        "MultiPolygon" => "mysp",
        "GeometryCollection" => "gcsp",
        _ => "ptsp",
    }
}

fn is_strict(crs: RawBsonRef<'_>) -> bool {
    let properties = crs
        .as_document()
        .and_then(|crs| crs.get_document("properties").ok());
    properties.is_some_and(|own| {
        own.get_str("name")
            .is_ok_and(|name| name.contains("strictwinding"))
    })
}
