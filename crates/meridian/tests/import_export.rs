//! `meridian import` and `export` against a served directory, as a user runs them.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

use bson::{Document, doc, rawdoc};
use meridian_bench::client::Client;
use meridian_bench::process::{Launch, ServerProcess, free_port};

const PROGRAM: &str = env!("CARGO_BIN_EXE_meridian");
static STARTING: Mutex<()> = Mutex::new(());

struct Server {
    // The server ends before its directory goes.
    process: ServerProcess,
    directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        // A port is free until another test takes it.
        let _alone = STARTING.lock();
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_port().expect("a port");
        let data = directory.path().join("data");
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--data".into(), data.into()];
        arguments.extend(["--listen".into(), format!("127.0.0.1:{port}").into()]);
        let log = directory.path().join("log");
        let launch = Launch::new(PROGRAM, arguments, &log, port);
        let process = ServerProcess::start(launch).expect("the server starts");
        Self { process, directory }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg(arguments[0]).args([
            "--port",
            &self.process.port().to_string(),
            "-d",
            "test",
            "-c",
            "events",
        ]);
        command.args(&arguments[1..]).output().expect("runs")
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn documents(&self) -> Vec<Document> {
        let mut client =
            Client::connect(&format!("127.0.0.1:{}", self.process.port())).expect("connects");
        let find = rawdoc! { "find": "events", "sort": { "indexnum": 1 }, "projection": { "_id": 0 }, "$db": "test" };
        let reply = client.command(&find).expect("finds");
        let reply = Document::try_from(&*reply).expect("valid");
        let batch = reply
            .get_document("cursor")
            .and_then(|cursor| cursor.get_array("firstBatch"))
            .expect("a batch");
        batch
            .iter()
            .filter_map(|value| value.as_document().cloned())
            .collect()
    }
}

fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ROWS: &str = "indexnum,startdatetime,location,name,reading\n\
    1,2017-12-01 00:00:01,POINT(2.551103 45.88168),Hurricane Approaching,50\n\
    2,2017-12-01 00:00:02,POINT(2.6 45.9),\"Fire, large\",0.25\n";

#[test]
fn a_weather_row_is_imported_as_it_stands_and_exported_again() {
    let server = Server::start();
    let file = server.file("events.csv", ROWS);
    let output = server.run(&["import", "--headerline", "--file", &file]);
    assert!(output.status.success(), "{}", error_text(&output));
    let expected = doc! {
        "indexnum": 1,
        "startdatetime": bson::DateTime::from_millis(1_512_086_401_000),
        "location": { "type": "Point", "coordinates": [2.551103, 45.88168] },
        "name": "Hurricane Approaching",
        "reading": 50.0,
    };
    assert_eq!(server.documents().first(), Some(&expected));

    let fields = "indexnum,startdatetime,location,name,reading";
    let output = server.run(&[
        "export",
        "--type",
        "csv",
        "--fields",
        fields,
        "--sort",
        "{\"indexnum\": 1}",
    ]);
    assert!(output.status.success(), "{}", error_text(&output));
    let exported = String::from_utf8(output.stdout).expect("text");
    let again = server.file("again.csv", &exported);
    let output = server.run(&["import", "--headerline", "--drop", "--file", &again]);
    assert!(output.status.success(), "{}", error_text(&output));
    assert_eq!(server.documents().first(), Some(&expected));
    assert!(Path::new(&again).exists());
}

#[test]
fn rows_that_fail_are_named_with_line_and_reason_and_make_the_exit_code_non_zero() {
    let server = Server::start();
    let rows = "indexnum.int32(),location.point()\n1,POINT(2 45)\ntwo,POINT(2 45)\n3,POINT(200 45)\n4\n5,POINT(2 45)\n";
    let file = server.file("bad.csv", rows);
    let output = server.run(&[
        "import",
        "--headerline",
        "--columnsHaveTypes",
        "--file",
        &file,
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = error_text(&output);
    for line in [
        "line 3: column indexnum",
        "line 4: column location",
        "line 5: 1 columns where 2",
        "2 documents imported",
        "3 rows failed",
    ] {
        assert!(text.contains(line), "{line} is missing in:\n{text}");
    }
    assert_eq!(server.documents().len(), 2);
}

#[test]
fn documents_that_the_server_refuses_are_named_too() {
    let server = Server::start();
    let file = server.file("events.json", "{\"_id\": 1, \"indexnum\": 1}\n{\"_id\": 1, \"indexnum\": 2}\n{\"_id\": 3, \"indexnum\": 3}\n");
    let output = server.run(&["import", "--file", &file]);
    assert_eq!(output.status.code(), Some(1));
    let text = error_text(&output);
    assert!(
        text.contains("line 2: E11000 duplicate key error"),
        "{text}"
    );
    assert_eq!(server.documents().len(), 2);
    let output = server.run(&["import", "--mode", "upsert", "--file", &file]);
    assert!(output.status.success(), "{}", error_text(&output));
    assert_eq!(server.documents().len(), 2);
}
