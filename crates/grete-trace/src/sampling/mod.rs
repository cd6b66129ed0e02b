//! Head sampling with the rates of Datadog's agent.
//!
//! - `agent_rates`: parser of the rates in the agent's response.
//! - `sampler`: the rates by service, and the decision for a new trace.

pub(super) mod agent_rates;
pub(super) mod sampler;
