//! Whose work records go on with, read from their headers without an object of Python's.

use std::collections::HashSet;

use grete_trace::{HEADERS, SpanContext};

use crate::messages::Messages;

/// What the headers of a batch tell of.
#[derive(Default)]
pub(super) struct Parents {
    /// Each once, in the order of the records, and as many as were wanted.
    pub(super) found: Vec<SpanContext>,
    /// How many more there are.
    pub(super) beyond: usize,
    /// Headers that say nothing that can be understood.
    pub(super) broken: u32,
}

/// The spans that sent these records: the first `most` of them that differ.
pub(super) fn of(messages: &Messages, most: usize) -> Parents {
    let mut parents = Parents::default();
    let mut known = HashSet::new();
    for row in messages.range() {
        let (context, broken) = of_row(messages, row);
        parents.broken = parents.broken.saturating_add(broken);
        let Some(context) = context else { continue };
        if !known.insert((context.trace_id, context.span_id)) {
            continue;
        }
        match parents.found.len() < most {
            true => parents.found.push(context),
            false => parents.beyond += 1,
        }
    }
    parents
}

/// The span that sent one record, and how many of its headers say nothing that can be understood.
pub(super) fn of_row(messages: &Messages, row: usize) -> (Option<SpanContext>, u32) {
    let mut values: [Option<&[u8]>; HEADERS.len()] = Default::default();
    let mut any = false;
    // What of the headers does not parse ends them: a trace must not fail for it.
    for (key, value) in messages.columns().headers(row).map_while(Result::ok) {
        let index = HEADERS.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(key));
        // Of a header that comes twice, the last one: producers add theirs at the end.
        if let Some(place) = index.and_then(|index| values.get_mut(index))
            && let Some(value) = value
        {
            *place = Some(value);
            any = true;
        }
    }
    if !any {
        return (None, 0);
    }
    let found = grete_trace::extract(values);
    (found.context, found.broken)
}
