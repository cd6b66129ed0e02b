//! Floor 1: the Arrow C Data Interface over wire's columns.
