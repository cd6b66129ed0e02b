//! Tests of the sender, one per guarantee.

mod accumulator;
mod batch_promise;
mod close;
mod harness;
mod outcomes;
mod responses;
mod routing;
mod sequences;
mod transactional;
mod unassigned;
mod unknown_topic;
