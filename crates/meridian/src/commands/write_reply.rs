//! What the replies of `insert`, `update` and `delete` share: limits and `writeErrors`.

use super::hello::WRITE_BATCH_COUNT_MAX;
use meridian_engine::{Code, Error, Result, WriteError};
use meridian_wire::DocumentWriter;

/// Past this many bytes of errors, messages are left out, so that a reply stays a valid
/// document. MongoDB's `kMaxErrorSize`-like rule of 1 MiB.
const ERROR_BYTES_MAX: usize = 1024 * 1024;

/// Checks the number of statements.
///
/// # Errors
/// `InvalidLength` with MongoDB's message.
pub fn check_batch_count(count: usize) -> Result<()> {
    if (1..=WRITE_BATCH_COUNT_MAX).contains(&count) {
        return Ok(());
    }
    let message = format!(
        "Write batch sizes must be between 1 and {WRITE_BATCH_COUNT_MAX}. Got {count} operations."
    );
    Err(Error::new(Code::InvalidLength, message))
}

/// Whether an error of one statement is the whole command's: it was killed, or its time is over.
pub fn ends_command(error: &Error) -> bool {
    matches!(error.code, Code::Interrupted | Code::MaxTimeMSExpired)
}

/// Appends `writeErrors` if there are any.
pub fn write_errors(errors: &[WriteError], reply: &mut DocumentWriter<'_>) {
    if errors.is_empty() {
        return;
    }
    let mut list = reply.array("writeErrors");
    for failed in errors {
        let complete = list.size_bytes() < ERROR_BYTES_MAX;
        let mut row = list.document();
        row.count("index", failed.index.try_into().unwrap_or(i64::MAX));
        row.int32("code", failed.error.code.number());
        row.string("errmsg", if complete { &failed.error.message } else { "" });
        if let (Some(fields), true) = (&failed.error.fields, complete) {
            row.elements(fields);
        }
    }
}
