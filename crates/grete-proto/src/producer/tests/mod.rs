//! Tests of whole producers against simulated brokers, without sockets and on a virtual clock.
//!
//! | file | models |
//! |---|---|
//! | `producer_state_manager` | a leader's state of idempotent producers |
//! | `log` | a replicated partition |
//! | `brokers`, `produce_handler` | the brokers' responses |
//! | `network` | connections |
//! | `client` | callers and the network thread, as in `grete-client` |
//! | `simulator` | virtual time and random delays |
//! | `faults` | injected faults |
//! | `delivery_oracle` | checked guarantees |

mod brokers;
mod client;
mod delivery_oracle;
mod faults;
mod idempotence;
mod log;
mod network;
mod no_panic;
mod outcomes;
mod produce_handler;
mod producer_state_manager;
mod responses;
mod simulation;
mod simulator;
