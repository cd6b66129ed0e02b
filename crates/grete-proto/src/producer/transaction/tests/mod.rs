//! Tests of the transaction manager against scripted responses.

mod calls;
mod flow;
mod harness;
mod table;
mod totality;
