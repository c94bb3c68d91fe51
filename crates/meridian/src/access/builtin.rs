//! MongoDB's built-in roles.
//!
//! The privileges are those that `rolesInfo` of MongoDB 6.0.5 shows, in its order; a differential test compares them
//! with a real one's.

use super::action::ActionSet;
use super::privilege::{Privilege, Resource};

/// A role that is always there.
pub struct BuiltinRole {
    /// Its name.
    pub name: &'static str,
    /// Whether each database has one, or `admin` alone.
    pub in_every_database: bool,
    privileges: &'static [(Target, ActionSet)],
}

/// A resource of the table.
enum Target {
    /// The server.
    Cluster,
    /// Everything.
    Any,
    /// The buckets of all time-series collections.
    Buckets,
    /// A collection of the role's own database; empty for all.
    Own(&'static str),
    /// A collection of a database; empty for all.
    In(&'static str, &'static str),
}

impl BuiltinRole {
    /// What it allows, as a role of a database.
    pub fn privileges(&self, database: &str) -> Vec<Privilege> {
        let resource = |target: &Target| match target {
            Target::Cluster => Resource::Cluster,
            Target::Any => Resource::Any,
            Target::Buckets => Resource::SystemBuckets(String::new(), String::new()),
            Target::Own(collection) => {
                Resource::Collection(database.to_owned(), (*collection).to_owned())
            }
            Target::In(database, collection) => {
                Resource::Collection((*database).to_owned(), (*collection).to_owned())
            }
        };
        let privilege = |(target, actions): &(Target, ActionSet)| Privilege {
            resource: resource(target),
            actions: *actions,
        };
        self.privileges.iter().map(privilege).collect()
    }
}

/// The role of this name in a database.
pub fn find(name: &str, database: &str) -> Option<&'static BuiltinRole> {
    let found = ROLES.iter().find(|role| role.name == name)?;
    (found.in_every_database || database == "admin").then_some(found)
}

/// All that a database has, by name.
pub fn of_database(database: &str) -> impl Iterator<Item = &'static BuiltinRole> {
    let is_there = move |role: &&BuiltinRole| role.in_every_database || database == "admin";
    ROLES.iter().filter(is_there)
}

/// `clusterMonitor` on the server.
const MONITOR: ActionSet = ActionSet::of(&[
    "allCollectionStats",
    "checkFreeMonitoringStatus",
    "connPoolStats",
    "getDefaultRWConcern",
    "getCmdLineOpts",
    "getLog",
    "getParameter",
    "getShardMap",
    "hostInfo",
    "inprog",
    "listDatabases",
    "listSessions",
    "listShards",
    "netstat",
    "operationMetrics",
    "replSetGetConfig",
    "replSetGetStatus",
    "serverStatus",
    "shardedDataDistribution",
    "shardingState",
    "top",
    "useUUID",
]);

/// `clusterManager` on the server.
const MANAGER: ActionSet = ActionSet::of(&[
    "addShard",
    "appendOplogNote",
    "applicationMessage",
    "cleanupOrphaned",
    "flushRouterConfig",
    "getClusterParameter",
    "getDefaultRWConcern",
    "listSessions",
    "listShards",
    "removeShard",
    "replSetConfigure",
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetStateChange",
    "resync",
    "runTenantMigration",
    "setClusterParameter",
    "setDefaultRWConcern",
    "setFeatureCompatibilityVersion",
    "setFreeMonitoring",
]);

/// `hostManager` on the server.
const HOST: ActionSet = ActionSet::of(&[
    "applicationMessage",
    "auditConfigure",
    "connPoolSync",
    "dropConnections",
    "flushRouterConfig",
    "fsync",
    "invalidateUserCache",
    "killAnyCursor",
    "killAnySession",
    "killop",
    "logRotate",
    "oidReset",
    "replSetResizeOplog",
    "resync",
    "rotateCertificates",
    "setParameter",
    "shutdown",
    "touch",
    "trafficRecord",
    "unlock",
]);

/// `read` on its database.
const READ: ActionSet = ActionSet::of(&[
    "changeStream",
    "collStats",
    "dbHash",
    "dbStats",
    "find",
    "killCursors",
    "listCollections",
    "listIndexes",
    "planCacheRead",
]);

/// `readWrite` on its database.
const READ_WRITE: ActionSet = READ.and(ActionSet::of(&[
    "compactStructuredEncryptionData",
    "convertToCapped",
    "createCollection",
    "createIndex",
    "dropCollection",
    "dropIndex",
    "insert",
    "remove",
    "renameCollectionSameDB",
    "update",
]));

/// `dbAdmin` on its database.
const DB_ADMIN: ActionSet = ActionSet::of(&[
    "bypassDocumentValidation",
    "collMod",
    "collStats",
    "compact",
    "convertToCapped",
    "createCollection",
    "createIndex",
    "dbStats",
    "dropCollection",
    "dropDatabase",
    "dropIndex",
    "enableProfiler",
    "listCollections",
    "listIndexes",
    "planCacheIndexFilter",
    "planCacheRead",
    "planCacheWrite",
    "reIndex",
    "renameCollectionSameDB",
    "storageDetails",
    "validate",
]);

/// `userAdmin` on its database.
const USER_ADMIN: ActionSet = ActionSet::of(&[
    "changeCustomData",
    "changePassword",
    "createRole",
    "createUser",
    "dropRole",
    "dropUser",
    "grantRole",
    "revokeRole",
    "setAuthenticationRestriction",
    "viewRole",
    "viewUser",
]);

/// `dbAdmin` on `system.profile`.
const PROFILE: ActionSet = READ.and(ActionSet::of(&[
    "convertToCapped",
    "createCollection",
    "dropCollection",
]));

/// `clusterMonitor` on databases.
const MONITOR_DB: ActionSet = ActionSet::of(&[
    "collStats",
    "dbStats",
    "getDatabaseVersion",
    "getShardVersion",
    "indexStats",
]);

/// `clusterManager` on databases.
const MANAGER_DB: ActionSet = ActionSet::of(&[
    "clearJumboFlag",
    "enableSharding",
    "moveChunk",
    "refineCollectionShardKey",
    "reshardCollection",
    "splitChunk",
    "splitVector",
]);

/// `restore` on what it fills.
const RESTORE: ActionSet = ActionSet::of(&[
    "bypassDocumentValidation",
    "collMod",
    "convertToCapped",
    "createCollection",
    "createIndex",
    "dropCollection",
    "insert",
]);

static ROLES: &[BuiltinRole] = &[
    BuiltinRole {
        name: "__queryableBackup",
        in_every_database: false,
        privileges: &[
            (
                Target::Any,
                ActionSet::of(&["collStats", "listCollections", "listIndexes"]),
            ),
            (Target::In("", ""), ActionSet::of(&["find"])),
            (Target::Buckets, ActionSet::of(&["find"])),
            (
                Target::Cluster,
                ActionSet::of(&["getParameter", "listDatabases", "useUUID"]),
            ),
            (Target::In("config", ""), ActionSet::of(&["find"])),
            (Target::In("local", ""), ActionSet::of(&["find"])),
            (
                Target::In("local", "replset.election"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("local", "replset.minvalid"),
                ActionSet::of(&["find"]),
            ),
            (Target::In("", "system.js"), ActionSet::of(&["find"])),
            (Target::In("", "system.users"), ActionSet::of(&["find"])),
            (Target::In("", "system.profile"), ActionSet::of(&["find"])),
            (
                Target::In("admin", "system.backup_users"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("admin", "system.roles"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("admin", "system.version"),
                ActionSet::of(&["find"]),
            ),
            (Target::In("config", "settings"), ActionSet::of(&["find"])),
        ],
    },
    BuiltinRole {
        name: "__system",
        in_every_database: false,
        privileges: &[(Target::Any, ActionSet::ANY)],
    },
    BuiltinRole {
        name: "backup",
        in_every_database: false,
        privileges: &[
            (
                Target::Cluster,
                ActionSet::of(&[
                    "appendOplogNote",
                    "getParameter",
                    "listDatabases",
                    "serverStatus",
                    "setUserWriteBlockMode",
                    "useUUID",
                ]),
            ),
            (
                Target::In("config", "settings"),
                ActionSet::of(&["find", "insert", "update"]),
            ),
            (
                Target::Any,
                ActionSet::of(&["collStats", "listCollections", "listIndexes"]),
            ),
            (Target::In("", ""), ActionSet::of(&["find"])),
            (Target::Buckets, ActionSet::of(&["find"])),
            (Target::In("config", ""), ActionSet::of(&["find"])),
            (Target::In("local", ""), ActionSet::of(&["find"])),
            (
                Target::In("local", "replset.election"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("local", "replset.minvalid"),
                ActionSet::of(&["find"]),
            ),
            (Target::In("", "system.js"), ActionSet::of(&["find"])),
            (Target::In("", "system.users"), ActionSet::of(&["find"])),
            (Target::In("", "system.profile"), ActionSet::of(&["find"])),
            (
                Target::In("admin", "system.backup_users"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("admin", "system.roles"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("admin", "system.version"),
                ActionSet::of(&["find"]),
            ),
        ],
    },
    BuiltinRole {
        name: "clusterAdmin",
        in_every_database: false,
        privileges: &[
            (Target::Cluster, MONITOR.and(MANAGER).and(HOST)),
            (
                Target::In("", ""),
                MONITOR_DB
                    .and(MANAGER_DB)
                    .and(ActionSet::of(&["dropDatabase", "killCursors"])),
            ),
            (
                Target::In("config", ""),
                READ.and(MONITOR_DB)
                    .and(MANAGER_DB)
                    .and(ActionSet::of(&["insert", "remove", "update"])),
            ),
            (Target::In("config", "system.sessions"), MONITOR_DB),
            (
                Target::In("local", ""),
                READ.and(MONITOR_DB)
                    .and(MANAGER_DB)
                    .and(ActionSet::of(&["insert", "remove", "update"])),
            ),
            (Target::In("config", "system.js"), READ),
            (Target::In("local", "system.js"), READ),
            (Target::In("local", "system.replset"), READ),
            (
                Target::In("local", "replset.election"),
                ActionSet::of(&["find", "insert", "remove", "update"]),
            ),
            (
                Target::In("local", "replset.minvalid"),
                ActionSet::of(&["find", "insert", "remove", "update"]),
            ),
            (Target::In("", "system.profile"), ActionSet::of(&["find"])),
            (Target::Buckets, MANAGER_DB),
            (
                Target::Any,
                ActionSet::of(&["dbCheck", "exportCollection", "importCollection"]),
            ),
            (Target::In("local", "system.healthlog"), READ),
        ],
    },
    BuiltinRole {
        name: "clusterManager",
        in_every_database: false,
        privileges: &[
            (Target::Cluster, MANAGER),
            (Target::In("", ""), MANAGER_DB),
            (Target::Buckets, MANAGER_DB),
            (
                Target::In("config", ""),
                READ.and(MANAGER_DB)
                    .and(ActionSet::of(&["insert", "remove", "update"])),
            ),
            (
                Target::In("local", ""),
                MANAGER_DB.and(ActionSet::of(&["insert", "remove", "update"])),
            ),
            (Target::In("local", "system.replset"), READ),
            (Target::In("config", "system.js"), READ),
            (Target::Any, ActionSet::of(&["dbCheck"])),
            (Target::In("local", "system.healthlog"), READ),
            (
                Target::In("local", "replset.election"),
                ActionSet::of(&["insert", "remove", "update"]),
            ),
            (
                Target::In("local", "replset.minvalid"),
                ActionSet::of(&["insert", "remove", "update"]),
            ),
        ],
    },
    BuiltinRole {
        name: "clusterMonitor",
        in_every_database: false,
        privileges: &[
            (Target::Cluster, MONITOR),
            (Target::In("", ""), MONITOR_DB),
            (Target::In("config", ""), READ.and(MONITOR_DB)),
            (Target::In("config", "system.sessions"), MONITOR_DB),
            (Target::In("local", ""), READ.and(MONITOR_DB)),
            (Target::In("config", "system.js"), READ),
            (Target::In("local", "system.js"), READ),
            (
                Target::In("local", "system.replset"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("local", "replset.election"),
                ActionSet::of(&["find"]),
            ),
            (
                Target::In("local", "replset.minvalid"),
                ActionSet::of(&["find"]),
            ),
            (Target::In("", "system.profile"), ActionSet::of(&["find"])),
        ],
    },
    BuiltinRole {
        name: "dbAdmin",
        in_every_database: true,
        privileges: &[
            (Target::Own(""), DB_ADMIN),
            (Target::Own("system.profile"), PROFILE),
        ],
    },
    BuiltinRole {
        name: "dbAdminAnyDatabase",
        in_every_database: false,
        privileges: &[
            (
                Target::Cluster,
                ActionSet::of(&["listDatabases", "applyOps"]),
            ),
            (Target::In("", ""), DB_ADMIN),
            (Target::In("", "system.profile"), PROFILE),
            (Target::Buckets, DB_ADMIN),
        ],
    },
    BuiltinRole {
        name: "dbOwner",
        in_every_database: true,
        privileges: &[
            (Target::Own(""), READ_WRITE.and(DB_ADMIN).and(USER_ADMIN)),
            (Target::Own("system.js"), READ_WRITE),
            (Target::Own("system.profile"), PROFILE),
        ],
    },
    BuiltinRole {
        name: "directShardOperations",
        in_every_database: false,
        privileges: &[],
    },
    BuiltinRole {
        name: "enableSharding",
        in_every_database: true,
        privileges: &[(
            Target::In("", ""),
            ActionSet::of(&[
                "enableSharding",
                "refineCollectionShardKey",
                "reshardCollection",
            ]),
        )],
    },
    BuiltinRole {
        name: "hostManager",
        in_every_database: false,
        privileges: &[
            (Target::Cluster, HOST),
            (Target::In("", ""), ActionSet::of(&["killCursors"])),
        ],
    },
    BuiltinRole {
        name: "read",
        in_every_database: true,
        privileges: &[(Target::Own(""), READ), (Target::Own("system.js"), READ)],
    },
    BuiltinRole {
        name: "readAnyDatabase",
        in_every_database: false,
        privileges: &[
            (Target::In("", ""), READ),
            (Target::Cluster, ActionSet::of(&["listDatabases"])),
            (Target::In("", "system.js"), READ),
            (Target::Buckets, READ),
        ],
    },
    BuiltinRole {
        name: "readWrite",
        in_every_database: true,
        privileges: &[
            (Target::Own(""), READ_WRITE),
            (Target::Own("system.js"), READ_WRITE),
        ],
    },
    BuiltinRole {
        name: "readWriteAnyDatabase",
        in_every_database: false,
        privileges: &[
            (Target::In("", ""), READ_WRITE),
            (Target::Cluster, ActionSet::of(&["listDatabases"])),
            (Target::In("", "system.js"), READ_WRITE),
            (Target::Buckets, READ_WRITE),
        ],
    },
    BuiltinRole {
        name: "restore",
        in_every_database: false,
        privileges: &[
            (Target::In("", ""), USER_ADMIN.and(RESTORE)),
            (Target::In("", "system.js"), RESTORE),
            (Target::Any, ActionSet::of(&["listCollections"])),
            (Target::In("config", ""), RESTORE),
            (Target::Buckets, RESTORE),
            (Target::In("local", "system.replset"), RESTORE),
            (Target::In("local", "replset.election"), RESTORE),
            (Target::In("local", "replset.minvalid"), RESTORE),
            (Target::In("local", ""), RESTORE),
            (Target::In("admin", "tempusers"), ActionSet::of(&["find"])),
            (Target::In("admin", "temproles"), ActionSet::of(&["find"])),
            (Target::In("admin", "system.backup_users"), RESTORE),
            (
                Target::In("admin", "system.version"),
                RESTORE.and(ActionSet::of(&["find"])),
            ),
            (
                Target::In("", "system.users"),
                RESTORE.and(ActionSet::of(&["find", "remove", "update"])),
            ),
            (
                Target::Cluster,
                ActionSet::of(&[
                    "bypassWriteBlockingMode",
                    "forceUUID",
                    "getParameter",
                    "setUserWriteBlockMode",
                    "useUUID",
                    "applyOps",
                ]),
            ),
            (
                Target::In("admin", "system.roles"),
                ActionSet::of(&["createIndex"]),
            ),
        ],
    },
    BuiltinRole {
        name: "root",
        in_every_database: false,
        privileges: &[
            (
                Target::Cluster,
                MONITOR.and(MANAGER).and(HOST).and(ActionSet::of(&[
                    "authSchemaUpgrade",
                    "bypassWriteBlockingMode",
                    "forceUUID",
                    "setUserWriteBlockMode",
                    "useTenant",
                    "viewUser",
                    "applyOps",
                ])),
            ),
            (
                Target::In("", ""),
                READ_WRITE
                    .and(DB_ADMIN)
                    .and(USER_ADMIN)
                    .and(MONITOR_DB)
                    .and(MANAGER_DB)
                    .and(ActionSet::of(&["listCachedAndActiveUsers"])),
            ),
            (
                Target::In("config", ""),
                USER_ADMIN
                    .and(PROFILE)
                    .and(MONITOR_DB)
                    .and(MANAGER_DB)
                    .and(RESTORE)
                    .and(ActionSet::of(&["remove", "update"])),
            ),
            (Target::In("config", "system.sessions"), MONITOR_DB),
            (
                Target::In("local", ""),
                USER_ADMIN
                    .and(PROFILE)
                    .and(MONITOR_DB)
                    .and(MANAGER_DB)
                    .and(RESTORE)
                    .and(ActionSet::of(&["remove", "update"])),
            ),
            (Target::In("config", "system.js"), READ),
            (Target::In("local", "system.js"), READ),
            (Target::In("local", "system.replset"), PROFILE.and(RESTORE)),
            (
                Target::In("local", "replset.election"),
                RESTORE.and(ActionSet::of(&["find", "remove", "update"])),
            ),
            (
                Target::In("local", "replset.minvalid"),
                RESTORE.and(ActionSet::of(&["find", "remove", "update"])),
            ),
            (Target::In("", "system.profile"), PROFILE),
            (Target::Buckets, READ_WRITE.and(DB_ADMIN).and(MANAGER_DB)),
            (
                Target::Any,
                ActionSet::of(&[
                    "collStats",
                    "dbCheck",
                    "exportCollection",
                    "importCollection",
                    "listCollections",
                    "listIndexes",
                    "validate",
                ]),
            ),
            (Target::In("local", "system.healthlog"), READ),
            (
                Target::In("", "system.users"),
                PROFILE
                    .and(RESTORE)
                    .and(ActionSet::of(&["remove", "update"])),
            ),
            (
                Target::In("admin", "system.users"),
                READ.and(ActionSet::of(&["createIndex", "dropIndex"])),
            ),
            (
                Target::In("admin", "system.roles"),
                READ.and(ActionSet::of(&["createIndex", "dropIndex"])),
            ),
            (Target::In("admin", "system.version"), PROFILE.and(RESTORE)),
            (
                Target::In("admin", "system.backup_users"),
                PROFILE.and(RESTORE),
            ),
            (Target::In("", "system.js"), READ_WRITE.and(RESTORE)),
            (
                Target::In("config", "settings"),
                ActionSet::of(&["find", "insert", "update"]),
            ),
            (Target::In("admin", "tempusers"), ActionSet::of(&["find"])),
            (Target::In("admin", "temproles"), ActionSet::of(&["find"])),
            (
                Target::In("config", "system.preimages"),
                ActionSet::of(&["find", "remove"]),
            ),
        ],
    },
    BuiltinRole {
        name: "userAdmin",
        in_every_database: true,
        privileges: &[(Target::Own(""), USER_ADMIN)],
    },
    BuiltinRole {
        name: "userAdminAnyDatabase",
        in_every_database: false,
        privileges: &[
            (
                Target::In("", ""),
                USER_ADMIN.and(ActionSet::of(&["listCachedAndActiveUsers"])),
            ),
            (Target::In("local", ""), USER_ADMIN),
            (Target::In("config", ""), USER_ADMIN),
            (
                Target::Cluster,
                ActionSet::of(&[
                    "authSchemaUpgrade",
                    "invalidateUserCache",
                    "listDatabases",
                    "viewUser",
                ]),
            ),
            (Target::In("", "system.users"), READ),
            (
                Target::In("admin", "system.users"),
                READ.and(ActionSet::of(&["createIndex", "dropIndex"])),
            ),
            (
                Target::In("admin", "system.roles"),
                READ.and(ActionSet::of(&["createIndex", "dropIndex"])),
            ),
            (Target::In("admin", "system.version"), READ),
            (Target::In("admin", "system.backup_users"), READ),
        ],
    },
];
