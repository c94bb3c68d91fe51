//! Geometry: GeoJSON and legacy shapes, their relations, and their coverings by S2 cells.
//!
//! What comes in are BSON values of documents and queries; what goes out are yes or no for a
//! document ([`Region`]), its distance from a point ([`Near`]), cells for an index
//! ([`index_cells`]) and ranges of cells for a scan ([`cover`], [`cover_plane`] for 2d indexes). Answers equal mongod 6.0's, including on boundaries: a point matches
//! when its leaf cell (about a centimetre wide) meets the shape. Deliberately absent:
//! storage, index keys.
//!
//! How a scan uses a covering:
//! - points are indexed under their leaf cell. In an `Inside` range all match; in a `Boundary`
//!   range each is tested with [`Region::matches_entry`], by its leaf cell or else its exact coordinates.
//! - lines and polygons are indexed under the cells of [`index_cells`], at most
//!   [`INDEX_LEVEL_MAX`]. Those that may match have a cell id within some range, or one of
//!   [`ancestors`]. Each such document is tested, whatever the relation, and counted once.

mod along;
mod bound;
mod boundary;
mod cap;
mod cover;
mod cut;
mod geometry;
mod grid;
mod lookup;
mod near;
mod near_parse;
mod pairs;
mod parse;
mod planar;
mod plane_cover;
mod plane_grid;
mod predicates;
mod reach;
mod region;
mod relate;
mod text;
mod validate;
mod vector;

#[cfg(test)]
mod tests;

pub use along::values_along;
pub use cover::{
    CellRelation, CoverLimits, CoveredRange, FewCells, INDEX_LEVEL_MAX, StopAt, ancestors, cover,
    cover_plane, index_cells, point_cell,
};
pub use cut::{Cut, FlatPlaces};
pub use geometry::{BigPolygon, Geometry, Line, Polygon, Position};
pub use near::{Measured, Metric, Near, SpherePoint, SquaredChord};
pub use parse::on_sphere;
pub use plane_grid::PlaneGrid;
pub use reach::Reach;
pub use region::{GeoOperator, Region, key_error};
pub use s2rst::s2::CellId;
