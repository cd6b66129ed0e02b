//! Which new traces are kept, as the agent wishes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Services whose rates are known one by one; the others have the agent's rate for all.
const SLOTS: usize = 64;
/// Knuth's factor, that all of Datadog's tracers use: they decide alike on the same trace.
const FACTOR: u64 = 1_111_111_111_111_111_111;
const ALL: &str = "service:,env:";

/// Rates by service that are read without a lock.
///
/// A slot belongs to the service whose hash it got first, for ever; the one thread that writes sets the rate before it
/// gives the slot away, so that whoever finds the hash finds a rate of that service. A rate that the agent no longer tells
/// is no number.
#[derive(Debug)]
pub(crate) struct Sampler {
    hashes: [AtomicU64; SLOTS],
    rates: [AtomicU64; SLOTS],
    others: AtomicU64,
}

/// Whether a trace is kept, and the rate that decided it, if one did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decision {
    pub(crate) priority: i32,
    pub(crate) rate: Option<f64>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            hashes: [const { AtomicU64::new(0) }; SLOTS],
            rates: [const { AtomicU64::new(0) }; SLOTS],
            others: AtomicU64::new(f64::NAN.to_bits()),
        }
    }
}

impl Sampler {
    /// For a trace that begins here.
    pub(crate) fn decide(&self, trace_id: u128, service: &str, env: &str) -> Decision {
        let rate = self.rate(hash(&["service:", service, ",env:", env]));
        let Some(rate) = rate else { return Decision { priority: 1, rate: None } };
        let place = (trace_id as u64).wrapping_mul(FACTOR);
        let kept = rate >= 1.0 || (place as f64) < rate * 2f64.powi(64);
        Decision { priority: i32::from(kept), rate: Some(rate) }
    }

    fn rate(&self, hash: u64) -> Option<f64> {
        let known = |rate: u64| Some(f64::from_bits(rate)).filter(|rate| !rate.is_nan());
        let others = || known(self.others.load(Ordering::Relaxed));
        for (slot, rate) in self.hashes.iter().zip(&self.rates) {
            match slot.load(Ordering::Acquire) {
                0 => break,
                found if found == hash => return known(rate.load(Ordering::Relaxed)).or_else(others),
                _ => {}
            }
        }
        others()
    }

    /// Takes in what the agent has answered. One thread does so.
    pub(crate) fn update(&self, body: &[u8]) {
        let mut told = [f64::NAN.to_bits(); SLOTS];
        let mut found = false;
        let _ = crate::rates::read(body, |service, rate| {
            found = true;
            if service == ALL {
                self.others.store(rate.to_bits(), Ordering::Relaxed);
            } else if let Some(index) = self.slot(hash(&[service]), rate)
                && let Some(place) = told.get_mut(index)
            {
                *place = rate.to_bits();
            }
        });
        if found {
            self.rates.iter().zip(told).for_each(|(rate, told)| rate.store(told, Ordering::Relaxed));
        }
    }

    /// The service's slot, a new one if it has none yet; none when all are taken.
    fn slot(&self, hash: u64, rate: f64) -> Option<usize> {
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

/// FNV-1a over all parts; never 0, which means a free slot.
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
        (0..10_000).filter(|_| sampler.decide(crate::ids::next_trace(7), service, env).priority == 1).count()
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
