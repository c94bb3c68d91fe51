//! MongoDB's "BSON column": the compressed columns of time-series buckets (`BinData` subtype 7).
//!
//! In come BSON values, one a row, each as its type byte and its bytes, or no value; out comes the binary, and back.
//! The codec knows nothing of buckets: `control.count`, the order of columns and the metadata are its caller's.
//!
//! ```text
//! column   = item*  00
//! item     = literal | block | interleaved
//! literal  = type byte  00 (an empty name)  the value's bytes        type byte < 0x20
//! block    = control byte  word{1..16}
//!            high nibble: 8 = integers, 9..D = doubles times 1, 10, 100, 10^4, 10^8; low nibble: words - 1
//! word     = 8 bytes, little-endian: unsigned integers of equal width, or a run of the last one (see `selector`)
//! interleaved = F0|F1|F2  reference document  (literal | block)*  00
//! ```
//!
//! The integers of a block are differences to the row before, zigzagged; those of dates, timestamps and ObjectIds are
//! differences of differences. A slot of all ones is a row without a value. In interleaved mode every scalar of the
//! reference document is a stream of its own; the stream that runs out first owns the next literal or block.

mod arithmetic;
mod bytes;
mod decode;
mod decoder;
mod double;
mod encode;
mod encoder;
mod error;
mod merge;
mod packer;
mod rebuild;
mod selector;
mod sink;
mod unpacker;
mod value;

pub use decoder::ColumnDecoder;
pub use encoder::ColumnEncoder;
pub use error::ColumnError;
pub use value::ColumnValue;
