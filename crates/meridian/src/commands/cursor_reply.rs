//! The `cursor` field of a reply: documents go from the engine straight into the send buffer.

use super::arguments::elements;
use super::context::Context;
use crate::service::{BATCH_BYTES_MAX, Service};
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_engine::text::element;
use meridian_engine::{Code, Error, Namespace, Query, Result};
use meridian_wire::DocumentWriter;

/// How many documents a first batch has when nobody says.
pub const FIRST_BATCH_COUNT: usize = 101;

/// A computed document may be a little larger than a stored one: MongoDB's
/// `BSONObjMaxInternalSize`.
const RESULT_BYTES_MAX: usize = 16 * 1024 * 1024 + 16 * 1024;

/// What to do after the first batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorOptions {
    /// How many documents to answer with at first.
    pub batch_count: usize,
    /// Close the cursor whatever is left.
    pub single_batch: bool,
    /// Keep the cursor however long nobody asks.
    pub no_timeout: bool,
}

impl CursorOptions {
    /// With this `batchSize`, which may be absent.
    pub fn with_batch(batch_size: Option<u64>) -> Self {
        let batch_count = batch_size.map_or(FIRST_BATCH_COUNT, |count| {
            usize::try_from(count).unwrap_or(usize::MAX)
        });
        Self {
            batch_count,
            single_batch: false,
            no_timeout: false,
        }
    }
}

/// Writes `cursor: {firstBatch, id, ns}` and opens a cursor if documents are left.
pub fn write_first_batch(
    context: &Context<'_>,
    mut query: Query,
    namespace: Namespace,
    options: CursorOptions,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut cursor = reply.document("cursor");
    let share = &context.client.reply_share;
    let mut fits = |bytes: usize| {
        if options.single_batch {
            // Nothing may come later: only the limit that MongoDB has too makes it smaller.
            share.take(bytes.min(BATCH_BYTES_MAX));
        }
        share.fits(bytes)
    };
    let exhausted = write_batch(context.service, &mut cursor, "firstBatch", |sink| {
        query.fill_while(Some(options.batch_count), &mut fits, sink)
    })?;
    let name = namespace.to_string();
    let id = if exhausted || options.single_batch {
        0
    } else {
        let owner = context.cursor_owner();
        context
            .engine()
            .cursors()
            .open(query, namespace, owner, options.no_timeout)?
    };
    cursor.int64("id", id).string("ns", &name);
    Ok(())
}

/// Writes an array of whatever documents `fill` gives; returns what it returns.
pub fn write_batch<T>(
    service: &Service,
    cursor: &mut DocumentWriter<'_>,
    field: &str,
    fill: impl FnOnce(&mut dyn FnMut(&RawDocument)) -> Result<T>,
) -> Result<T> {
    let mut batch = cursor.array(field);
    let mut too_large = None;
    let outcome = fill(&mut |document| {
        if document.as_bytes().len() <= RESULT_BYTES_MAX {
            batch.push_document(document);
        } else {
            too_large = Some(result_too_large(document));
        }
    });
    service.counters.documents_returned.add_size(batch.count());
    match too_large {
        Some(error) => Err(error),
        None => outcome,
    }
}

fn result_too_large(document: &RawDocument) -> Error {
    let size = document.as_bytes().len();
    let first = elements(document).next();
    let first = first.map_or(String::new(), |(name, value)| element(name, value));
    let message = format!(
        "PlanExecutor error during aggregation :: caused by :: BSONObj size: {size} (0x{size:X}) is \
         invalid. Size must be between 0 and {RESULT_BYTES_MAX}(16MB) First element: {first}"
    );
    Error::new(Code::BSONObjectTooLarge, message)
}

/// Writes `cursor: {id, ns, firstBatch}` for a list, and opens a cursor for what the batch leaves.
pub fn write_list(
    context: &Context<'_>,
    mut documents: Vec<RawDocumentBuf>,
    namespace: Namespace,
    options: CursorOptions,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let left = documents.split_off(batch_end(&documents, options.batch_count));
    let name = namespace.to_string();
    let id = if left.is_empty() {
        0
    } else {
        let query = Query::from_documents(left);
        let cursors = context.engine().cursors();
        cursors.open(query, namespace, context.cursor_owner(), options.no_timeout)?
    };
    let mut cursor = reply.document("cursor");
    cursor.int64("id", id).string("ns", &name);
    let mut batch = cursor.array("firstBatch");
    for document in &documents {
        batch.push_document(document);
    }
    Ok(())
}

/// How many of the documents one batch takes, of `count` at most.
fn batch_end(documents: &[RawDocumentBuf], count: usize) -> usize {
    let mut bytes = 0;
    let fits = |(index, document): &(usize, &RawDocumentBuf)| {
        bytes += document.as_bytes().len();
        *index == 0 || bytes <= BATCH_BYTES_MAX
    };
    let documents = documents.iter().take(count).enumerate();
    documents.take_while(fits).count()
}

/// Writes `cursor: {id: 0, ns, firstBatch}` for a list that is there in full.
pub fn write_complete<'d>(
    namespace: &str,
    documents: impl Iterator<Item = &'d RawDocument>,
    reply: &mut DocumentWriter<'_>,
) {
    let mut cursor = reply.document("cursor");
    cursor.int64("id", 0).string("ns", namespace);
    let mut batch = cursor.array("firstBatch");
    for document in documents {
        batch.push_document(document);
    }
}
