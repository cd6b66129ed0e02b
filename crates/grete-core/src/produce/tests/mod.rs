//! What a producer has to hold, one test for each thing.

mod answers;
mod closing;
mod collecting;
mod outcomes;
mod receipts;
mod rig;
mod routing;
mod sequences;
