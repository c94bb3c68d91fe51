//! Compiles the piece of C++ that RocksDB's encrypted environment is made by: the C interface cannot make one.

use std::env;
use std::path::PathBuf;

fn main() {
    const SOURCE: &str = "src/storage/rocks/environment.cc";
    // Where the crate that brings RocksDB keeps its sources.
    let crate_directory = env::var_os("DEP_ROCKSDB_CARGO_MANIFEST_DIR");
    let crate_directory =
        PathBuf::from(crate_directory.expect("librocksdb-sys says where it lies"));
    println!("cargo:rerun-if-changed={SOURCE}");
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .file(SOURCE)
        .include(crate_directory.join("rocksdb/include"))
        // As RocksDB itself is compiled. Without run-time type information it can be linked to either kind.
        .define("NDEBUG", None)
        .flag("-fno-rtti")
        .flag_if_supported("-Wno-unused-parameter")
        .compile("meridian_environment");
}
