//! Memory of a JavaScript engine, counted while it is taken.

// The trait that the engine's library has for this is unsafe.
#![allow(unsafe_code)]

use super::watch::Watch;
use crate::operation::memory::Reservation;
use rquickjs::allocator::{Allocator, RustAllocator};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// By so much the reservation grows at once.
const STEP_BYTES: usize = 1 << 20;
/// An engine takes as much before it can say that there is none.
const START_BYTES: usize = 2 << 20;
/// What more than this is free goes back to the budget.
const FREE_BYTES_MAX: usize = 4 << 20;
/// After so many allocations, or as many times [`CHECKED_BYTES`], it is asked whether the call may go on: between two
/// loops of a function may lie ten thousand calls of built-in functions.
const CHECKED_ALLOCATIONS: usize = 1 << 14;
const CHECKED_BYTES: usize = 4 << 10;

/// The most that one engine may take.
fn heap_bytes_max() -> usize {
    let mebibytes = super::HEAP_MEBIBYTES_MAX.load(Ordering::Relaxed);
    usize::try_from(mebibytes).unwrap_or(0) << 20
}

/// Takes memory from the process's budget; where there is none left, scripts get an "out of memory" exception.
pub(super) struct BudgetAllocator {
    taken: usize,
    reserved: Reservation,
    watch: Rc<Watch>,
    unchecked: usize,
}

impl BudgetAllocator {
    /// None where there is not even enough to start an engine.
    pub(super) fn new(watch: Rc<Watch>) -> Option<Self> {
        let mut reserved = Reservation::none();
        reserved.try_grow(START_BYTES).then_some(Self {
            taken: 0,
            reserved,
            watch,
            unchecked: 0,
        })
    }

    fn may_take(&mut self, bytes: usize) -> bool {
        self.unchecked += 1 + bytes / CHECKED_BYTES;
        if self.unchecked >= CHECKED_ALLOCATIONS {
            if self.watch.is_over_already() {
                return false;
            }
            self.unchecked = 0;
        }
        let wanted = self.taken.saturating_add(bytes);
        wanted <= self.reserved.bytes()
            || (wanted <= heap_bytes_max()
                && self.reserved.try_grow(wanted.next_multiple_of(STEP_BYTES)))
    }

    fn note(&mut self, pointer: *mut u8) -> *mut u8 {
        if !pointer.is_null() {
            // SAFETY: the allocator below has just given it.
            self.taken += unsafe { RustAllocator::usable_size(pointer) };
        }
        pointer
    }
}

// SAFETY: what is not refused is given by `RustAllocator`, which has the properties that are asked for.
unsafe impl Allocator for BudgetAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        match self.may_take(size) {
            true => {
                let pointer = RustAllocator.alloc(size);
                self.note(pointer)
            }
            false => std::ptr::null_mut(),
        }
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            Some(bytes) if self.may_take(bytes) => {
                let pointer = RustAllocator.calloc(count, size);
                self.note(pointer)
            }
            _ => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&mut self, pointer: *mut u8) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            self.taken = self
                .taken
                .saturating_sub(RustAllocator::usable_size(pointer));
            RustAllocator.dealloc(pointer);
        }
        if self.reserved.bytes() > self.taken + FREE_BYTES_MAX {
            self.reserved.shrink(self.taken + STEP_BYTES);
        }
    }

    unsafe fn realloc(&mut self, pointer: *mut u8, size: usize) -> *mut u8 {
        if pointer.is_null() {
            return self.alloc(size);
        }
        // SAFETY: the caller's promise is the same.
        unsafe {
            let before = RustAllocator::usable_size(pointer);
            if size > before && !self.may_take(size - before) {
                return std::ptr::null_mut();
            }
            let moved = RustAllocator.realloc(pointer, size);
            if !moved.is_null() {
                self.taken = self.taken.saturating_sub(before);
            }
            self.note(moved)
        }
    }

    unsafe fn usable_size(pointer: *mut u8) -> usize {
        // SAFETY: the caller's promise is the same.
        unsafe { RustAllocator::usable_size(pointer) }
    }
}
