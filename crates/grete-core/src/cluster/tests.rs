//! The cluster against scripted brokers.

mod bootstrap;
mod links;
mod property;
mod requests;
mod topics;
