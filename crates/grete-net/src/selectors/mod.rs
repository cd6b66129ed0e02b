//! Selectors of a loop: that of the network thread, that of the callers, and the gate between both.
//!
//! - `epoll`: sets of descriptors in which threads wait.
//! - `leadership`: which caller waits in the callers' selector.
//! - `crowd`: whether a caller should.
//! - `gate`: what keeps the network thread asleep meanwhile.
//! - `callers`: the callers' selector, and the registration of sockets.

mod callers;
mod crowd;
pub(crate) mod epoll;
mod gate;
mod leadership;

pub(crate) use callers::{CallersSelector, NOTIFY, Selectors};
pub use gate::GateUse;
pub(crate) use gate::{GATE, Watch};

/// Runs `model` in all orders of its threads with at most three preemptions.
#[cfg(test)]
fn check_orders(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
