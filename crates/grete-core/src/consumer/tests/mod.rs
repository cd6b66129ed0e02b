//! Whole consumers against scripted brokers, without sockets and on a virtual clock.
//!
//! | file | plays |
//! |---|---|
//! | `log` | a partition on disk |
//! | `brokers` | what brokers answer; the group's coordinator is the one of the group's own tests |
//! | `sessions` | the server's side of Fetch |
//! | `member` | what `grete-client` does: the driver, the dispatcher, the workers |
//! | `world`, `clock`, `wires`, `work` | everything around them: time, connections, handlers, chance |

mod assign;
mod brokers;
mod clock;
mod close;
mod corrupt;
mod log;
mod lost;
mod member;
mod memory;
mod questions;
mod revocation;
mod sessions;
mod simulation;
mod subscribe;
mod totality;
mod wires;
mod work;
mod world;
