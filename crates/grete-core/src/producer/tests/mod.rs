//! Whole producers against simulated brokers, without sockets and on a virtual clock.
//!
//! | file | plays |
//! |---|---|
//! | `states` | what a leader remembers of idempotent producers |
//! | `log` | a replicated partition |
//! | `brokers`, `produce` | what brokers answer |
//! | `wires` | connections |
//! | `client` | what `grete-client` does: callers and the network thread |
//! | `world` | time and chance |
//! | `faults` | what goes wrong |
//! | `spy` | what must hold |

mod answers;
mod brokers;
mod client;
mod faults;
mod idempotence;
mod log;
mod outcomes;
mod produce;
mod simulation;
mod spy;
mod states;
mod totality;
mod wires;
mod world;
