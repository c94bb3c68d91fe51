//! `$geoNear` over the measurements of a time series.
//!
//! On the metadata it is one of the buckets, and their measurements follow in its order. On another field all measurements
//! that it wants are measured and sorted, as in MongoDB; where it has a `maxDistance`, buckets too far away are left out.

use super::pipeline::Split;
use crate::aggregate::{GeoNear, Stage};
use crate::error::{Error, Result};
use crate::query::{Filter, ParseContext, Sort};
use crate::timeseries::UnpackBucket;
use bson::RawDocumentBuf;
use bson::raw::RawBsonRef;
use bson::rawdoc;
use std::sync::Arc;

impl Split {
    /// Takes a `$geoNear` behind the stage that unpacks buckets.
    ///
    /// # Errors
    /// 5892921 without a `key`, 1938439 with a `query`, 5860208 with `includeLocs`, as in MongoDB; what the point refuses.
    pub(super) fn take_measured_nearest(&mut self, context: &ParseContext) -> Result<()> {
        let keeps_metadata = self.query.asked.search;
        if !matches!(self.stages.front(), Some(Stage::UnpackBucket(_)))
            || !matches!(self.stages.get(1), Some(Stage::GeoNear(_)))
        {
            return Ok(());
        }
        let (first, second) = (self.stages.pop_front(), self.stages.pop_front());
        let (Some(Stage::UnpackBucket(unpack)), Some(Stage::GeoNear(near))) = (first, second)
        else {
            return Ok(());
        };
        let key = near.key.clone().ok_or_else(|| {
            refused(
                5_892_921,
                "Must specify 'key' option for $geoNear on a time-series collection",
            )
        })?;
        if near.has_query() {
            return Err(refused(
                1_938_439,
                "Must not specify 'query' for $geoNear on a time-series collection; use $match instead",
            ));
        }
        let stages = match of_metadata(&key, &unpack) {
            Some(path) => self.nearest_buckets(&near, path, unpack, context, keeps_metadata)?,
            None => nearest_measurements(&near, unpack, context, keeps_metadata)?,
        };
        for stage in stages.into_iter().rev() {
            self.stages.push_front(stage);
        }
        Ok(())
    }

    /// The stages behind a search for the buckets whose metadata is nearest.
    fn nearest_buckets(
        &mut self,
        near: &GeoNear,
        path: String,
        unpack: Box<UnpackBucket>,
        context: &ParseContext,
        keeps_metadata: bool,
    ) -> Result<Vec<Stage>> {
        let mut of_buckets = near.clone();
        of_buckets.key = Some(path);
        let filter = Filter::parse_with(&of_buckets.filter(), context)?.simplify();
        self.query.nearest = filter.nearest()?;
        self.query.filter = Arc::new(filter);
        let measured = Filter::parse_with(&near.filter(), context)?.simplify();
        let add = measured
            .nearest()?
            .map(|nearest| near.add_distance(nearest, keeps_metadata));
        let add = add.map(|add| Stage::AddDistance(Box::new(add)));
        Ok([Some(Stage::UnpackBucket(unpack)), add]
            .into_iter()
            .flatten()
            .collect())
    }
}

/// The stages that measure and sort what is unpacked.
fn nearest_measurements(
    near: &GeoNear,
    unpack: Box<UnpackBucket>,
    context: &ParseContext,
    keeps_metadata: bool,
) -> Result<Vec<Stage>> {
    if near.has_location_field() {
        return Err(refused(
            5_860_208,
            "$geoNear 'includeLocs' is not supported on time-series metrics",
        ));
    }
    let filter = Filter::parse_with(&near.filter(), context)?.simplify();
    let Some(nearest) = filter.nearest()? else {
        return Err(Error::internal("a $geoNear without a point"));
    };
    let mut stages = vec![Stage::UnpackBucket(unpack)];
    if let Some(cap) = nearest.near.within() {
        let mut around = RawDocumentBuf::new();
        crate::query::append(
            &mut around,
            nearest.path.as_str(),
            rawdoc! { "$geoWithin": cap },
        );
        stages.push(Stage::Match(
            Filter::parse_with(&around, context)?.simplify(),
        ));
    }
    stages.push(Stage::Match(filter));
    let mut order = RawDocumentBuf::new();
    crate::query::append(&mut order, &near.distance_path(), RawBsonRef::Int32(1));
    stages.push(Stage::AddDistance(Box::new(
        near.add_distance(nearest, keeps_metadata).of_measurements(),
    )));
    stages.push(Stage::Sort {
        order: Sort::parse(&order)?,
        limit: None,
    });
    Ok(stages)
}

/// The path of buckets that a path of the metadata stands for.
fn of_metadata(key: &str, unpack: &UnpackBucket) -> Option<String> {
    let rest = key.strip_prefix(unpack.meta_field.as_deref()?)?;
    (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
}

fn refused(code: i32, message: &str) -> Error {
    Error::location(
        code,
        format!("Failed to optimize pipeline :: caused by :: {message}"),
    )
}
