//! The one table of commands, sorted by name.

use super::context::Context;
use super::*;
use crate::service::OperationClass;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Runs a command: appends its fields to the reply, all but `ok`.
pub type Run = fn(&mut Context<'_>, &mut DocumentWriter<'_>) -> Result<()>;

/// One row of the table.
pub struct Command {
    /// As the client writes it; case matters.
    pub name: &'static str,
    /// One sentence for `listCommands`.
    pub help: &'static str,
    /// What runs it.
    pub run: Run,
    /// Which operation counter it adds to.
    pub kind: Kind,
    /// Which latencies it adds to.
    pub class: OperationClass,
    /// The command that it is another name of.
    pub alias_of: Option<&'static str>,
    /// It may only run against the `admin` database.
    pub admin_only: bool,
    /// It takes a `writeConcern`.
    pub writes: bool,
    /// It belongs to MongoDB's Stable API version 1.
    pub stable_api: bool,
    /// It may come as an OP_QUERY.
    pub legacy: bool,
}

/// `serverStatus` counts operations by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `find`.
    Query,
    /// `getMore`.
    GetMore,
    /// `insert`, `update`, `delete`.
    Write,
    /// All others.
    Other,
}

const fn command(name: &'static str, run: Run, help: &'static str) -> Command {
    Command {
        name,
        help,
        run,
        kind: Kind::Other,
        class: OperationClass::Command,
        alias_of: None,
        admin_only: false,
        writes: false,
        stable_api: false,
        legacy: false,
    }
}

impl Command {
    const fn admin(mut self) -> Self {
        self.admin_only = true;
        self
    }

    const fn writes(mut self) -> Self {
        self.writes = true;
        self
    }

    const fn stable(mut self) -> Self {
        self.stable_api = true;
        self
    }

    const fn legacy(mut self) -> Self {
        self.legacy = true;
        self
    }

    const fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    const fn class(mut self, class: OperationClass) -> Self {
        self.class = class;
        self
    }

    const fn alias_of(mut self, name: &'static str) -> Self {
        self.alias_of = Some(name);
        self
    }
}

/// All commands, sorted by name so that a look-up is a binary search.
#[rustfmt::skip]
pub static COMMANDS: &[Command] = &[
    command("abortTransaction", refused::transaction, "Refused: needs a replica set.").admin().writes().stable(),
    command("aggregate", aggregate::run, "Runs a pipeline of stages.").writes().stable().class(OperationClass::Read),
    command("authenticate", users::authenticate, "Refused: there are no users yet.").stable(),
    command("buildInfo", build_info::run, "Version and build.").legacy(),
    command("buildinfo", build_info::run, "Same as buildInfo.").legacy().alias_of("buildInfo"),
    command("collMod", coll_mod::run, "Changes a collection's validator or an index's options.").writes().stable(),
    command("collStats", coll_stats::run, "Counts and sizes of a collection."),
    command("collstats", coll_stats::run, "Same as collStats.").alias_of("collStats"),
    command("commitTransaction", refused::transaction, "Refused: needs a replica set.").admin().writes().stable(),
    command("connectionStatus", connection_status::run, "Who is logged in on this connection."),
    command("count", count::run, "Counts the documents that match.").stable().class(OperationClass::Read),
    command("create", create::run, "Creates a collection.").writes().stable(),
    command("createIndexes", create_indexes::run, "Builds indexes.").writes().stable(),
    command("currentOp", current_op::run, "What is running now.").admin(),
    command("dataSize", data_size::run, "Size of a collection's documents."),
    command("datasize", data_size::run, "Same as dataSize.").alias_of("dataSize"),
    command("dbStats", db_stats::run, "Counts and sizes of a database."),
    command("dbstats", db_stats::run, "Same as dbStats.").alias_of("dbStats"),
    command("delete", delete::run, "Deletes the documents that match.").writes().stable().kind(Kind::Write).class(OperationClass::Write),
    command("deleteIndexes", drop_indexes::run, "Same as dropIndexes.").writes().alias_of("dropIndexes"),
    command("distinct", distinct::run, "The distinct values of a field.").class(OperationClass::Read),
    command("drop", drop::run, "Drops a collection.").writes().stable(),
    command("dropDatabase", drop_database::run, "Drops a database.").writes().stable(),
    command("dropIndexes", drop_indexes::run, "Drops indexes.").writes().stable(),
    command("endSessions", sessions::end, "Ends sessions.").stable(),
    command("explain", explain::run, "How a command would run, and how it did.").stable(),
    command("find", find::run, "The documents that match.").stable().kind(Kind::Query).class(OperationClass::Read),
    command("findAndModify", find_and_modify::run, "Changes or removes one document and returns it.").writes().stable().class(OperationClass::Write),
    command("findandmodify", find_and_modify::run, "Same as findAndModify.").writes().stable().class(OperationClass::Write).alias_of("findAndModify"),
    command("fsync", fsync::run, "Makes every acknowledged write durable.").admin(),
    command("getCmdLineOpts", get_cmd_line_opts::run, "How the server was started.").admin(),
    command("getDiagnosticData", server_status::run_diagnostic, "serverStatus, as diagnostics ask for it.").admin(),
    command("getLog", get_log::run, "Warnings of the start.").admin(),
    command("getMore", get_more::run, "The next batch of a cursor.").stable().kind(Kind::GetMore).class(OperationClass::Read),
    command("getParameter", get_parameter::run, "Reads server parameters.").admin(),
    command("hello", hello::run, "What this server is and can do.").stable().legacy(),
    command("hostInfo", host_info::run, "What this machine is."),
    command("insert", insert::run, "Inserts documents.").writes().stable().kind(Kind::Write).class(OperationClass::Write),
    command("isMaster", hello::run_legacy, "Same as hello, for old drivers.").legacy(),
    command("ismaster", hello::run_legacy, "Same as hello, for old drivers.").legacy().alias_of("isMaster"),
    command("killCursors", kill_cursors::run, "Closes cursors.").stable(),
    command("killOp", kill_op::run, "Asks a running command to end.").admin(),
    command("killSessions", sessions::kill, "Ends sessions."),
    command("listCollections", list_collections::run, "The collections of a database.").stable(),
    command("listCommands", list_commands::run, "This table."),
    command("listDatabases", list_databases::run, "The databases.").admin().stable(),
    command("listIndexes", list_indexes::run, "The indexes of a collection.").stable(),
    command("logout", users::logout, "Nothing to do: there are no users yet."),
    command("ping", ping::run, "Answers.").stable(),
    command("profile", profile::run, "The profiler's settings: it is off."),
    command("refreshSessions", sessions::refresh, "Keeps sessions alive.").stable(),
    command("renameCollection", rename_collection::run, "Renames a collection.").admin().writes(),
    command("replSetGetStatus", refused::replica_set, "Refused: needs a replica set.").admin(),
    command("rolesInfo", users::roles_info, "The roles: none yet."),
    command("saslContinue", users::authenticate, "Refused: there are no users yet.").stable(),
    command("saslStart", users::authenticate, "Refused: there are no users yet.").stable(),
    command("serverStatus", server_status::run, "Counters of the running server."),
    command("setParameter", set_parameter::run, "Sets ttlMonitorSleepSecs.").admin(),
    command("startSession", sessions::start, "Starts a session."),
    command("top", top::run, "How often and how long each collection was used.").admin(),
    command("update", update::run, "Updates the documents that match.").writes().stable().kind(Kind::Write).class(OperationClass::Write),
    command("usersInfo", users::users_info, "The users: none yet."),
    command("validate", validate::run, "Verifies documents against indexes."),
    command("whatsmyuri", whats_my_uri::run, "The client's address."),
];

/// The command of this name.
pub fn find(name: &str) -> Option<&'static Command> {
    let at = COMMANDS
        .binary_search_by_key(&name, |command| command.name)
        .ok()?;
    Some(&COMMANDS[at])
}

/// Where a command stands in the table.
pub fn index_of(command: &Command) -> usize {
    let at = COMMANDS.binary_search_by_key(&command.name, |other| other.name);
    at.expect("every command is a row of the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_finds_its_rows() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in COMMANDS {
            assert!(
                std::ptr::eq(find(command.name).expect("a row"), command),
                "{}",
                command.name
            );
        }
        assert!(find("nope").is_none());
    }
}
