//! The `meridian` binary: the server, and the tools around it.

mod access;
mod cli;
mod commands;
mod demo;
mod export;
mod import;
mod server;
mod service;

use clap::Parser as _;
use std::process::ExitCode;

/// Settings of the allocator (jemalloc, which the storage library brings). It would give buffers of 8 MiB
/// and more back at once: a large reply would then be written to fresh pages every time, a third of its
/// cost. From 20 MiB on it may, which is only the largest requests. And it would keep 200 free pieces of every size for each thread: 27 KiB more each.
/// What threads give back it would keep until they allocate again, did no thread of its own look. And it
/// would add a page to every large piece, so that they begin at different places of the processor's cache:
/// a quarter more memory for the block cache. It would keep free pages for ten seconds, in four
/// arenas for each core: after one large statement the next begins with hundreds of megabytes that nobody
/// uses, beyond what the process may take. One arena for each core finds free pages that another thread left.
#[allow(unsafe_code, non_upper_case_globals)]
// SAFETY: the name is jemalloc's for this setting, a pointer to a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub static malloc_conf: &[u8; 135] =
    b"oversize_threshold:20971520,tcache_nslots_small_max:32,background_thread:true,cache_oblivious:false,dirty_decay_ms:200,narenas_ratio:1\0";

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("meridian: {error:#}");
            ExitCode::FAILURE
        }
    }
}
