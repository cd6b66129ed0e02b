//! Shrinks a failing plan: fewer faults, fewer records, fewer processes, as long as it still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::oracle::Violation;
use crate::plan::{Fault, FaultedClient, Nature, Plan};
use crate::simulate;

/// Most simulations of a shrink.
const MAX_RUNS: usize = 600;

/// Runs a plan. A panic counts as a broken promise.
#[must_use]
pub fn violation_of(plan: &Plan) -> Option<Violation> {
    match catch_unwind(AssertUnwindSafe(|| simulate(plan, false).violation)) {
        Ok(violation) => violation,
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Some(Violation { at: 0, what: format!("panic: {message}") })
        }
    }
}

/// Returns a smaller plan that fails in the same way: with the same first word.
#[must_use]
pub fn shrink(plan: &Plan) -> Plan {
    let kind = |violation: &Violation| violation.what.split(' ').next().unwrap_or_default().to_owned();
    let Some(wanted) = violation_of(plan).map(|violation| kind(&violation)) else { return plan.clone() };
    let mut runs = 0;
    let mut fails = |plan: &Plan| {
        runs += 1;
        runs <= MAX_RUNS && violation_of(plan).is_some_and(|violation| kind(&violation) == wanted)
    };
    let mut smallest = plan.clone();
    loop {
        let before = size(&smallest);
        smallest = without(&smallest, |plan| &mut plan.faults, &mut fails);
        smallest = without(&smallest, |plan| &mut plan.records, &mut fails);
        for id in smallest.processes.iter().map(|process| process.id).collect::<Vec<_>>() {
            let candidate = without_process(&smallest, id);
            if !candidate.processes.is_empty() && fails(&candidate) {
                smallest = candidate;
            }
        }
        for candidate in simpler(&smallest) {
            if candidate != smallest && fails(&candidate) {
                smallest = candidate;
            }
        }
        if size(&smallest) >= before {
            return smallest;
        }
    }
}

fn size(plan: &Plan) -> usize {
    plan.faults.len() + plan.records.len() + plan.processes.len()
}

/// Removes elements: first halves, then ever smaller runs.
fn without<T: Clone>(
    plan: &Plan,
    list: impl Fn(&mut Plan) -> &mut Vec<T>,
    fails: &mut impl FnMut(&Plan) -> bool,
) -> Plan {
    let mut smallest = plan.clone();
    let mut run = list(&mut smallest).len().div_ceil(2);
    while run > 0 {
        let mut start = 0;
        while start < list(&mut smallest).len() {
            let mut candidate = smallest.clone();
            let items = list(&mut candidate);
            let end = (start + run).min(items.len());
            items.drain(start..end);
            if fails(&candidate) {
                smallest = candidate;
            } else {
                start += run;
            }
        }
        run = if run == 1 { 0 } else { run.div_ceil(2) };
    }
    smallest
}

fn without_process(plan: &Plan, id: usize) -> Plan {
    let mut plan = plan.clone();
    plan.processes.retain(|process| process.id != id);
    plan.faults.retain(|planned| match &planned.fault {
        Fault::Crash { process, .. }
        | Fault::Stop { process, .. }
        | Fault::Sleep { process, .. }
        | Fault::Cut { process, .. } => *process != id,
        Fault::Requests { client, .. } => *client != FaultedClient::Process(id),
        _ => true,
    });
    plan
}

/// Returns plans with simpler settings.
fn simpler(plan: &Plan) -> Vec<Plan> {
    let with = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan
    };
    vec![
        with(&|plan| plan.cluster.slow_network = false),
        with(&|plan| plan.cluster.outputs = 1),
        with(&|plan| plan.app.static_members = false),
        with(&|plan| plan.app.workers = 1),
        with(&|plan| plan.records.iter_mut().for_each(|record| record.takes = 0)),
        with(&|plan| plan.records.iter_mut().for_each(|record| record.outputs = record.outputs.min(1))),
        with(&|plan| plan.records.iter_mut().for_each(|record| record.nature = Nature::Good)),
    ]
}
