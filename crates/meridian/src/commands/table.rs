//! The one table of commands, sorted by name.

use super::context::Context;
use super::privileges::{self, Needs};
use super::*;
use crate::access::ActionSet;
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
    /// Which read concerns it takes.
    pub read_concerns: ReadConcerns,
    /// It belongs to MongoDB's Stable API version 1.
    pub stable_api: bool,
    /// It may come as an OP_QUERY.
    pub legacy: bool,
    /// What whoever asks needs.
    pub needs: Needs,
    /// Its document holds secrets, and is shown to nobody.
    pub is_secret: bool,
    /// It may run against `$external`, the database of users who are known elsewhere.
    pub is_about_users: bool,
}

/// Read concerns by their level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadConcerns {
    /// None but `local`.
    Local,
    /// That and `available`.
    LocalAndAvailable,
    /// All but `snapshot`.
    AllButSnapshot,
    /// All.
    All,
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
        read_concerns: ReadConcerns::Local,
        stable_api: false,
        legacy: false,
        needs: Needs::Unstated,
        is_secret: false,
        is_about_users: false,
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

    const fn read_concerns(mut self, read_concerns: ReadConcerns) -> Self {
        self.read_concerns = read_concerns;
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

    const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// On the server.
    const fn server(self, actions: &[&str]) -> Self {
        self.needs(Needs::Server(ActionSet::of(actions)))
    }

    /// On the database.
    const fn database(self, actions: &[&str]) -> Self {
        self.needs(Needs::Database(ActionSet::of(actions)))
    }

    /// On the collection.
    const fn collection(self, actions: &[&str]) -> Self {
        self.needs(Needs::Collection(ActionSet::of(actions)))
    }

    const fn special(self, is_allowed: fn(&privileges::Request<'_>) -> bool) -> Self {
        self.needs(Needs::Special(is_allowed))
    }

    const fn about_users(mut self) -> Self {
        self.is_about_users = true;
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
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
    command("_mergeAuthzCollections", merge_authz_collections::run, "Takes users and roles over from collections.").admin().writes().special(merge_authz_collections::is_allowed).about_users(),
    command("abortTransaction", refused::transaction, "Refused: needs a replica set.").admin().writes().stable().needs(Needs::Login),
    command("aggregate", aggregate::run, "Runs a pipeline of stages.").writes().stable().read_concerns(ReadConcerns::All).class(OperationClass::Read).special(privileges::aggregate),
    command("appendOplogNote", refused::oplog_note, "Refused: needs a replica set.").admin().writes().server(&["appendOplogNote"]),
    command("authenticate", sasl::authenticate, "Logs in by the connection's certificate.").stable().needs(Needs::Nothing).about_users(),
    command("availableQueryOptions", standalone::query_options, "Flags of queries of the old protocol.").needs(Needs::Login),
    command("buildInfo", build_info::run, "Version and build.").legacy().needs(Needs::Nothing),
    command("buildinfo", build_info::run, "Same as buildInfo.").legacy().alias_of("buildInfo").needs(Needs::Nothing),
    command("cloneCollectionAsCapped", capped::clone, "Copies a collection's newest documents to a capped one.").writes().special(privileges::clone_as_capped),
    command("collMod", coll_mod::run, "Changes a collection's validator, an index's options or a view.").writes().stable().special(privileges::coll_mod),
    command("collStats", coll_stats::run, "Counts and sizes of a collection.").collection(&["collStats"]),
    command("collstats", coll_stats::run, "Same as collStats.").alias_of("collStats").collection(&["collStats"]),
    command("commitTransaction", refused::transaction, "Refused: needs a replica set.").admin().writes().stable().needs(Needs::Login),
    command("compact", maintenance::compact, "Writes the files of a collection anew.").collection(&["compact"]),
    command("connPoolStats", standalone::connection_pools, "Connections to other servers: none.").server(&["connPoolStats"]),
    command("connPoolSync", standalone::sync_pools, "Does nothing.").server(&["connPoolSync"]),
    command("connectionStatus", connection_status::run, "Who is logged in on this connection.").needs(Needs::Nothing),
    command("convertToCapped", capped::convert, "Makes a collection capped.").writes().collection(&["convertToCapped"]),
    command("count", count::run, "Counts the documents that match.").stable().read_concerns(ReadConcerns::AllButSnapshot).class(OperationClass::Read).collection(&["find"]),
    command("create", create::run, "Creates a collection or a view.").writes().stable().special(privileges::create),
    command("createIndexes", create_indexes::run, "Builds indexes.").writes().stable().collection(&["createIndex"]),
    command("createRole", roles::create, "Makes a role.").writes().special(roles::may_create),
    command("createUser", users::create, "Makes a user.").writes().special(users::may_create).secret().about_users(),
    command("currentOp", current_op::run, "What is running now.").admin().special(privileges::current_op),
    command("dataSize", data_size::run, "Size of a collection's documents.").special(privileges::data_size),
    command("datasize", data_size::run, "Same as dataSize.").alias_of("dataSize").special(privileges::data_size),
    command("dbHash", maintenance::db_hash, "Hashes of a database's collections.").database(&["dbHash"]),
    command("dbStats", db_stats::run, "Counts and sizes of a database.").database(&["dbStats"]),
    command("dbhash", maintenance::db_hash, "Same as dbHash.").alias_of("dbHash").database(&["dbHash"]),
    command("dbstats", db_stats::run, "Same as dbStats.").alias_of("dbStats").database(&["dbStats"]),
    command("delete", delete::run, "Deletes the documents that match.").writes().stable().kind(Kind::Write).class(OperationClass::Write).collection(&["remove"]),
    command("deleteIndexes", drop_indexes::run, "Same as dropIndexes.").writes().alias_of("dropIndexes").collection(&["dropIndex"]),
    command("distinct", distinct::run, "The distinct values of a field.").read_concerns(ReadConcerns::All).class(OperationClass::Read).collection(&["find"]),
    command("driverOIDTest", standalone::object_id_test, "How an ObjectId is written.").needs(Needs::Login),
    command("drop", drop::run, "Drops a collection.").writes().stable().collection(&["dropCollection"]),
    command("dropAllRolesFromDatabase", roles::drop_all, "Drops the roles of a database.").writes().database(&["dropRole"]),
    command("dropAllUsersFromDatabase", users::drop_all, "Drops the users of a database.").writes().database(&["dropUser"]).about_users(),
    command("dropConnections", standalone::drop_connections, "Ends connections to other servers: there are none.").admin().server(&["dropConnections"]),
    command("dropDatabase", drop_database::run, "Drops a database.").writes().stable().database(&["dropDatabase"]),
    command("dropIndexes", drop_indexes::run, "Drops indexes.").writes().stable().collection(&["dropIndex"]),
    command("dropRole", roles::drop_role, "Drops a role.").writes().database(&["dropRole"]),
    command("dropUser", users::drop_user, "Drops a user.").writes().database(&["dropUser"]).about_users(),
    command("endSessions", sessions::end, "Ends sessions.").stable().needs(Needs::Login),
    command("explain", explain::run, "How a command would run, and how it did.").stable().special(privileges::explain),
    command("features", standalone::features, "What MongoDB's first drivers asked for.").needs(Needs::Login),
    command("filemd5", maintenance::file_md5, "The hash of a GridFS file.").special(privileges::file_md5),
    command("find", find::run, "The documents that match.").stable().kind(Kind::Query).read_concerns(ReadConcerns::All).class(OperationClass::Read).collection(&["find"]),
    command("findAndModify", find_and_modify::run, "Changes or removes one document and returns it.").writes().stable().class(OperationClass::Write).special(privileges::find_and_modify),
    command("findandmodify", find_and_modify::run, "Same as findAndModify.").writes().stable().class(OperationClass::Write).alias_of("findAndModify").special(privileges::find_and_modify),
    command("fsync", fsync::run, "Makes every acknowledged write durable.").admin().server(&["fsync"]),
    command("fsyncUnlock", refused::unlock, "Refused: no lock is ever held.").admin().server(&["unlock"]),
    command("getCmdLineOpts", get_cmd_line_opts::run, "How the server was started.").admin().server(&["getCmdLineOpts"]),
    command("getDefaultRWConcern", refused::default_concern, "Refused: needs a replica set.").admin().server(&["getDefaultRWConcern"]),
    command("getDiagnosticData", server_status::run_diagnostic, "serverStatus, as diagnostics ask for it.").admin().server(&["serverStatus", "replSetGetStatus"]),
    command("getFreeMonitoringStatus", standalone::free_monitoring, "Whether free monitoring is on: nobody was asked.").admin().server(&["checkFreeMonitoringStatus"]),
    command("getLastError", refused::last_error, "Refused, as in MongoDB.").needs(Needs::Nothing),
    command("getLog", get_log::run, "Warnings of the start.").admin().server(&["getLog"]),
    command("getMore", get_more::run, "The next batch of a cursor.").stable().read_concerns(ReadConcerns::All).kind(Kind::GetMore).class(OperationClass::Read).special(privileges::get_more),
    command("getParameter", parameters::get, "Reads server parameters.").admin().server(&["getParameter"]),
    command("getnonce", standalone::nonce, "A random number, for logins of the oldest drivers.").needs(Needs::Nothing),
    command("grantPrivilegesToRole", roles::grant_privileges, "Adds privileges to a role.").writes().special(roles::may_grant_own),
    command("grantRolesToRole", roles::grant_roles, "Has a role inherit others.").writes().special(users::may_grant_roles),
    command("grantRolesToUser", users::grant_roles, "Grants roles to a user.").writes().special(users::may_grant_roles).about_users(),
    command("hello", hello::run, "What this server is and can do.").stable().legacy().needs(Needs::Nothing),
    command("hostInfo", host_info::run, "What this machine is.").server(&["hostInfo"]),
    command("insert", insert::run, "Inserts documents.").writes().stable().kind(Kind::Write).class(OperationClass::Write).special(privileges::insert),
    command("invalidateUserCache", users::invalidate_cache, "Looks up users and roles again.").admin().server(&["invalidateUserCache"]),
    command("isMaster", hello::run_legacy, "Same as hello, for old drivers.").legacy().needs(Needs::Nothing),
    command("ismaster", hello::run_legacy, "Same as hello, for old drivers.").legacy().alias_of("isMaster").needs(Needs::Nothing),
    command("killAllSessions", sessions::kill_all, "Ends sessions of some users, or all.").server(&["killAnySession"]),
    command("killAllSessionsByPattern", sessions::kill_by_pattern, "Ends sessions by their names or users.").server(&["killAnySession"]),
    command("killCursors", kill_cursors::run, "Closes cursors.").stable().special(privileges::kill_cursors),
    command("killOp", kill_op::run, "Asks a running command to end.").admin().special(privileges::kill_op),
    command("killSessions", sessions::kill, "Ends sessions.").needs(Needs::Login),
    command("listCollections", list_collections::run, "The collections of a database.").stable().special(privileges::list_collections),
    command("listCommands", list_commands::run, "This table.").needs(Needs::Nothing),
    command("listDatabases", list_databases::run, "The databases.").admin().stable().special(privileges::list_databases),
    command("listIndexes", list_indexes::run, "The indexes of a collection.").stable().collection(&["listIndexes"]),
    command("lockInfo", standalone::locks, "Locks: there is no table of them.").admin().server(&["serverStatus"]),
    command("logRotate", standalone::rotate_log, "Rotates the log: it goes to the standard error.").admin().server(&["logRotate"]),
    command("logout", sasl::logout, "Ends the login at a database.").needs(Needs::Nothing).about_users(),
    command("mapReduce", map_reduce::run, "Maps documents to keys and values, and reduces the values of each key, by functions.").read_concerns(ReadConcerns::LocalAndAvailable).class(OperationClass::Read).special(map_reduce::is_allowed),
    command("mapreduce", map_reduce::run, "Same as mapReduce.").read_concerns(ReadConcerns::LocalAndAvailable).class(OperationClass::Read).alias_of("mapReduce").special(map_reduce::is_allowed),
    command("ping", ping::run, "Answers.").stable().needs(Needs::Nothing),
    command("planCacheClear", plan_cache::clear, "Forgets cached plans: there are none.").collection(&["planCacheWrite"]),
    command("planCacheClearFilters", plan_cache::clear_filters, "Ends index filters.").collection(&["planCacheIndexFilter"]),
    command("planCacheListFilters", plan_cache::list_filters, "The index filters of a collection.").collection(&["planCacheIndexFilter"]),
    command("planCacheSetFilter", plan_cache::set_filter, "Which indexes may answer statements of a shape.").collection(&["planCacheIndexFilter"]),
    command("profile", profile::run, "The profiler's settings: it is off.").special(privileges::profile),
    command("reIndex", create_indexes::rebuild, "Builds a collection's indexes anew.").collection(&["reIndex"]),
    command("refreshSessions", sessions::refresh, "Keeps sessions alive.").stable().needs(Needs::Login),
    command("renameCollection", rename_collection::run, "Renames a collection.").admin().writes().special(privileges::rename_collection),
    command("replSetAbortPrimaryCatchUp", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetStateChange"]),
    command("replSetFreeze", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetStateChange"]),
    command("replSetGetConfig", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetGetConfig"]),
    command("replSetGetRBID", refused::replica_set, "Refused: needs a replica set.").admin().server(&["internal"]),
    command("replSetGetStatus", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetGetStatus"]),
    command("replSetInitiate", refused::replica_set_to_begin, "Refused: needs a replica set.").admin().server(&["replSetConfigure"]),
    command("replSetMaintenance", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetStateChange"]),
    command("replSetReconfig", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetConfigure"]),
    command("replSetResizeOplog", refused::oplog, "Refused: needs a replica set.").admin().server(&["replSetResizeOplog"]),
    command("replSetStepDown", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetStateChange"]),
    command("replSetStepUp", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetStateChange"]),
    command("replSetSyncFrom", refused::replica_set, "Refused: needs a replica set.").admin().server(&["replSetStateChange"]),
    command("revokePrivilegesFromRole", roles::revoke_privileges, "Takes privileges from a role.").writes().special(roles::may_revoke_own),
    command("revokeRolesFromRole", roles::revoke_roles, "Has a role inherit others no longer.").writes().special(users::may_revoke_roles),
    command("revokeRolesFromUser", users::revoke_roles, "Takes roles from a user.").writes().special(users::may_revoke_roles).about_users(),
    command("rolesInfo", roles::info, "The roles.").special(roles::may_list),
    command("rotateCertificates", rotate_certificates::run, "Has new connections use the certificates that the files hold now.").admin().server(&["rotateCertificates"]),
    command("saslContinue", sasl::go_on, "Goes on with a login.").stable().needs(Needs::Nothing).secret(),
    command("saslStart", sasl::start, "Begins a login.").stable().needs(Needs::Nothing).secret().about_users(),
    command("serverStatus", server_status::run, "Counters of the running server.").server(&["serverStatus"]),
    command("setDefaultRWConcern", refused::default_concern, "Refused: needs a replica set.").admin().writes().server(&["setDefaultRWConcern"]),
    command("setFeatureCompatibilityVersion", standalone::set_compatibility, "The version whose features are used: 6.0.").admin().writes().server(&["setFeatureCompatibilityVersion"]),
    command("setFreeMonitoring", standalone::set_free_monitoring, "Free monitoring is off and stays so.").admin().server(&["setFreeMonitoring"]),
    command("setParameter", parameters::set, "Sets server parameters.").admin().server(&["setParameter"]),
    command("shardingState", standalone::sharding, "Whether this is a shard: it is not.").admin().server(&["shardingState"]),
    command("shutdown", shutdown::run, "Ends the server as SIGTERM does.").admin().server(&["shutdown"]),
    command("startSession", sessions::start, "Starts a session.").needs(Needs::Login),
    command("top", top::run, "How often and how long each collection was used.").admin().server(&["top"]),
    command("update", update::run, "Updates the documents that match.").writes().stable().kind(Kind::Write).class(OperationClass::Write).special(privileges::update),
    command("updateRole", roles::update, "Changes a role.").writes().special(roles::may_update),
    command("updateUser", users::update, "Changes a user.").writes().special(users::may_update).secret().about_users(),
    command("usersInfo", users::info, "The users.").special(users::may_list).about_users(),
    command("validate", validate::run, "Verifies documents against indexes.").collection(&["validate"]),
    command("validateDBMetadata", maintenance::validate_metadata, "What definitions do not belong to the Stable API.").server(&["validate"]),
    command("whatsmyuri", whats_my_uri::run, "The client's address.").needs(Needs::Nothing),
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
    fn every_command_says_what_it_needs() {
        for command in COMMANDS {
            assert!(
                !matches!(command.needs, Needs::Unstated),
                "{}",
                command.name
            );
        }
    }

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
