//! A value of a column.

/// Bytes of a value that is computed, at most: a text of 16 bytes with its length and its terminator.
pub(crate) const INLINE_MAX: usize = 21;

/// A value: its type and its bytes, as they stand in a document.
#[derive(Clone)]
pub struct ColumnValue<'a> {
    kind: u8,
    bytes: Bytes<'a>,
}

/// Where the bytes are.
#[derive(Clone)]
pub(crate) enum Bytes<'a> {
    /// In the column.
    Borrowed(&'a [u8]),
    /// Here: so many of them.
    Inline([u8; INLINE_MAX], u8),
    /// A document put together of its fields.
    Built(Box<[u8]>),
}

impl<'a> ColumnValue<'a> {
    #[inline]
    pub(crate) fn new(kind: u8, bytes: Bytes<'a>) -> Self {
        Self { kind, bytes }
    }

    /// BSON's type byte.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The value's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl Bytes<'_> {
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Inline(bytes, length) => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Self::Built(bytes) => bytes,
        }
    }

    /// A copy of a few bytes.
    #[inline]
    pub fn inline(bytes: &[u8]) -> Self {
        let mut own = [0; INLINE_MAX];
        own[..bytes.len()].copy_from_slice(bytes);
        Self::Inline(own, bytes.len() as u8)
    }
}

impl std::fmt::Debug for Bytes<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:02x?}", self.as_slice())
    }
}

impl PartialEq for ColumnValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.bytes() == other.bytes()
    }
}

impl std::fmt::Debug for ColumnValue<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "ColumnValue({:#04x}, {:02x?})",
            self.kind,
            self.bytes()
        )
    }
}
