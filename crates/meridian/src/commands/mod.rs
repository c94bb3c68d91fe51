//! Commands: a request document becomes a typed request, an engine call, and a reply.
//!
//! What comes in is a checked message ([`meridian_wire::Message`]) and the [`Client`](crate::service::Client) that
//! sent it; what goes out is one document, written where it will be sent from. One file a
//! command, one sorted [`table`]. Deliberately absent: sockets and frames (the server's), and
//! the meaning of filters, updates and pipelines (the engine's).
//!
//! [`dispatch`] finds the command, [`generic`] checks once what every command may carry
//! (`lsid`, `writeConcern`, `maxTimeMS`, ...), [`arguments`] checks a command's own fields with
//! MongoDB's messages.

mod arguments;
mod audited;
mod context;
mod cursor_reply;
mod dispatch;
mod generic;
mod shutdown;
mod standalone;
mod standalone_sections;
mod strict_api;
mod table;
mod write_reply;

mod aggregate;
mod build_info;
mod capped;
mod coll_mod;
mod coll_stats;
mod concerns;
mod connection_status;
mod count;
mod create;
mod create_indexes;
mod current_op;
mod data_size;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod explain;
mod find;
mod find_and_modify;
mod fsync;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod hello;
mod host_info;
mod insert;
mod kill_cursors;
mod kill_op;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod maintenance;
mod map_reduce;
mod merge_authz_collections;
mod metrics;
mod parameters;
mod ping;
mod plan_cache;
mod privileges;
mod profile;
mod read_preference;
mod refused;
mod rename_collection;
mod roles;
mod rotate_certificates;
mod sasl;
mod server_stages;
mod server_status;
mod sessions;
mod top;
mod update;
mod users;
mod validate;
mod whats_my_uri;

pub use dispatch::{answer_invalid_document, answer_message, answer_query};

/// How many commands there are.
pub const COMMANDS: usize = table::COMMANDS.len();
