//! Stages that MongoDB has for replica sets, for sharded clusters and for itself: a standalone refuses them, in these words.

use crate::error::{Code, Error};
use bson::raw::RawBsonRef;

/// Why a stage of this name is refused; `None` for a name that is no such stage.
pub(super) fn refusal(name: &str, raw: RawBsonRef<'_>) -> Option<Error> {
    let options = raw.as_document();
    Some(match name {
        "$changeStream" if options.is_none() => Error::location(
            6_188_500,
            format!(
                "$changeStream must take a nested object but found: {}",
                crate::text::element(name, raw)
            ),
        ),
        "$changeStream" => Error::location(
            40_573,
            "The $changeStream stage is only supported on replica sets",
        ),
        "$operationMetrics" => Error::new(
            Code::CommandNotSupported,
            "The aggregateOperationResourceConsumption server parameter is not set",
        ),
        "$shardedDataDistribution" if options.is_some_and(|options| options.is_empty()) => {
            let message = "The $shardedDataDistribution stage can only be run on mongoS";
            Error::location(6_789_101, message)
        }
        "$shardedDataDistribution" => Error::location(
            6_789_100,
            "The $shardedDataDistribution stage specification must be an empty object",
        ),
        "$listCachedAndActiveUsers" => Error::new(
            Code::QueryFeatureNotAllowed,
            format!(
                "{name} is not allowed with the current configuration. You may need to enable the corresponding feature \
                 flag"
            ),
        ),
        "$queue"
        | "$setVariableFromSubPipeline"
        | "$_internalDensify"
        | "$_internalBoundedSort"
        | "$_addReshardingResumeId"
        | "$_internalReshardingIterateTransaction" => Error::location(
            5_491_300,
            format!("{name}' is not allowed in user requests"),
        ),
        _ => return None,
    })
}
