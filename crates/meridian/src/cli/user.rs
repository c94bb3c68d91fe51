//! `meridian user add`: a user of a server that nobody can log in to yet, or any more.

use super::encryption::KeyArguments;
use crate::access::client::first_line;
use crate::access::scram::Mechanism;
use crate::access::store::{self, Kind};
use crate::access::{RoleName, UserName, credentials};
use anyhow::{Context as _, bail, ensure};
use bson::cstr;
use bson::raw::RawArrayBuf;
use clap::{Args, Subcommand};
use meridian_engine::{Engine, EngineOptions};
use std::path::PathBuf;

/// Flags of `meridian user`.
#[derive(Debug, Args)]
pub struct UserArguments {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Makes a user in a data directory that no server uses.
    Add(AddArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// The data directory; no server may be using it
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// The user's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The database that the user logs in at
    #[arg(long, value_name = "DATABASE", default_value = "admin")]
    database: String,
    /// A role that it is granted, repeatable: read, or read@trips for that of another database
    #[arg(long, value_name = "ROLE[@DATABASE]", required = true)]
    role: Vec<String>,
    /// A file whose first line is the password [default: asked for on the terminal]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArguments,
}

/// Makes the user.
pub fn run(arguments: &UserArguments) -> anyhow::Result<()> {
    let UserCommand::Add(arguments) = &arguments.command;
    ensure!(
        arguments.data.is_dir(),
        "there is no directory {}",
        arguments.data.display()
    );
    ensure!(!arguments.name.is_empty(), "a user needs a name");
    let name = UserName {
        user: arguments.name.clone(),
        database: arguments.database.clone(),
    };
    let told = |error: meridian_engine::Error| anyhow::anyhow!("{}", error.message);
    let password = match &arguments.password_file {
        Some(path) => first_line(path)?,
        None => asked()?,
    };
    let keys = credentials(&name.user, &password, &Mechanism::ALL, false).map_err(told)?;
    let options = EngineOptions {
        master_key: arguments.key.master_key()?,
        ..EngineOptions::default()
    };
    let engine = Engine::open(&arguments.data, options)
        .map_err(told)
        .with_context(|| {
            format!(
                "cannot open the data directory {}",
                arguments.data.display()
            )
        })?;
    let mut roles = RawArrayBuf::new();
    for given in &arguments.role {
        let role = role(given, &name.database);
        if store::role(&engine, &role).map_err(told)?.is_none() {
            bail!("there is no role {role}");
        }
        roles.push(role.to_document());
    }
    let mut document = store::new_user(&name, &keys);
    document.append(cstr!("roles"), roles);
    if !store::insert(&engine, Kind::Users, &document).map_err(told)? {
        bail!("there is a user {name} already");
    }
    engine.sync_journal().map_err(told)?;
    engine.shutdown();
    println!("made the user {name}");
    Ok(())
}

fn role(given: &str, database: &str) -> RoleName {
    let (role, database) = given.split_once('@').unwrap_or((given, database));
    RoleName {
        role: role.to_owned(),
        database: database.to_owned(),
    }
}

/// Asks twice, and shows nothing of what is typed.
fn asked() -> anyhow::Result<String> {
    let ask = |question| {
        rpassword::prompt_password(question)
            .context("cannot ask for the password here: give --password-file")
    };
    let password = ask("Password: ")?;
    ensure!(password == ask("Once more: ")?, "the two passwords differ");
    Ok(password)
}
