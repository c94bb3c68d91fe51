//! What a connection's thread gives back when its client has been silent for a while.
//!
//! Thousands of idle connections are common: every pool of every client process keeps some. The thread
//! stays, but not what its last command left behind: pieces of memory that the allocator keeps for it, and
//! the pages of its stack that deep calls have touched.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Below the frames of the calls that give the stack back.
const MARGIN_BYTES: usize = 4 * 1024;
/// How much of the stack is given back: what lies below is touched by the deepest recursions only.
const STACK_BYTES: usize = 512 * 1024;
const PAGE_BYTES: usize = 4096;

/// Ends what [`give_back`] began: a request has come.
pub fn take_again() {
    keep_memory(true);
}

/// Whether the allocator keeps memory for this thread, with room to note it.
fn keep_memory(mut is_kept: bool) {
    // SAFETY: the name ends with a zero byte, and the setting is a bool that is only read.
    unsafe {
        tikv_jemalloc_sys::mallctl(
            c"thread.tcache.enabled".as_ptr(),
            null_mut(),
            null_mut(),
            (&raw mut is_kept).cast::<c_void>(),
            size_of::<bool>(),
        );
    }
}

/// Gives it back, until [`take_again`]. To be called by a connection's thread where it waits for a request, near the top of its
/// stack.
#[inline(never)]
pub fn give_back() {
    keep_memory(false);
    let here = 0_u8;
    let end = ((&raw const here).addr() - MARGIN_BYTES) / PAGE_BYTES * PAGE_BYTES;
    let start = (&raw const here).with_addr(end - STACK_BYTES);
    // SAFETY: these are pages of this thread's stack, which has 2 MiB and of which little is used here, below
    // all frames: whatever is in them is dead. The system gives zeroed pages when they are touched again.
    let given_back = unsafe {
        madvise(
            start.cast_mut().cast::<c_void>(),
            STACK_BYTES,
            Advice::LinuxDontNeed,
        )
    };
    if let Err(error) = given_back {
        tracing::debug!(%error, "a stack could not be given back");
    }
}
