//! The evaluation on a server that speaks MongoDB's protocol.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bson::{Document, RawDocumentBuf, doc, rawdoc};

use super::dataset::{Between, PAGE, Questions, messages};
use super::encode::{self, Key};
use super::generator::Generator;
use super::queries::{self, DateFilter, EVENTS};
use super::rectangle::Rectangle;
use super::{Plan, ageing};
use crate::client::{check_ok, command_message, reply_document};
use crate::load::{self, BATCH, Encoded, Load};
use crate::measure::{Measure, Unit, time_runs};
use crate::process::own_processor_seconds;
use crate::progress;
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::document::{DocumentServer, number};

/// The database that a run makes and drops.
pub const DATABASE: &str = "meridian_bench_weather";

/// Runs everything and fills a report.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run(server: &DocumentServer, plan: &Plan) -> anyhow::Result<TargetReport> {
    let mut report = TargetReport::new(&server.name, server.version()?, server.settings.clone());
    drop_database(server)?;
    let outcome = measure(server, plan, &mut report);
    if outcome.is_ok() {
        drop_database(server)?;
    }
    outcome.with_context(|| format!("{}: its log ends:\n{}", server.name, server.log_tail()))?;
    Ok(report)
}

fn measure(server: &DocumentServer, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    load_then_index(server, plan, report)?;
    load_by_driver(server, plan, report)?;
    load_with_indexes(server, plan, report)?;
    storage::of_collection(server, DATABASE, EVENTS, report)?;
    counts(server, DATABASE, plan, report)?;
    areas(server, DATABASE, plan, report)?;
    pages(server, DATABASE, plan, report)?;
    roll_ups(server, DATABASE, plan, report)?;
    memory(server, report);
    if plan.ageing {
        age(server, plan, report)?;
    }
    Ok(())
}

/// Drops what a run made.
///
/// # Errors
/// The server's.
pub fn drop_database(server: &DocumentServer) -> anyhow::Result<()> {
    server.drop_database(DATABASE)
}

fn drop_events(server: &DocumentServer) -> anyhow::Result<()> {
    server.command(DATABASE, doc! { "drop": EVENTS })?;
    Ok(())
}

/// Makes the collection with its validator, and its indexes.
///
/// # Errors
/// The server's.
pub fn create_with_indexes(
    server: &DocumentServer,
    database: &str,
    key: Key,
) -> anyhow::Result<()> {
    server.command(database, queries::create_events(EVENTS, key))?;
    server.command(database, queries::create_indexes(EVENTS, key))?;
    Ok(())
}

fn insert_body(collection: &str) -> RawDocumentBuf {
    rawdoc! { "insert": collection, "ordered": true, "$db": DATABASE }
}

fn send(server: &DocumentServer, encoded: &Encoded, what: &str) -> anyhow::Result<Load> {
    let batches = encoded.batches.iter();
    load::insert(server, batches, encoded.count(), what, load::unwatched)
}

fn load_then_index(
    server: &DocumentServer,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    server.command(DATABASE, queries::create_events(EVENTS, plan.dataset.key))?;
    let encoded = plan.dataset.messages(&insert_body(EVENTS));
    let load = send(server, &encoded, "load without indexes")?;
    report.add(load.measure("without indexes, plain client", encoded.seconds));
    drop(encoded);
    let spinner = progress::spinner(&format!("{}: building the indexes", server.name));
    let started = Instant::now();
    server.command(DATABASE, queries::create_indexes(EVENTS, plan.dataset.key))?;
    report.add(Measure::single(
        "Ingest",
        "index build afterwards",
        Unit::Seconds,
        started.elapsed().as_secs_f64(),
    ));
    spinner.finish_and_clear();
    drop_events(server)
}

fn load_by_driver(
    server: &DocumentServer,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    create_with_indexes(server, DATABASE, plan.dataset.key)?;
    let encoding = Instant::now();
    let documents = plan.dataset.documents();
    let encode_seconds = encoding.elapsed().as_secs_f64();
    let collection = server
        .driver
        .database(DATABASE)
        .collection::<RawDocumentBuf>(EVENTS);
    let bar = progress::bar(
        plan.dataset.events,
        &format!("{}: insert_many with indexes", server.name),
    );
    let processor_before = own_processor_seconds();
    let started = Instant::now();
    for batch in documents.chunks(BATCH) {
        let inserted = server.wait(async { collection.insert_many(batch).await })?;
        ensure!(
            inserted.inserted_ids.len() == batch.len(),
            "the driver reports fewer events than were sent"
        );
        bar.inc(batch.len() as u64);
    }
    let load = Load {
        seconds: started.elapsed().as_secs_f64(),
        client_seconds: own_processor_seconds() - processor_before,
        documents: plan.dataset.events,
    };
    bar.finish_and_clear();
    let name = "with indexes and validator, driver (insert_many)";
    report.add(load.measure(name, encode_seconds));
    drop_events(server)
}

fn load_with_indexes(
    server: &DocumentServer,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    create_with_indexes(server, DATABASE, plan.dataset.key)?;
    let encoded = plan.dataset.messages(&insert_body(EVENTS));
    let before = server.observe();
    let load = send(server, &encoded, "load with indexes")?;
    let name = "with indexes and validator, plain client";
    report.add(load.measure(name, encoded.seconds));
    let mut best = load.rate();
    if let Some(driver) =
        report.median("Ingest", "with indexes and validator, driver (insert_many)")
    {
        best = best.max(driver);
    }
    report.add(Measure::single(
        "Ingest",
        "with indexes and validator, best client",
        Unit::PerSecond,
        best,
    ));
    if let (Some(before), Some(after)) = (before, server.observe()) {
        let microseconds =
            (after.processor_seconds - before.processor_seconds) * 1e6 / load.documents as f64;
        report.add(Measure::single(
            "Ingest",
            "server's processor time for 1,000,000 events",
            Unit::Seconds,
            microseconds,
        ));
        report.peak_during_load(after.memory_peak_bytes);
    }
    let stored = count_command(server, DATABASE, &doc! {})?;
    ensure!(
        stored == plan.dataset.events,
        "the collection holds {stored} of {} events",
        plan.dataset.events
    );
    Ok(())
}

pub(super) fn memory(server: &DocumentServer, report: &mut TargetReport) {
    if let Some(cache) = server.cache_bytes() {
        report.add(Measure::megabytes("Storage", "cache in use", cache));
    }
    let Some(seen) = server.observe() else { return };
    if let Some(bytes) = seen.memory_bytes {
        report.add(Measure::megabytes(
            "Storage",
            "memory after the queries",
            bytes,
        ));
    }
    if let Some(bytes) = seen.memory_peak_bytes {
        report.add(Measure::megabytes(
            "Storage",
            "most memory of the main process",
            bytes,
        ));
    }
}

fn count_command(
    server: &DocumentServer,
    database: &str,
    filter: &Document,
) -> anyhow::Result<u64> {
    server.count_documents(database, EVENTS, filter.clone())
}

pub(super) fn counts(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let Questions {
        date,
        number,
        number_wide,
        ..
    } = plan.dataset.questions();
    let field = queries::number_field(plan.dataset.key);
    let date_text = queries::date_text("startdatetime", date);
    let mut ask = |name: &str, expected: u64, filter: &dyn Fn() -> anyhow::Result<Document>| {
        let mut found = 0;
        let samples = time_runs(plan.repeats, || {
            found = count_command(server, database, &filter()?)?;
            Ok(())
        })?;
        report.add(Measure::new("Counts", name, Unit::Milliseconds, samples));
        report.answer(name, found, expected)
    };
    let answers = plan.answers;
    ask("date range, parsed text", answers.date, &|| {
        queries::parse_filter(&date_text)
    })?;
    ask("date range, built document", answers.date, &|| {
        Ok(queries::date_document("startdatetime", date))
    })?;
    ask("date range, typed helper", answers.date, &|| {
        DateFilter::document(date)
    })?;
    for (label, expected, range) in number_ranges(plan, number, number_wide) {
        let text = queries::number_text(field, range);
        ask(
            &format!("number range ({label}), parsed text"),
            expected,
            &|| queries::parse_filter(&text),
        )?;
        ask(
            &format!("number range ({label}), built document"),
            expected,
            &|| Ok(queries::number_document(field, range)),
        )?;
        ask(
            &format!("number range ({label}), typed helper"),
            expected,
            &|| queries::typed_number(field, range),
        )?;
    }
    count_by_aggregate(server, database, plan, report, date)
}

/// The two number ranges with their labels and right answers.
pub fn number_ranges(
    plan: &Plan,
    narrow: Between,
    wide: Between,
) -> [(&'static str, u64, Between); 2] {
    [
        ("9", plan.answers.number, narrow),
        ("9 %", plan.answers.number_wide, wide),
    ]
}

fn count_by_aggregate(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
    date: Between,
) -> anyhow::Result<()> {
    let collection = server
        .driver
        .database(database)
        .collection::<RawDocumentBuf>(EVENTS);
    let mut found = 0;
    let samples = time_runs(plan.repeats, || {
        let filter = queries::date_document("startdatetime", date);
        found = server.wait(async { collection.count_documents(filter).await })?;
        Ok(())
    })?;
    let name = "date range, driver's count_documents";
    report.add(Measure::new("Counts", name, Unit::Milliseconds, samples));
    report.answer(name, found, plan.answers.date)
}

pub(super) fn areas(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    for (zoom, rectangle) in plan.dataset.questions().zooms.iter().enumerate() {
        let name = format!("zoom {}", zoom + 1);
        let spinner = progress::spinner(&format!("{}: counting {name}", server.name));
        let filter = queries::in_area(rectangle);
        let mut found = 0;
        let samples = time_runs(plan.repeats, || {
            found = count_command(server, database, &filter)?;
            Ok(())
        })?;
        spinner.finish_and_clear();
        report.add(Measure::new(
            "Area counts",
            &name,
            Unit::Milliseconds,
            samples,
        ));
        report.answer(
            &format!("area count, {name}"),
            found,
            plan.answers.zooms[zoom],
        )?;
    }
    Ok(())
}

pub(super) fn pages(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    for (zoom, rectangle) in plan.dataset.questions().zooms.iter().enumerate() {
        let name = format!("zoom {}", zoom + 1);
        page_raw(server, database, plan, report, rectangle, &name)?;
        let events = page_by_driver(server, database, plan, report, rectangle, &name)?;
        check_page(&events, rectangle, plan)?;
        let expected = PAGE.min(plan.answers.zooms[zoom]);
        report.answer(&format!("page, {name}"), events.len() as u64, expected)?;
    }
    Ok(())
}

fn page_raw(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
    rectangle: &Rectangle,
    name: &str,
) -> anyhow::Result<()> {
    let mut client = server.plain_client()?;
    let filter = RawDocumentBuf::try_from(&queries::in_area(rectangle))?;
    let message = command_message(&rawdoc! {
        "find": EVENTS, "filter": filter, "limit": PAGE as i32, "batchSize": PAGE as i32, "$db": database,
    });
    let mut bytes = 0;
    let samples = time_runs(plan.repeats, || {
        client.send(&message)?;
        bytes = client.receive()?.len();
        Ok(())
    })?;
    client.send(&message)?;
    check_ok(reply_document(client.receive()?)?)?;
    let row = Measure::new(
        "Area pages",
        &format!("{name}, raw"),
        Unit::Milliseconds,
        samples,
    );
    report.add(row.noted(format!("{:.2} MB a page", bytes as f64 / 1e6)));
    Ok(())
}

fn page_by_driver(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
    rectangle: &Rectangle,
    name: &str,
) -> anyhow::Result<Vec<Document>> {
    let collection = server
        .driver
        .database(database)
        .collection::<Document>(EVENTS);
    let mut events = Vec::new();
    let samples = time_runs(plan.repeats, || {
        events.clear();
        server.wait(async {
            let mut cursor = collection
                .find(queries::in_area(rectangle))
                .limit(PAGE as i64)
                .batch_size(PAGE as u32)
                .await?;
            while cursor.advance().await? {
                events.push(cursor.deserialize_current()?);
            }
            Ok::<_, anyhow::Error>(())
        })
    })?;
    report.add(Measure::new(
        "Area pages",
        &format!("{name}, driver"),
        Unit::Milliseconds,
        samples,
    ));
    Ok(events)
}

/// Every event of a page lies in the area and is there once.
fn check_page(events: &[Document], rectangle: &Rectangle, plan: &Plan) -> anyhow::Result<()> {
    let field = queries::number_field(plan.dataset.key);
    let mut seen = std::collections::HashSet::with_capacity(events.len());
    for event in events {
        let number = event
            .get_i32(field)
            .context("an event of a page has no number")?;
        ensure!(seen.insert(number), "event {number} is in a page twice");
        let coordinates = event.get_document("location")?.get_array("coordinates")?;
        let position: Vec<f64> = coordinates.iter().filter_map(bson::Bson::as_f64).collect();
        ensure!(
            position.len() == 2 && rectangle.contains(position[0], position[1]),
            "event {number} at {position:?} is not in the area asked for"
        );
    }
    Ok(())
}

pub(super) fn roll_ups(
    server: &DocumentServer,
    database: &str,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    for (from, into, pipeline) in queries::roll_ups() {
        let spinner = progress::spinner(&format!("{}: roll-up to {into}", server.name));
        let started = Instant::now();
        server.command(
            database,
            doc! { "aggregate": from, "pipeline": pipeline, "cursor": {} },
        )?;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        spinner.finish_and_clear();
        report.add(Measure::single(
            "Ageing",
            &format!("roll-up to {into}"),
            Unit::Milliseconds,
            milliseconds,
        ));
        let total = doc! { "$group": { "_id": null, "events": { "$sum": "$events" } } };
        let reply = server.command(
            database,
            doc! { "aggregate": into, "pipeline": [total], "cursor": {} },
        )?;
        let first = reply
            .get_document("cursor")?
            .get_array("firstBatch")?
            .first()
            .and_then(bson::Bson::as_document);
        let events = first.and_then(|group| number(group, "events")).unwrap_or(0);
        report.answer(
            &format!("events in the {into} roll-up"),
            events,
            plan.dataset.events,
        )?;
    }
    Ok(())
}

/// Both forms of ageing, waiting for the server's own sweep.
fn age(server: &DocumentServer, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    // Servers sweep every 60 s unless told otherwise; one that does not know the parameter keeps its pace.
    let _ = server.command(
        "admin",
        doc! { "setParameter": 1, "ttlMonitorSleepSecs": 1 },
    );
    for form in ageing::Form::ALL {
        let aged = ageing::Aged::prepare(plan);
        server.command(DATABASE, queries::create_events("aged", plan.dataset.key))?;
        server.command(DATABASE, queries::create_indexes("aged", plan.dataset.key))?;
        let body = insert_body("aged");
        let events = Generator::new(aged.events, plan.dataset.seed).shifted(aged.shift_ms);
        let key = plan.dataset.key;
        let encoded = Encoded::collect(messages(events, &body, |event, out| match form {
            ageing::Form::LastUpdate => encode::bson(event, key, out),
            ageing::Form::ExpirationDate => {
                encode::bson_with_expiration(event, key, ageing::LIFETIME_MS, out)
            }
        }));
        send(server, &encoded, "load of aged events")?;
        report.add(wait_for_sweep(server, &aged, form)?);
        let left = count_aged(server, &doc! {})?;
        ensure!(
            aged.survivors_plausible(left),
            "{left} of {} events are left after the sweep, which is wrong",
            aged.events
        );
        server.command(DATABASE, doc! { "drop": "aged" })?;
    }
    Ok(())
}

fn wait_for_sweep(
    server: &DocumentServer,
    aged: &ageing::Aged,
    form: ageing::Form,
) -> anyhow::Result<Measure> {
    let (field, seconds) = match form {
        ageing::Form::LastUpdate => ("lastupdatedatetime", ageing::LIFETIME_MS / 1000),
        ageing::Form::ExpirationDate => ("expirationDate", 0),
    };
    let name = "ttl";
    if form == ageing::Form::LastUpdate {
        // The plain index on the same field makes way: MongoDB keeps one index a key pattern.
        server.command(
            DATABASE,
            doc! { "dropIndexes": "aged", "index": "lastupdatedatetime_1" },
        )?;
    }
    let spinner = progress::spinner(&format!(
        "{}: waiting for the sweep ({})",
        server.name,
        form.label()
    ));
    let index = doc! { "key": { field: 1 }, "name": name, "expireAfterSeconds": seconds };
    server.command(
        DATABASE,
        doc! { "createIndexes": "aged", "indexes": [index] },
    )?;
    let started = Instant::now();
    let expired_before =
        bson::DateTime::from_millis(bson::DateTime::now().timestamp_millis() - seconds * 1000);
    let filter = doc! { field: { "$lt": expired_before } };
    let expired = count_aged(server, &filter)?;
    while count_aged(server, &filter)? > 0 {
        ensure!(
            started.elapsed() < ageing::SWEEP_TIMEOUT,
            "no sweep removed the {expired} expired events in time"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    spinner.finish_and_clear();
    Ok(Measure::single(
        "Ageing",
        form.label(),
        Unit::Seconds,
        started.elapsed().as_secs_f64(),
    )
    .noted(format!(
        "until the sweep had removed what had expired of {} events, its sleep included",
        aged.events
    )))
}

fn count_aged(server: &DocumentServer, filter: &Document) -> anyhow::Result<u64> {
    server.count_documents(DATABASE, "aged", filter.clone())
}
