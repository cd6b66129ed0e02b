//! Sampler of new traces, with the agent's rates.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of services with rates of their own; the others have the agent's default rate.
const MAX_SERVICES: usize = 64;
/// Knuth's factor, which all of Datadog's tracers use, so that they make the same decision on a trace.
const KNUTH_FACTOR: u64 = 1_111_111_111_111_111_111;
const DEFAULT_RATE_KEY: &str = "service:,env:";

/// Rates by service, read without a lock.
///
/// An entry belongs permanently to the service whose hash it got first. The single writer stores the rate before the
/// hash, so that a reader that finds the hash finds a rate of that service. NaN: the agent no longer sends a rate for
/// the service.
#[derive(Debug)]
pub(crate) struct Sampler {
    hashes: [AtomicU64; MAX_SERVICES],
    rates: [AtomicU64; MAX_SERVICES],
    default_rate: AtomicU64,
}

/// Sampling decision: the priority, and the rate that decided it; `None`: no rate did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decision {
    pub(crate) priority: i32,
    pub(crate) rate: Option<f64>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            hashes: [const { AtomicU64::new(0) }; MAX_SERVICES],
            rates: [const { AtomicU64::new(0) }; MAX_SERVICES],
            default_rate: AtomicU64::new(f64::NAN.to_bits()),
        }
    }
}

impl Sampler {
    /// Decides about a trace that begins in this process.
    pub(crate) fn decide(&self, trace_id: u128, service: &str, env: &str) -> Decision {
        let rate = self.rate_of(hash(&["service:", service, ",env:", env]));
        let Some(rate) = rate else { return Decision { priority: 1, rate: None } };
        let place = (trace_id as u64).wrapping_mul(KNUTH_FACTOR);
        let kept = rate >= 1.0 || (place as f64) < rate * 2f64.powi(64);
        Decision { priority: i32::from(kept), rate: Some(rate) }
    }

    fn rate_of(&self, hash: u64) -> Option<f64> {
        let known = |rate: u64| Some(f64::from_bits(rate)).filter(|rate| !rate.is_nan());
        let others = || known(self.default_rate.load(Ordering::Relaxed));
        for (slot, rate) in self.hashes.iter().zip(&self.rates) {
            match slot.load(Ordering::Acquire) {
                0 => break,
                found if found == hash => return known(rate.load(Ordering::Relaxed)).or_else(others),
                _ => {}
            }
        }
        others()
    }

    /// Updates the rates from an agent's response. Only one thread calls this.
    pub(crate) fn update(&self, body: &[u8]) {
        let mut new_rates = [f64::NAN.to_bits(); MAX_SERVICES];
        let mut found = false;
        let _ = crate::sampling::agent_rates::parse_rates(body, |service, rate| {
            found = true;
            if service == DEFAULT_RATE_KEY {
                self.default_rate.store(rate.to_bits(), Ordering::Relaxed);
            } else if let Some(index) = self.service_index(hash(&[service]), rate)
                && let Some(place) = new_rates.get_mut(index)
            {
                *place = rate.to_bits();
            }
        });
        if found {
            self.rates.iter().zip(new_rates).for_each(|(rate, new_rate)| rate.store(new_rate, Ordering::Relaxed));
        }
    }

    /// Returns the service's entry, a new one if necessary; `None`: all are in use.
    fn service_index(&self, hash: u64, rate: f64) -> Option<usize> {
        let index = self
            .hashes
            .iter()
            .position(|slot| matches!(slot.load(Ordering::Relaxed), 0) || slot.load(Ordering::Relaxed) == hash)?;
        let slot = self.hashes.get(index)?;
        if slot.load(Ordering::Relaxed) == 0 {
            self.rates.get(index)?.store(rate.to_bits(), Ordering::Relaxed);
            slot.store(hash, Ordering::Release);
        }
        Some(index)
    }
}

/// FNV-1a hash over all parts; never 0, which marks a free entry.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(sampler: &Sampler, service: &str, env: &str) -> usize {
        (0..10_000).filter(|_| sampler.decide(crate::ids::next_trace_id(7), service, env).priority == 1).count()
    }

    #[test]
    fn before_the_agent_has_spoken_everything_is_kept() {
        let sampler = Sampler::default();
        assert_eq!(sampler.decide(7, "orders", "prod"), Decision { priority: 1, rate: None });
        sampler.update(b"OK");
        assert_eq!(sampler.decide(7, "orders", "prod").rate, None);
    }

    #[test]
    fn each_service_has_its_rate_and_the_others_theirs() {
        let sampler = Sampler::default();
        sampler
            .update(br#"{"rate_by_service":{"service:,env:":0.0,"service:orders,env:prod":0.5,"service:all,env:":1}}"#);
        assert_eq!(kept(&sampler, "others", "prod"), 0);
        assert_eq!(kept(&sampler, "all", ""), 10_000);
        let half = kept(&sampler, "orders", "prod");
        assert!((4_700..5_300).contains(&half), "{half}");
        assert_eq!(sampler.decide(7, "orders", "prod").rate, Some(0.5));
        sampler.update(br#"{"rate_by_service":{"service:,env:":1.0}}"#);
        assert_eq!(sampler.decide(7, "orders", "prod").rate, Some(1.0));
    }

    #[test]
    fn it_decides_as_datadogs_tracers_do() {
        // ddtrace's RateByServiceSampler: (id * 1111111111111111111) % 2^64 <= rate * 2^64
        let sampler = Sampler::default();
        sampler.update(br#"{"rate_by_service":{"service:,env:":0.5}}"#);
        for (id, priority) in [(1, 1), (10, 0), (12_345_678_901_234_567_890, 1), (17, 1)] {
            let place = (u128::from(id as u64) * 1_111_111_111_111_111_111) % (1 << 64);
            assert_eq!(i32::from(place <= 1 << 63), priority, "{id}");
            assert_eq!(sampler.decide(id, "x", "").priority, priority, "{id}");
        }
    }

    #[test]
    fn more_services_than_slots_have_the_rate_for_all() {
        let sampler = Sampler::default();
        let services: Vec<String> = (0..200).map(|index| format!("\"service:s{index},env:\":0.0")).collect();
        sampler.update(format!(r#"{{"rate_by_service":{{"service:,env:":1.0,{}}}}}"#, services.join(",")).as_bytes());
        assert_eq!(sampler.decide(1, "s0", "").rate, Some(0.0));
        assert_eq!(sampler.decide(1, "s199", "").rate, Some(1.0));
    }
}
