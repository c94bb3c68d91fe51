//! The official Rust driver does a day's work on the built server: what a strict driver
//! (integer widths, cursor ids, error shapes) accepts. Starts the program on a temporary directory.
#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::{ClientOptions, IndexOptions, ReturnDocument, WriteConcern};
use mongodb::{Client, Collection, Database, IndexModel};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server on a directory of its own; killed when dropped.
struct Server {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let process = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["serve", "--cache-size", "64MiB", "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .arg("--data")
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the built program starts");
        let server = Self {
            process,
            port,
            _directory: directory,
        };
        server.wait_until_it_listens();
        server
    }

    fn wait_until_it_listens(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    async fn database(&self) -> Database {
        let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", self.port);
        let options = ClientOptions::parse(uri)
            .await
            .expect("a connection string");
        Client::with_options(options)
            .expect("a client")
            .database("drv_rust")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs one test's future on a server of its own.
fn with_server<F: Future<Output = mongodb::error::Result<()>>>(test: impl FnOnce(Database) -> F) {
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime
        .block_on(async { test(server.database().await).await })
        .expect("the driver accepts every reply");
}

async fn numbered(database: &Database, count: i32) -> mongodb::error::Result<Collection<Document>> {
    let collection = database.collection("c");
    collection
        .insert_many((0..count).map(|number| doc! {"_id": number, "n": number % 10}))
        .await?;
    Ok(collection)
}

#[test]
fn writes_and_reads() {
    with_server(|database| async move {
        let collection = numbered(&database, 500).await?;
        assert_eq!(collection.count_documents(doc! {"n": 3}).await?, 50);
        assert_eq!(collection.estimated_document_count().await?, 500);
        let update = collection
            .update_many(doc! {"n": 3}, doc! {"$inc": {"n": 100}})
            .await?;
        assert_eq!((update.matched_count, update.modified_count), (50, 50));
        let upsert = collection
            .update_one(doc! {"_id": "new"}, doc! {"$set": {"x": 1}})
            .upsert(true)
            .await?;
        assert_eq!(upsert.upserted_id, Some(Bson::String("new".into())));
        let after = collection
            .find_one_and_update(doc! {"_id": "new"}, doc! {"$inc": {"x": 1_i64}})
            .return_document(ReturnDocument::After)
            .await?;
        assert_eq!(after, Some(doc! {"_id": "new", "x": 2_i64}));
        assert_eq!(
            collection.delete_many(doc! {"n": 103}).await?.deleted_count,
            50
        );
        assert_eq!(collection.distinct("n", doc! {}).await?.len(), 9);
        Ok(())
    });
}

#[test]
fn cursors_over_several_batches() {
    with_server(|database| async move {
        let collection = numbered(&database, 1000).await?;
        let mut cursor = collection
            .find(doc! {})
            .sort(doc! {"_id": 1})
            .batch_size(7)
            .await?;
        let mut seen = 0;
        while cursor.advance().await? {
            let document = cursor.deserialize_current()?;
            assert_eq!(document.get_i32("_id").expect("an int32"), seen);
            seen += 1;
        }
        assert_eq!(seen, 1000);
        let stages = [
            doc! {"$group": {"_id": "$n", "k": {"$sum": 1}}},
            doc! {"$sort": {"_id": 1}},
        ];
        let mut groups = collection.aggregate(stages).await?;
        assert!(groups.advance().await?);
        assert_eq!(groups.deserialize_current()?, doc! {"_id": 0, "k": 100});
        Ok(())
    });
}

#[test]
fn indexes_and_areas() {
    with_server(|database| async move {
        let collection: Collection<Document> = database.collection("places");
        let place = |number: i32| doc! {"_id": number, "p": {"type": "Point", "coordinates": [f64::from(number), 10.0]}};
        collection.insert_many((0..90).map(place)).await?;
        let model = IndexModel::builder().keys(doc! {"p": "2dsphere"}).build();
        assert_eq!(
            collection.create_index(model).await?.index_name,
            "p_2dsphere"
        );
        let unique = IndexOptions::builder().unique(true).sparse(true).build();
        collection
            .create_index(
                IndexModel::builder()
                    .keys(doc! {"u": 1})
                    .options(unique)
                    .build(),
            )
            .await?;
        assert_eq!(
            collection.list_index_names().await?,
            ["_id_", "p_2dsphere", "u_1"]
        );
        let ring = [
            [9.5, 0.0],
            [20.5, 0.0],
            [20.5, 20.0],
            [9.5, 20.0],
            [9.5, 0.0],
        ]
        .map(|pair| pair.to_vec());
        let area = doc! {"type": "Polygon", "coordinates": [ring.to_vec()]};
        let condition = doc! {"p": {"$geoIntersects": {"$geometry": area}}};
        assert_eq!(collection.count_documents(condition).await?, 11);
        Ok(())
    });
}

#[test]
fn errors_are_typed() {
    with_server(|database| async move {
        let collection = numbered(&database, 1).await?;
        let error = collection
            .insert_one(doc! {"_id": 0})
            .await
            .expect_err("a duplicate");
        match *error.kind {
            ErrorKind::Write(WriteFailure::WriteError(ref failure)) => {
                assert_eq!(failure.code, 11000)
            }
            ref other => panic!("not a write error: {other:?}"),
        }
        let error = database
            .run_command(doc! {"noSuchCommand": 1})
            .await
            .expect_err("unknown");
        match *error.kind {
            ErrorKind::Command(ref failure) => assert_eq!(
                (failure.code, failure.code_name.as_str()),
                (59, "CommandNotFound")
            ),
            ref other => panic!("not a command error: {other:?}"),
        }
        let options = doc! {"$jsonSchema": {"required": ["a"]}};
        database.create_collection("v").validator(options).await?;
        let error = database
            .collection::<Document>("v")
            .insert_one(doc! {})
            .await
            .expect_err("refused");
        match *error.kind {
            ErrorKind::Write(WriteFailure::WriteError(ref failure)) => {
                assert_eq!(failure.code, 121);
                assert!(failure.details.is_some());
            }
            ref other => panic!("not a write error: {other:?}"),
        }
        Ok(())
    });
}

#[test]
fn journaled_writes() {
    // The driver refuses w: 0 itself; unacknowledged writes are tested over a plain socket.
    with_server(|database| async move {
        let collection: Collection<Document> = database.collection("c");
        let journaled = WriteConcern::builder().journal(true).build();
        for number in 0..5 {
            collection
                .insert_one(doc! {"_id": number})
                .write_concern(journaled.clone())
                .await?;
        }
        assert_eq!(collection.count_documents(doc! {}).await?, 5);
        Ok(())
    });
}
