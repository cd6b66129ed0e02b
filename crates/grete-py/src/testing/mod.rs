//! Entry points for tests: jobs without a broker.

pub(crate) mod lane;
pub(crate) mod stepper;
