//! Looking up what decides about a point among thousands of edges.
//!
//! In: a boundary, once; then leaf cells. Out: the few edges near the leaf cell and a point
//! close by whose side is known. Cells of the boundary's area are split until few edges
//! pass near each.

use super::boundary::{Boundary, EdgeList, Locality};
use super::grid::{Frontier, GridTarget, middle_point, size};
use s2rst::s2::{Cell, CellId, Point};

/// Cells with the few edges of a boundary that pass near them, for looking up points.
#[derive(Debug)]
pub(super) struct PointIndex {
    /// The cells' first leaf ids, apart from the cells for the search's sake.
    firsts: Vec<u64>,
    /// Sorted by first leaf id; cells outside the shape are absent.
    cells: Vec<IndexCell>,
    edges: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct IndexCell {
    first: u64,
    last: u64,
    reference: Point,
    inside: bool,
    first_edge: u32,
    edge_count: u32,
}

impl PointIndex {
    /// A cell with more edges than this is split.
    const EDGES_MAX: u32 = 6;
    /// Cells are not split below this level, about ten metres.
    const LEVEL_MAX: u8 = 20;

    pub(super) fn new(boundary: &Boundary) -> Self {
        let targets = [GridTarget::Boundary(boundary)];
        let mut whole = Vec::new();
        let mut index = Self {
            firsts: Vec::new(),
            cells: Vec::new(),
            edges: Vec::new(),
        };
        let mut frontier = Frontier::roots(&targets, &mut whole);
        while !frontier.nodes.is_empty() {
            let mut next = Frontier::default();
            for node in &frontier.nodes {
                let item = frontier.items_of(node)[0];
                if item.edge_count <= Self::EDGES_MAX
                    || node.cell.level().as_u8() >= Self::LEVEL_MAX
                {
                    index.push(boundary, node.cell, item.inside, frontier.edges_of(&item));
                } else {
                    frontier.split(node, &targets, &mut next, &mut whole);
                }
            }
            frontier = next;
        }
        for id in whole {
            index.push(boundary, Cell::from_cell_id(id), true, &[]);
        }
        index.cells.sort_unstable_by_key(|cell| cell.first);
        index.firsts = index.cells.iter().map(|cell| cell.first).collect();
        index
    }

    fn push(&mut self, boundary: &Boundary, cell: Cell, inside: bool, flat: &[u32]) {
        let face = &boundary.flat()[cell.face().as_u8() as usize];
        let first_edge = size(self.edges.len());
        self.edges
            .extend(flat.iter().map(|index| face[*index as usize].edge));
        let (first, last) = (cell.id().range_min().id(), cell.id().range_max().id());
        let (reference, edge_count) = (middle_point(cell), size(flat.len()));
        self.cells.push(IndexCell {
            first,
            last,
            reference,
            inside,
            first_edge,
            edge_count,
        });
    }

    /// What decides about points in this leaf cell; `None` when it is outside.
    pub(super) fn find(&self, leaf: CellId) -> Option<Locality<'_>> {
        let after = self.firsts.partition_point(|first| *first <= leaf.id());
        let cell = self.cells[..after]
            .last()
            .filter(|cell| leaf.id() <= cell.last)?;
        let edges = &self.edges[cell.first_edge as usize..][..cell.edge_count as usize];
        Some(Locality {
            reference: cell.reference,
            inside: cell.inside,
            edges: EdgeList::Some(edges),
        })
    }
}
