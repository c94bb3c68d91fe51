//! Behaviour of the module as a whole: messages, boundaries, the plain twin, coverings.
//!
//! Expected answers and messages were given by mongod 6.0.5. The plain twin asks S2's own
//! loops and tests every edge exactly; the fast path must agree with it everywhere.

use super::geometry::{GeometryPart, Position};
use super::predicates::{angle, nearest_on_edge};
use super::relate::polygon_meets_cell;
use super::*;
use bson::{Bson, RawBsonRef, RawDocumentBuf, rawdoc};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use s2rst::s2::{Cell, Loop, Region as _};

fn raw(value: &serde_json::Value) -> RawDocumentBuf {
    let Bson::Document(document) = Bson::try_from(value.clone()).expect("plain JSON") else {
        panic!("a test argument is an object")
    };
    RawDocumentBuf::try_from(&document).expect("documents encode")
}

fn within(value: &serde_json::Value) -> crate::Result<Region> {
    Region::parse_within(RawBsonRef::Document(&raw(value)))
}

fn intersects(value: &serde_json::Value) -> crate::Result<Region> {
    Region::parse_intersects(RawBsonRef::Document(&raw(value)))
}

fn stored(value: &serde_json::Value) -> crate::Result<Geometry> {
    Geometry::parse(RawBsonRef::Document(&raw(value)))
}

/// `"[[0,0],[1,0]]"`-style JSON, for short tables.
fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("tests hold valid JSON")
}

fn polygon(rings: &str) -> serde_json::Value {
    json(&format!(
        r#"{{"$geometry": {{"type": "Polygon", "coordinates": {rings}}}}}"#
    ))
}

#[test]
fn faulty_arguments_are_refused_with_mongods_words() {
    let polygons = [
        (
            "[[[0,0],[1,0],[1,1]]]",
            "Loop is not closed: [ [ 0, 0 ], [ 1, 0 ], [ 1, 1 ] ]",
        ),
        (
            "[[[0,0],[0,0]]]",
            "Loop must have at least 3 different vertices: [ [ 0, 0 ], [ 0, 0 ] ]",
        ),
        (
            "[[[0,0],[1,1],[0,1],[1,0],[0,0]]]",
            "Loop is not valid: [ [ 0, 0 ], [ 1, 1 ], [ 0, 1 ], [ 1, 0 ], [ 0, 0 ] ] Edges 0 and 2 cross. \
             Edge locations in degrees: [0.0000000, 0.0000000]-[1.0000000, 1.0000000] and \
             [1.0000000, 0.0000000]-[0.0000000, 1.0000000]",
        ),
        (
            "[[[0,0],[1,1],[2,2],[1,1],[0,3],[0,0]]]",
            "Loop is not valid: [ [ 0, 0 ], [ 1, 1 ], [ 2, 2 ], [ 1, 1 ], [ 0, 3 ], [ 0, 0 ] ] Duplicate vertices: 1 and 3",
        ),
        (
            "[[[0,0],[4,0],[4,4],[0,4],[0,0]],[[5,5],[6,5],[6,6],[5,5]]]",
            "Secondary loops not contained by first exterior loop - secondary loops must be holes: \
             [ [ 5, 5 ], [ 6, 5 ], [ 6, 6 ], [ 5, 5 ] ] first loop: [ [ 0, 0 ], [ 4, 0 ], [ 4, 4 ], [ 0, 4 ], [ 0, 0 ] ]",
        ),
        (
            "[[[0,0],[4,0],[4,4],[0,4],[0,0]],[[0,0],[3,1],[4,4],[0,0]]]",
            "Loop 1 shares more than one vertex with its parent loop 0: \
             [ [ [ 0, 0 ], [ 4, 0 ], [ 4, 4 ], [ 0, 4 ], [ 0, 0 ] ], [ [ 0, 0 ], [ 3, 1 ], [ 4, 4 ], [ 0, 0 ] ] ]",
        ),
        (
            "[[[0,0],[200,0],[9,9],[0,0]]]",
            "longitude/latitude is out of bounds, lng: 200 lat: 0",
        ),
        (
            "[[[0,0],[20.5,100.25],[9,9],[0,0]]]",
            "longitude/latitude is out of bounds, lng: 20.5 lat: 100.25",
        ),
        ("[]", "Polygon has no loops."),
        ("[[]]", "Loop has no vertices: []"),
        ("[5]", "GeoJSON coordinates must be an array of coordinates"),
        ("[[5, 6]]", "GeoJSON coordinates must be an array"),
        ("[[[5, \"a\"]]]", "Point must only contain numeric elements"),
        ("7", "Polygon coordinates must be an array"),
    ];
    for (rings, message) in polygons {
        let error = within(&polygon(rings)).expect_err(rings);
        assert_eq!(
            (error.code.number(), error.message.as_str()),
            (2, message),
            "{rings}"
        );
    }
    let arguments = [
        (
            r#"{"$geometry": {"type": "Foo", "coordinates": 7}}"#,
            "unknown GeoJSON type: { type: \"Foo\", coordinates: 7 }",
        ),
        (
            r#"{"$geometry": {"type": "Point", "coordinates": [1, 2]}}"#,
            "$within not supported with provided geometry: \
             { $geoWithin: { $geometry: { type: \"Point\", coordinates: [ 1, 2 ] } } }",
        ),
        (r#"{"$box": [[0, 0]]}"#, "Point must be an array or object"),
        (r#"{"$box": 5}"#, "unknown geo specifier: $box: 5"),
        (
            r#"{"$center": [[0, 0], -1]}"#,
            "radius must be a non-negative number",
        ),
        (
            r#"{"$center": [[0, 0], 1, 2]}"#,
            "Only 2 fields allowed for circular region",
        ),
        (
            r#"{"$centerSphere": [[0, 100], 1]}"#,
            "longitude/latitude is out of bounds, lng: 0 lat: 100",
        ),
        (
            r#"{"$polygon": [[0, 0], [1, 1]]}"#,
            "Polygon must have at least 3 points",
        ),
        (
            r#"{"$polygon": [[0, 0], [1, 1], [2, 3, 4]]}"#,
            "Point must only contain two numeric elements",
        ),
        ("{}", "geo query doesn't have any geometry"),
    ];
    for (argument, message) in arguments {
        assert_eq!(
            within(&json(argument)).expect_err(argument).message,
            message
        );
    }
    let boxed = intersects(&json(r#"{"$box": [[0, 0], [1, 1]]}"#)).expect_err("planar");
    assert_eq!(
        boxed.message,
        "$geoIntersect not supported with provided geometry: { $geoIntersects: { $box: [ [ 0, 0 ], [ 1, 1 ] ] } }"
    );
    assert_eq!(
        Region::parse_within(RawBsonRef::Int32(5))
            .expect_err("no object")
            .message,
        "geometry must be an object"
    );
}

#[test]
fn an_index_says_which_document_it_cannot_take() {
    let document = rawdoc! { "_id": 1, "l": [200, 1] };
    let value = document.get("l").expect("readable").expect("present");
    let reason = index_cells(&Geometry::parse(value).expect("a pair")).expect_err("off the sphere");
    let error = key_error(&document, &reason);
    assert_eq!(error.code.number(), 16755);
    assert_eq!(
        error.message,
        "Can't extract geo keys: { _id: 1, l: [ 200, 1 ] }  can't project geometry into spherical CRS: [ 200, 1 ]"
    );
}

/// (argument, value, within, intersects), as mongod answers.
const RELATIONS: &[(&str, &str, bool, bool)] = &[
    // A rectangle's corners and points on its sides match; a geodesic side bulges north.
    (
        POLYGON,
        r#"{"type":"Point","coordinates":[0,0]}"#,
        true,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"Point","coordinates":[10,5]}"#,
        true,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"Point","coordinates":[5,10.03]}"#,
        true,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"Point","coordinates":[5,10.05]}"#,
        false,
        false,
    ),
    (
        POLYGON,
        r#"{"type":"LineString","coordinates":[[1,1],[9,9]]}"#,
        true,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"LineString","coordinates":[[1,1],[19,9]]}"#,
        false,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"LineString","coordinates":[[20,1],[29,9]]}"#,
        false,
        false,
    ),
    (
        POLYGON,
        r#"{"type":"Polygon","coordinates":[[[1,1],[2,1],[2,2],[1,1]]]}"#,
        true,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"Polygon","coordinates":[[[0,0],[10,0],[10,10],[0,10],[0,0]]]}"#,
        true,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"Polygon","coordinates":[[[10,0],[20,0],[20,10],[10,10],[10,0]]]}"#,
        false,
        false,
    ),
    (
        POLYGON,
        r#"{"type":"MultiPoint","coordinates":[[1,1],[50,50]]}"#,
        false,
        true,
    ),
    (
        POLYGON,
        r#"{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,1]},{"type":"LineString","coordinates":[[2,2],[3,3]]}]}"#,
        true,
        true,
    ),
    (
        HOLED,
        r#"{"type":"Point","coordinates":[5,5]}"#,
        false,
        false,
    ),
    (HOLED, r#"{"type":"Point","coordinates":[4,5]}"#, true, true),
    (
        HOLED,
        r#"{"type":"Polygon","coordinates":[[[3,3],[7,3],[7,7],[3,7],[3,3]]]}"#,
        false,
        true,
    ),
    (
        ANTIMERIDIAN,
        r#"{"type":"Point","coordinates":[180,5]}"#,
        true,
        true,
    ),
    (
        ANTIMERIDIAN,
        r#"{"type":"Point","coordinates":[-175,5]}"#,
        true,
        true,
    ),
    (
        ANTIMERIDIAN,
        r#"{"type":"Point","coordinates":[0,5]}"#,
        false,
        false,
    ),
    (
        POLAR,
        r#"{"type":"Point","coordinates":[13,90]}"#,
        true,
        true,
    ),
    (
        POLAR,
        r#"{"type":"LineString","coordinates":[[0,85],[180,85]]}"#,
        true,
        true,
    ),
];
const POLYGON: &str = "[[[0,0],[10,0],[10,10],[0,10],[0,0]]]";
const HOLED: &str = "[[[0,0],[10,0],[10,10],[0,10],[0,0]],[[4,4],[6,4],[6,6],[4,6],[4,4]]]";
const ANTIMERIDIAN: &str = "[[[170,0],[-170,0],[-170,10],[170,10],[170,0]]]";
const POLAR: &str = "[[[0,80],[90,80],[180,80],[-90,80],[0,80]]]";

#[test]
fn shapes_relate_as_in_mongod() {
    for (rings, value, is_within, does_intersect) in RELATIONS {
        let geometry = stored(&json(value)).expect(value);
        assert_eq!(
            within(&polygon(rings)).expect(rings).matches(&geometry),
            *is_within,
            "{rings} within {value}"
        );
        assert_eq!(
            intersects(&polygon(rings)).expect(rings).matches(&geometry),
            *does_intersect,
            "{rings} intersects {value}"
        );
    }
}

#[test]
fn a_strict_polygon_may_cover_most_of_the_sphere() {
    let strict = |rings: &str| {
        let crs = r#""crs": {"type": "name", "properties": {"name": "urn:x-mongodb:crs:strictwinding:EPSG:4326"}}"#;
        within(&json(&format!(
            r#"{{"$geometry": {{"type": "Polygon", "coordinates": {rings}, {crs}}}}}"#
        )))
    };
    let (small, large) = ("[[[0,0],[4,0],[4,4],[0,0]]]", "[[[0,0],[4,4],[4,0],[0,0]]]");
    assert!(strict(small).expect("valid").contains_point(3.0, 1.0));
    assert!(!strict(large).expect("valid").contains_point(3.0, 1.0));
    assert!(strict(large).expect("valid").contains_point(100.0, -70.0));
    // Without strict winding the smaller side is taken.
    assert!(
        within(&polygon(large))
            .expect("valid")
            .contains_point(3.0, 1.0)
    );
}

#[test]
fn legacy_shapes_are_planar_and_match_points_only() {
    let square = within(&json(r#"{"$box": [[10, 10], [0, 0]]}"#)).expect("corners in any order");
    assert!(square.contains_point(10.0, 10.0) && !square.contains_point(5.0, 10.03));
    let line = stored(&json(
        r#"{"type": "LineString", "coordinates": [[1, 1], [2, 2]]}"#,
    ))
    .expect("valid");
    assert!(!square.matches(&line));
    let center = within(&json(r#"{"$center": [[51.9999, 0], 0.0001]}"#)).expect("valid");
    assert!(center.contains_point(52.0, 0.0));
    let far = within(&json(
        r#"{"$polygon": [[300, 300], [400, 300], [400, 400]]}"#,
    ))
    .expect("valid");
    assert!(far.contains_point(390.0, 350.0) && !far.contains_point(310.0, 350.0));
    let cap = json(r#"{"$centerSphere": [[0, 0], 0.1]}"#);
    assert!(within(&cap).expect("valid").contains_point(5.7, 0.0));
    assert!(
        !intersects(&cap)
            .expect("mongod accepts it")
            .intersects_point(0.0, 0.0)
    );
}

/// A point at a distance in degrees from another, by the sphere.
fn moved(lon: f64, lat: f64, bearing: f64, degrees: f64) -> (f64, f64) {
    let (lat, distance) = (lat.to_radians(), degrees.to_radians());
    let north = (lat.sin() * distance.cos() + lat.cos() * distance.sin() * bearing.cos())
        .clamp(-1.0, 1.0)
        .asin();
    let east = (bearing.sin() * distance.sin() * lat.cos())
        .atan2(distance.cos() - lat.sin() * north.sin());
    let lon = (lon + east.to_degrees() + 540.0).rem_euclid(360.0) - 180.0;
    (
        lon.clamp(-180.0, 180.0),
        north.to_degrees().clamp(-90.0, 90.0),
    )
}

const CENTERS: &[(f64, f64)] = &[
    (2.5, 46.0),
    (0.0, 0.0),
    (179.9, 10.0),
    (30.0, 89.8),
    (-100.0, -89.9),
    (45.0, 35.26),
    (90.0, 0.0),
    (-45.0, 0.0),
];

/// A star-shaped ring around a centre; on a grid when `grid` is not zero.
fn star(
    random: &mut ChaCha8Rng,
    center: (f64, f64),
    degrees: f64,
    vertices: usize,
) -> Vec<(f64, f64)> {
    let mut ring: Vec<_> = (0..vertices)
        .map(|index| {
            let bearing = -std::f64::consts::TAU * index as f64 / vertices as f64;
            moved(
                center.0,
                center.1,
                bearing,
                degrees * random.random_range(0.4..1.0),
            )
        })
        .collect();
    ring.push(ring[0]);
    ring
}

fn rectangle(center: (f64, f64), degrees: f64) -> Vec<(f64, f64)> {
    let (west, east) = (
        (center.0 - degrees).round(),
        (center.0 + degrees).round() + 1.0,
    );
    let (south, north) = (
        (center.1 - degrees).round(),
        (center.1 + degrees).round() + 1.0,
    );
    vec![
        (west, south),
        (east, south),
        (east, north),
        (west, north),
        (west, south),
    ]
}

fn ring_argument(ring: &[(f64, f64)]) -> serde_json::Value {
    let ring: Vec<_> = ring.iter().map(|(lon, lat)| vec![*lon, *lat]).collect();
    serde_json::json!({"$geometry": {"type": "Polygon", "coordinates": [ring]}})
}

/// Points around a ring: anywhere, on vertices, along edges, and centimetres beside them.
fn probe(
    random: &mut ChaCha8Rng,
    ring: &[(f64, f64)],
    center: (f64, f64),
    degrees: f64,
) -> (f64, f64) {
    let (lon, lat) = match random.random_range(0..10) {
        0 => ring[random.random_range(0..ring.len())],
        1 => {
            let edge = random.random_range(0..ring.len() - 1);
            let share = random.random::<f64>();
            let (a, b) = (ring[edge], ring[edge + 1]);
            (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share)
        }
        2 => {
            let (lon, lat) = ring[random.random_range(0..ring.len())];
            (
                lon + random.random_range(-1e-7..1e-7),
                lat + random.random_range(-1e-7..1e-7),
            )
        }
        3 => (center.0.round(), center.1.round()),
        _ => moved(
            center.0,
            center.1,
            random.random_range(0.0..6.3),
            degrees * random.random_range(0.0..1.3),
        ),
    };
    (lon.clamp(-180.0, 180.0), lat.clamp(-90.0, 90.0))
}

/// Radians from a point to a polygon's boundary.
fn boundary_distance(polygon: &Polygon, position: Position) -> f64 {
    let point = position.point();
    let edges = polygon.rings.iter().flat_map(super::geometry::Ring::edges);
    edges
        .map(|(a, b)| angle(point, nearest_on_edge(point, a, b)))
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn the_fast_path_agrees_with_the_plain_twin() {
    let mut random = ChaCha8Rng::seed_from_u64(20_171_223);
    for shape in 0..240 {
        let center = CENTERS[shape % CENTERS.len()];
        let degrees = 10f64.powf(random.random_range(-2.0..1.3));
        let vertices = [3, 4, 5, 12, 13, 40, 200, 1000][shape / CENTERS.len() % 8];
        let ring = match shape % 5 {
            0 if center.1.abs() < 60.0 && center.0.abs() < 150.0 => rectangle(center, degrees),
            _ => star(&mut random, center, degrees, vertices),
        };
        let Ok(region) = within(&ring_argument(&ring)) else {
            continue;
        };
        let geometry = stored(&ring_argument(&ring)["$geometry"]).expect("the region parsed");
        let Geometry::Polygon(polygon) = &geometry else {
            panic!("a polygon")
        };
        let mut twin = Loop::new(polygon.shell().vertices().to_vec());
        twin.normalize();
        for _ in 0..450 {
            let (lon, lat) = probe(&mut random, &ring, center, degrees);
            let position = Position { lon, lat };
            let exact = polygon.contains_point(position.point())
                || polygon_meets_cell(polygon, Cell::from_cell_id(position.leaf()));
            assert_eq!(
                region.contains_point(lon, lat),
                exact,
                "shape {shape}: {lon}, {lat}"
            );
            assert_eq!(
                region.matches_entry(position.leaf().id(), lon, lat),
                region.matches_point(lon, lat),
                "shape {shape}: {lon}, {lat} by its cell"
            );
            if boundary_distance(polygon, position) > 1e-8 {
                assert_eq!(
                    exact,
                    twin.contains_point(&position.point()),
                    "shape {shape}: {lon}, {lat}"
                );
            }
        }
    }
}

fn range_of(ranges: &[CoveredRange], leaf: u64) -> Option<&CoveredRange> {
    let after = ranges.partition_point(|range| range.first <= leaf);
    ranges[..after].last().filter(|range| leaf <= range.last)
}

fn covered(ranges: &[CoveredRange], leaf: u64) -> Option<CellRelation> {
    range_of(ranges, leaf).map(|range| range.relation)
}

/// Inside ranges hold matching points only, and no matching point is outside all ranges.
fn check_cover(region: &Region, limits: CoverLimits<'_>, points: impl Iterator<Item = (f64, f64)>) {
    let ranges = cover(region, limits);
    assert!(ranges.iter().all(|range| range.first <= range.last));
    assert!(ranges.windows(2).all(|pair| pair[0].last < pair[1].first));
    for (lon, lat) in points {
        let (matches, leaf) = (region.matches_point(lon, lat), point_cell(lon, lat));
        assert_eq!(
            region.matches_entry(leaf, lon, lat),
            matches,
            "{lon}, {lat} by its cell"
        );
        match covered(&ranges, leaf) {
            Some(CellRelation::Inside) => assert!(matches, "{lon}, {lat} is in an inside range"),
            Some(CellRelation::Boundary) => {}
            None => assert!(!matches, "{lon}, {lat} is in no range"),
        }
    }
}

#[test]
fn coverings_are_sound_for_every_kind_of_region() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for shape in 0..160 {
        let center = CENTERS[shape % CENTERS.len()];
        let degrees = 10f64.powf(random.random_range(-2.0..1.5));
        let ring = star(&mut random, center, degrees, [3, 5, 30, 500][shape / 8 % 4]);
        let points: Vec<_> = ring.iter().map(|(lon, lat)| vec![*lon, *lat]).collect();
        let (lon, lat) = center;
        let region = match shape % 6 {
            0 => within(
                &serde_json::json!({"$box": [[lon - degrees, lat - degrees], [lon + degrees, lat + degrees]]}),
            ),
            1 => within(&serde_json::json!({"$center": [[lon, lat], degrees]})),
            2 => within(
                &serde_json::json!({"$centerSphere": [[lon, lat], degrees.to_radians() * random.random_range(0.5..4.0)]}),
            ),
            3 => within(&serde_json::json!({"$polygon": points})),
            4 => intersects(
                &serde_json::json!({"$geometry": {"type": "LineString", "coordinates": points}}),
            ),
            _ => within(&ring_argument(&ring)),
        };
        let Ok(region) = region else { continue };
        for cells_max in [1, 20, 512] {
            let probes = (0..250)
                .map(|_| probe(&mut random, &ring, center, degrees))
                .collect::<Vec<_>>();
            check_cover(
                &region,
                CoverLimits {
                    cells_max,
                    ..CoverLimits::default()
                },
                probes.into_iter(),
            );
        }
    }
}

#[test]
fn lines_that_cut_boundary_cells_agree_with_the_region() {
    const SEED: u64 = 20_261_124;
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let (mut told, mut close) = (0, 0);
    for shape in 0..240 {
        let center = CENTERS[shape % CENTERS.len()];
        let degrees = 10f64.powf(random.random_range(-2.0..1.3));
        let ring = match shape % 4 {
            0 => rectangle(center, degrees),
            _ => star(&mut random, center, degrees, [3, 4, 30, 300][shape / 8 % 4]),
        };
        let argument = ring_argument(&ring);
        let polygon = &argument["$geometry"];
        let geometries = match shape % 3 {
            // A point beside the polygon, and another polygon over it.
            1 => vec![
                polygon.clone(),
                serde_json::json!({"type": "Point", "coordinates": [center.0, center.1 + 1e-4]}),
            ],
            2 => vec![
                polygon.clone(),
                ring_argument(&star(&mut random, center, degrees, 7))["$geometry"].clone(),
            ],
            _ => vec![polygon.clone()],
        };
        let collection =
            serde_json::json!({"type": "GeometryCollection", "geometries": geometries});
        let Ok(region) = intersects(&serde_json::json!({"$geometry": collection})) else {
            continue;
        };
        let limits = CoverLimits {
            cells_max: 200,
            cuts: true,
            ..CoverLimits::default()
        };
        let ranges = cover(&region, limits);
        for _ in 0..400 {
            let (mut lon, mut lat) = probe(&mut random, &ring, center, degrees);
            if random.random() {
                let beside = 10f64.powf(random.random_range(-9.0..-3.0));
                (lon, lat) = (
                    (lon + beside).clamp(-180.0, 180.0),
                    (lat - beside).clamp(-90.0, 90.0),
                );
            }
            let leaf = point_cell(lon, lat);
            let range = range_of(&ranges, leaf);
            let Some(cut) = range.and_then(|range| range.cut) else {
                continue;
            };
            // With a neighbour from which it is counted, as it is among the points of a range.
            let first = range.map_or(leaf, |range| range.first);
            let places = FlatPlaces::of(&[first, leaf]);
            match places.count_matches(1..2, &cut) {
                Some(matches) => {
                    told += 1;
                    assert_eq!(
                        matches == 1,
                        region.matches_point(lon, lat),
                        "seed {SEED}, shape {shape}: {lon}, {lat}"
                    );
                }
                None => close += 1,
            }
        }
    }
    assert!(told > 4_000, "{told} were told, {close} too close");
    assert!(close > 100, "{told} were told, {close} too close");
}

#[test]
fn the_caller_may_stop_a_covering_early() {
    let region = within(&polygon(POLYGON)).expect("valid");
    let mut asked = 0;
    let mut stop = |_, _| {
        asked += 1;
        asked > 3
    };
    let coarse = cover(
        &region,
        CoverLimits {
            stop: Some(&mut stop),
            ..CoverLimits::default()
        },
    );
    let fine = cover(&region, CoverLimits::default());
    assert!(coarse.len() < fine.len());
    assert!(
        coarse
            .iter()
            .all(|range| range.relation == CellRelation::Boundary)
    );
}

#[test]
fn lines_and_polygons_are_found_by_their_cells() {
    let mut random = ChaCha8Rng::seed_from_u64(99);
    let mut found = 0;
    for shape in 0..300 {
        let center = CENTERS[shape % CENTERS.len()];
        let sizes = [
            random.random_range(-1.0..1.3),
            random.random_range(-2.0..1.0),
        ]
        .map(|power| 10f64.powf(power));
        let query = star(&mut random, center, sizes[0], 8);
        let other = moved(
            center.0,
            center.1,
            random.random_range(0.0..6.3),
            random.random_range(0.0..3.0),
        );
        let ring: Vec<_> = star(&mut random, other, sizes[1], 6)
            .iter()
            .map(|(lon, lat)| vec![*lon, *lat])
            .collect();
        let value = match shape % 2 {
            0 => serde_json::json!({"type": "LineString", "coordinates": ring}),
            _ => serde_json::json!({"type": "Polygon", "coordinates": [ring]}),
        };
        let (Ok(region), Ok(geometry)) = (intersects(&ring_argument(&query)), stored(&value))
        else {
            continue;
        };
        if !region.matches(&geometry) {
            continue;
        }
        found += 1;
        let ranges = cover(&region, CoverLimits::default());
        let ancestors = ancestors(&ranges);
        let cells = index_cells(&geometry).expect("on the sphere");
        assert!(cells.len() <= 24);
        let is_found = cells.iter().any(|cell| {
            covered(&ranges, cell.id()).is_some() || ancestors.binary_search(&cell.id()).is_ok()
        });
        assert!(is_found, "shape {shape}: {value}");
    }
    assert!(found > 50);
}

#[test]
fn a_geometry_has_its_parts() {
    let value = json(r#"{"type": "MultiPoint", "coordinates": [[1, 2], [3, 4, 5]]}"#);
    let geometry = stored(&value).expect("altitude is ignored");
    assert!(matches!(
        geometry.parts()[..],
        [
            GeometryPart::Point(_),
            GeometryPart::Point(Position { lon: 3.0, lat: 4.0 })
        ]
    ));
}
