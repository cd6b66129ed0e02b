//! Operations against scripted brokers.

mod core;
mod groups;
mod offsets;
mod rig;
mod topics;
mod totality;

use rig::Rig;
