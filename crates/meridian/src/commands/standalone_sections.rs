//! Sections of `serverStatus` about what a standalone has no part in: elections, shards, transactions between them.
//! Monitors expect them; nothing of the kind ever happened.

use crate::service::Service;
use meridian_wire::DocumentWriter;

fn zeros(names: &[&str], section: &mut DocumentWriter<'_>) {
    for name in names {
        section.int64(name, 0);
    }
}

pub fn write_batched_deletes(_: &Service, section: &mut DocumentWriter<'_>) {
    zeros(
        &["batches", "docs", "stagedSizeBytes", "timeMillis"],
        section,
    );
}

pub fn write_elections(_: &Service, section: &mut DocumentWriter<'_>) {
    for cause in [
        "stepUpCmd",
        "priorityTakeover",
        "catchUpTakeover",
        "electionTimeout",
        "freezeTimeout",
    ] {
        zeros(&["called", "successful"], &mut section.document(cause));
    }
    zeros(
        &[
            "numStepDownsCausedByHigherTerm",
            "numCatchUps",
            "numCatchUpsSucceeded",
            "numCatchUpsAlreadyCaughtUp",
            "numCatchUpsSkipped",
            "numCatchUpsTimedOut",
            "numCatchUpsFailedWithError",
            "numCatchUpsFailedWithNewTerm",
            "numCatchUpsFailedWithReplSetAbortPrimaryCatchUpCmd",
        ],
        section,
    );
    section.double("averageCatchUpOps", 0.0);
}

pub fn write_flow_control(_: &Service, section: &mut DocumentWriter<'_>) {
    section
        .boolean("enabled", false)
        .int32("targetRateLimit", 0);
    section
        .int64("timeAcquiringMicros", 0)
        .double("locksPerKiloOp", 0.0)
        .int32("sustainerRate", 0);
    section
        .boolean("isLagged", false)
        .int32("isLaggedCount", 0)
        .int64("isLaggedTimeMicros", 0);
}

pub fn write_free_monitoring(_: &Service, section: &mut DocumentWriter<'_>) {
    section.string("state", "undecided");
}

/// There are no locks that a client's statements wait for.
pub fn write_locks(_: &Service, _: &mut DocumentWriter<'_>) {}

pub fn write_tenant_migrations(_: &Service, section: &mut DocumentWriter<'_>) {
    zeros(
        &[
            "currentMigrationsDonating",
            "currentMigrationsReceiving",
            "totalSuccessfulMigrationsDonated",
            "totalSuccessfulMigrationsReceived",
            "totalFailedMigrationsDonated",
            "totalFailedMigrationsReceived",
        ],
        section,
    );
}

pub fn write_traffic_recording(_: &Service, section: &mut DocumentWriter<'_>) {
    section.boolean("running", false);
}

pub fn write_transactions(_: &Service, section: &mut DocumentWriter<'_>) {
    zeros(
        &[
            "retriedCommandsCount",
            "retriedStatementsCount",
            "transactionsCollectionWriteCount",
            "currentActive",
            "currentInactive",
            "currentOpen",
            "totalAborted",
            "totalCommitted",
            "totalStarted",
            "totalPrepared",
            "totalPreparedThenCommitted",
            "totalPreparedThenAborted",
            "currentPrepared",
        ],
        section,
    );
}

pub fn write_two_phase_commits(_: &Service, section: &mut DocumentWriter<'_>) {
    zeros(
        &[
            "totalCreated",
            "totalStartedTwoPhaseCommit",
            "totalAbortedTwoPhaseCommit",
            "totalCommittedTwoPhaseCommit",
        ],
        section,
    );
    zeros(
        &[
            "writingParticipantList",
            "waitingForVotes",
            "writingDecision",
            "waitingForDecisionAcks",
            "deletingCoordinatorDoc",
        ],
        &mut section.document("currentInSteps"),
    );
}
