//! Tests of share groups without a cluster.

mod coordinator;
mod model;
mod partition;
