//! Logs in as a URI says and works in a collection of the database `test`: `login URI COLLECTION`.
//!
//! Out: five lines about what was done. An error goes to stderr as `code 13: message`, with exit 1.

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, Result};
use mongodb::{Client, Collection};
use std::error::Error as _;
use std::process::ExitCode;

async fn work(uri: &str, name: &str) -> Result<()> {
    let client = Client::with_uri_str(uri).await?;
    let database = client.database("test");
    let collection: Collection<Document> = database.collection(name);
    // A read comes first: it is what a client that is not logged in is refused.
    println!("before {}", collection.count_documents(doc! {}).await?);
    let inserted = collection
        .insert_one(doc! { "_id": 7, "text": "größer" })
        .await?;
    println!("inserted {}", inserted.inserted_id);
    let found = collection
        .find_one(doc! { "_id": 7 })
        .await?
        .unwrap_or_default();
    println!("found {}", found.get_str("text").unwrap_or("nothing"));
    println!("counted {}", collection.count_documents(doc! {}).await?);
    let status = database.run_command(doc! { "connectionStatus": 1 }).await?;
    for user in users_of(&status) {
        println!("{user}");
    }
    Ok(())
}

fn users_of(status: &Document) -> Vec<String> {
    let users = status
        .get_document("authInfo")
        .and_then(|info| info.get_array("authenticatedUsers"));
    let line = |user: &Document| {
        let field = |name| user.get_str(name).unwrap_or("?");
        format!("user {} of {}", field("user"), field("db"))
    };
    let users = users.into_iter().flatten();
    users
        .filter_map(|user| user.as_document())
        .map(line)
        .collect()
}

/// The code the server gave, or -1. A failed login holds the server's error as its source.
fn code_of(error: &Error) -> i32 {
    if let ErrorKind::Command(refused) = error.kind.as_ref() {
        return refused.code;
    }
    let source = error.source();
    let inner = source.and_then(|source| source.downcast_ref::<Box<Error>>());
    inner.map_or(-1, |inner| code_of(inner))
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, uri, name] = &arguments[..] else {
        eprintln!("usage: login URI COLLECTION");
        return ExitCode::from(2);
    };
    match work(uri, name).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("code {}: {error}", code_of(&error));
            ExitCode::FAILURE
        }
    }
}
