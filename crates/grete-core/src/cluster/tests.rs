//! The cluster against scripted brokers.

mod bootstrap;
