//! Handlers of the APIs, one file per family.

mod api_versions;
mod configs;
mod coordinators;
mod deletions;
mod describe;
pub(super) mod fetch;
mod groups;
mod list_offsets;
mod metadata;
mod produce;
mod sasl;
pub(super) mod share;
mod topics;
mod transactions;
