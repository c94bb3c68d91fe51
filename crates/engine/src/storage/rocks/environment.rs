//! What RocksDB reaches files through: the system, or the system behind a cipher.
//!
//! The library has an encrypted environment, but its C interface cannot make one. `environment.cc` does, and calls
//! back here for the cipher, [`DataKey`] and [`Keystream`].
#![allow(unsafe_code)]

use crate::storage::encryption::{DataKey, HEADER_BYTES, Keystream};
use rocksdb::Env;
use std::ffi::c_void;
use std::sync::Arc;

/// Laid out as `meridian_cipher_functions` in environment.cc.
#[repr(C)]
struct CipherFunctions {
    key: *mut c_void,
    header_bytes: usize,
    new_header: unsafe extern "C" fn(*const c_void, *mut u8),
    open_stream: unsafe extern "C" fn(*const c_void, *const u8, usize) -> *mut c_void,
    apply: unsafe extern "C" fn(*const c_void, u64, *mut u8, usize),
    drop_stream: unsafe extern "C" fn(*mut c_void),
    drop_key: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    fn meridian_encrypted_environment(
        functions: *const CipherFunctions,
    ) -> *mut librocksdb_sys::rocksdb_env_t;
}

/// The environment for a directory whose files `key` encrypts, if any.
pub(super) fn environment(key: Option<&Arc<DataKey>>) -> Result<Env, rocksdb::Error> {
    let mut environment = match key {
        None => Env::new()?,
        Some(key) => encrypted(key.clone()),
    };
    // Merges take what requests leave: they catch up before anybody must wait for them.
    environment.lower_thread_pool_cpu_priority();
    Ok(environment)
}

fn encrypted(key: Arc<DataKey>) -> Env {
    let functions = CipherFunctions {
        key: Arc::into_raw(key).cast_mut().cast(),
        header_bytes: HEADER_BYTES,
        new_header,
        open_stream,
        apply,
        drop_stream,
        drop_key,
    };
    // SAFETY: the functions are those that the other side expects, and it keeps a copy of the table. The new
    // environment is nobody else's.
    unsafe { Env::from_raw(meridian_encrypted_environment(&raw const functions)) }
}

// SAFETY of all below: `key` comes from `encrypted`, `stream` from `open_stream`, each is dropped once and last; the
// bytes are the caller's for the time of the call, `HEADER_BYTES` for a new header.

unsafe extern "C" fn new_header(key: *const c_void, header: *mut u8) {
    let key = unsafe { &*key.cast::<DataKey>() };
    let header = unsafe { std::slice::from_raw_parts_mut(header, HEADER_BYTES) };
    header.copy_from_slice(&key.new_header());
}

unsafe extern "C" fn open_stream(
    key: *const c_void,
    header: *const u8,
    length: usize,
) -> *mut c_void {
    let key = unsafe { &*key.cast::<DataKey>() };
    let header = unsafe { std::slice::from_raw_parts(header, length) };
    key.keystream(header)
        .map_or(std::ptr::null_mut(), |stream| {
            Box::into_raw(Box::new(stream)).cast()
        })
}

unsafe extern "C" fn apply(stream: *const c_void, offset: u64, data: *mut u8, length: usize) {
    if length > 0 {
        let stream = unsafe { &*stream.cast::<Keystream>() };
        stream.apply(offset, unsafe {
            std::slice::from_raw_parts_mut(data, length)
        });
    }
}

unsafe extern "C" fn drop_stream(stream: *mut c_void) {
    drop(unsafe { Box::from_raw(stream.cast::<Keystream>()) });
}

unsafe extern "C" fn drop_key(key: *mut c_void) {
    drop(unsafe { Arc::from_raw(key.cast::<DataKey>().cast_const()) });
}
