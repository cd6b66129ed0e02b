//! Code shared by the fuzz targets.

pub mod counting;
