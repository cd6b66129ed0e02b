//! Whole consumers against scripted brokers, without sockets and on a virtual clock.
//!
//! `simulator` holds the environment of the tests:
//!
//! | file | simulates |
//! |---|---|
//! | `partition_log` | a partition on disk |
//! | `brokers` | brokers' responses; the group coordinator is that of the group's own tests |
//! | `fetch_sessions` | Fetch; the sessions are those of the embedded broker |
//! | `member` | `grete-client`: the driver, the dispatcher, the workers |
//! | `clock`, `network`, `workers` | time, connections, handlers and faults |

mod assign;
mod close;
mod corrupt;
mod fetch_waits;
mod lost_partitions;
mod memory;
mod no_panic;
mod partition_failures;
mod queries;
mod revocation;
mod simulation;
mod simulator;
mod subscribe;
mod topic_patterns;
