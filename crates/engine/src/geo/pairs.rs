//! Pairs of edges that may meet, found by their bounding boxes in space.
//!
//! In: two lists of boxes. Out: every pair whose boxes overlap, each once. An edge's box
//! holds the whole arc, not only its chord.

use s2rst::s2::Point;
use std::ops::ControlFlow;

/// The axis-aligned box around a geodesic edge.
#[derive(Debug, Clone, Copy)]
pub(super) struct EdgeBox {
    low: [f64; 3],
    high: [f64; 3],
}

/// Larger than any rounding of a unit vector's coordinate.
const ROUNDING: f64 = 1e-14;

impl EdgeBox {
    pub(super) fn new(a: Point, b: Point) -> Self {
        // No point of an arc is farther from the chord than the arc's height.
        let height = 1.0 - ((a.0 + b.0) * 0.5).norm();
        let pad = height.max(0.0) + ROUNDING;
        let (a, b) = ([a.0.x, a.0.y, a.0.z], [b.0.x, b.0.y, b.0.z]);
        Self {
            low: std::array::from_fn(|axis| a[axis].min(b[axis]) - pad),
            high: std::array::from_fn(|axis| a[axis].max(b[axis]) + pad),
        }
    }

    /// The box around all boxes.
    fn around(boxes: &[Self]) -> Self {
        let (low, high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        boxes.iter().fold(Self { low, high }, |all, edge| Self {
            low: std::array::from_fn(|axis| all.low[axis].min(edge.low[axis])),
            high: std::array::from_fn(|axis| all.high[axis].max(edge.high[axis])),
        })
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        (0..3).all(|axis| self.low[axis] <= other.high[axis] && other.low[axis] <= self.high[axis])
    }
}

/// Calls `visit` with the indices of every overlapping pair until it breaks.
pub(super) fn overlapping_pairs(
    first: &[EdgeBox],
    second: &[EdgeBox],
    visit: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if first.len().saturating_mul(second.len()) <= 4096 {
        for (i, a) in first.iter().enumerate() {
            for (j, b) in second.iter().enumerate() {
                if a.overlaps(b) {
                    visit(i, j)?;
                }
            }
        }
        return ControlFlow::Continue(());
    }
    // A small shape beside a large one meets few of its edges.
    let (firsts, seconds) = (
        overlapping(first, EdgeBox::around(second)),
        overlapping(second, EdgeBox::around(first)),
    );
    if firsts.len().saturating_mul(seconds.len()) <= 1 << 16 {
        for &i in &firsts {
            for &j in &seconds {
                if first[i as usize].overlaps(&second[j as usize]) {
                    visit(i as usize, j as usize)?;
                }
            }
        }
        return ControlFlow::Continue(());
    }
    sweep(first, second, [firsts, seconds], visit)
}

fn overlapping(boxes: &[EdgeBox], around: EdgeBox) -> Vec<u32> {
    (0u32..)
        .zip(boxes)
        .filter(|(_, edge)| edge.overlaps(&around))
        .map(|(index, _)| index)
        .collect()
}

/// Calls `visit` with the indices `i < j` of every overlapping pair within one list.
pub(super) fn own_pairs(boxes: &[EdgeBox], visit: &mut dyn FnMut(usize, usize)) {
    let mut order: Vec<u32> = (0u32..).zip(boxes).map(|(index, _)| index).collect();
    sort_along_x(boxes, &mut order);
    let mut active: Vec<u32> = Vec::new();
    for &index in &order {
        let edge = &boxes[index as usize];
        active.retain(|&other| {
            let passed = boxes[other as usize].high[0] < edge.low[0];
            if !passed && edge.overlaps(&boxes[other as usize]) {
                visit(index.min(other) as usize, index.max(other) as usize);
            }
            !passed
        });
        active.push(index);
    }
}

/// Sweeps along x: a pair is met when the later box of the two begins.
fn sweep(
    first: &[EdgeBox],
    second: &[EdgeBox],
    [mut firsts, mut seconds]: [Vec<u32>; 2],
    visit: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> ControlFlow<()> {
    sort_along_x(first, &mut firsts);
    sort_along_x(second, &mut seconds);
    let (mut i, mut j) = (0, 0);
    let (mut active_first, mut active_second): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    while i < firsts.len() || j < seconds.len() {
        let take_first = j == seconds.len()
            || (i < firsts.len()
                && first[firsts[i] as usize].low[0] <= second[seconds[j] as usize].low[0]);
        if take_first {
            let index = firsts[i];
            let edge = &first[index as usize];
            active_second.retain(|&other| second[other as usize].high[0] >= edge.low[0]);
            for &other in &active_second {
                if edge.overlaps(&second[other as usize]) {
                    visit(index as usize, other as usize)?;
                }
            }
            active_first.push(index);
            i += 1;
        } else {
            let index = seconds[j];
            let edge = &second[index as usize];
            active_first.retain(|&other| first[other as usize].high[0] >= edge.low[0]);
            for &other in &active_first {
                if edge.overlaps(&first[other as usize]) {
                    visit(other as usize, index as usize)?;
                }
            }
            active_second.push(index);
            j += 1;
        }
    }
    ControlFlow::Continue(())
}

fn sort_along_x(boxes: &[EdgeBox], order: &mut [u32]) {
    order.sort_by(|&a, &b| boxes[a as usize].low[0].total_cmp(&boxes[b as usize].low[0]));
}
