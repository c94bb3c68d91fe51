//! Actions: what a privilege lets its owner do.

/// All actions but `anyAction`, which stands for all: those of MongoDB 6.0.5, in the order in which it shows them.
const NAMES: [&str; 130] = [
    "addShard",
    "advanceClusterTime",
    "allCollectionStats",
    "appendOplogNote",
    "applicationMessage",
    "auditConfigure",
    "auditLogRotate",
    "authenticate",
    "authSchemaUpgrade",
    "bypassDocumentValidation",
    "bypassWriteBlockingMode",
    "changeCustomData",
    "changePassword",
    "changeOwnPassword",
    "changeOwnCustomData",
    "changeStream",
    "checkFreeMonitoringStatus",
    "cleanupOrphaned",
    "clearJumboFlag",
    "closeAllDatabases",
    "collMod",
    "collStats",
    "compact",
    "compactStructuredEncryptionData",
    "connPoolStats",
    "connPoolSync",
    "convertToCapped",
    "cpuProfiler",
    "createCollection",
    "createDatabase",
    "createIndex",
    "createRole",
    "createUser",
    "dbCheck",
    "dbHash",
    "dbStats",
    "dropCollection",
    "dropConnections",
    "dropDatabase",
    "dropIndex",
    "dropRole",
    "dropUser",
    "emptycapped",
    "enableProfiler",
    "enableSharding",
    "exportCollection",
    "find",
    "flushRouterConfig",
    "forceUUID",
    "fsync",
    "getClusterParameter",
    "getDatabaseVersion",
    "getDefaultRWConcern",
    "getCmdLineOpts",
    "getLog",
    "getParameter",
    "getShardMap",
    "getShardVersion",
    "grantRole",
    "grantPrivilegesToRole",
    "hostInfo",
    "impersonate",
    "importCollection",
    "indexStats",
    "inprog",
    "insert",
    "internal",
    "invalidateUserCache",
    "killAnyCursor",
    "killAnySession",
    "killCursors",
    "killop",
    "listCachedAndActiveUsers",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "listSessions",
    "listShards",
    "logRotate",
    "moveChunk",
    "netstat",
    "oidReset",
    "operationMetrics",
    "planCacheIndexFilter",
    "planCacheRead",
    "planCacheWrite",
    "refineCollectionShardKey",
    "reIndex",
    "remove",
    "removeShard",
    "renameCollectionSameDB",
    "repairDatabase",
    "replSetConfigure",
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetHeartbeat",
    "replSetResizeOplog",
    "replSetStateChange",
    "reshardCollection",
    "resync",
    "revokeRole",
    "rotateCertificates",
    "runAsLessPrivilegedUser",
    "runTenantMigration",
    "serverStatus",
    "setAuthenticationRestriction",
    "setClusterParameter",
    "setDefaultRWConcern",
    "setFeatureCompatibilityVersion",
    "setFreeMonitoring",
    "setParameter",
    "setUserWriteBlockMode",
    "shardCollection",
    "shardedDataDistribution",
    "shardingState",
    "shutdown",
    "splitChunk",
    "splitVector",
    "storageDetails",
    "top",
    "touch",
    "trafficRecord",
    "unlock",
    "useTenant",
    "useUUID",
    "update",
    "validate",
    "viewRole",
    "viewUser",
    "applyOps",
];

const ANY: &str = "anyAction";
const WORDS: usize = NAMES.len().div_ceil(64);

/// A set of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// All of them.
    pub const ANY: Self = {
        let mut words = [u64::MAX; WORDS];
        words[WORDS - 1] = (1 << (NAMES.len() % 64)) - 1;
        Self(words)
    };

    /// The actions with these names; tables are made of it while the program is compiled.
    pub const fn of(names: &[&str]) -> Self {
        let mut set = Self([0; WORDS]);
        let mut at = 0;
        while at < names.len() {
            let number = number_of(names[at]);
            set.0[number / 64] |= 1 << (number % 64);
            at += 1;
        }
        set
    }

    /// The action with this name, or all of them; `None` for no action.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            ANY => Some(Self::ANY),
            _ => NAMES.contains(&name).then(|| Self::of(&[name])),
        }
    }

    /// Those of both.
    #[must_use]
    pub const fn and(mut self, other: Self) -> Self {
        let mut at = 0;
        while at < WORDS {
            self.0[at] |= other.0[at];
            at += 1;
        }
        self
    }

    /// Those that the other does not have.
    #[must_use]
    pub const fn without(mut self, other: Self) -> Self {
        let mut at = 0;
        while at < WORDS {
            self.0[at] &= !other.0[at];
            at += 1;
        }
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<&'static str> {
        if *self == Self::ANY {
            return vec![ANY];
        }
        let is_here = |number: &usize| self.0[number / 64] & (1 << (number % 64)) != 0;
        let numbers = (0..NAMES.len()).filter(is_here);
        numbers.map(|number| NAMES[number]).collect()
    }
}

const fn number_of(name: &str) -> usize {
    let mut number = 0;
    while number < NAMES.len() {
        if is_same(NAMES[number].as_bytes(), name.as_bytes()) {
            return number;
        }
        number += 1;
    }
    panic!("there is no action of this name")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_made_of() {
        let some = ActionSet::of(&["find", "applyOps", "addShard"]);
        assert_eq!(some.names(), ["addShard", "find", "applyOps"]);
        assert!(some.without(ActionSet::ANY).is_empty());
        assert!(!ActionSet::ANY.without(some).is_empty());
        assert_eq!(
            ActionSet::parse("anyAction").unwrap().names(),
            ["anyAction"]
        );
        assert_eq!(ActionSet::parse("nope"), None);
        for name in NAMES {
            assert_eq!(ActionSet::parse(name).unwrap().names(), [name]);
        }
        let less = some.without(ActionSet::of(&["find"]));
        assert_eq!(less.and(ActionSet::of(&["find"])), some);
    }
}
