//! Senders of records, read from trace headers without making Python objects.

use std::collections::HashSet;

use grete_trace::{HEADERS, SpanContext};

use crate::consumer::messages::Messages;

/// Trace contexts in the headers of a batch.
#[derive(Default)]
pub(super) struct RemoteParents {
    /// Distinct contexts in the order of the records, up to the limit asked for.
    pub(super) contexts: Vec<SpanContext>,
    /// Number of distinct contexts beyond the limit.
    pub(super) omitted: usize,
    /// Number of trace headers that could not be parsed.
    pub(super) invalid_headers: u32,
}

/// Returns the spans that sent these records: the first `most` distinct ones.
pub(super) fn from_messages(messages: &Messages, most: usize) -> RemoteParents {
    let mut parents = RemoteParents::default();
    let mut known = HashSet::new();
    for row in messages.range() {
        let (context, broken) = from_row(messages, row);
        parents.invalid_headers = parents.invalid_headers.saturating_add(broken);
        let Some(context) = context else { continue };
        if !known.insert((context.trace_id, context.span_id)) {
            continue;
        }
        match parents.contexts.len() < most {
            true => parents.contexts.push(context),
            false => parents.omitted += 1,
        }
    }
    parents
}

/// Returns the span that sent one record, and the number of its trace headers that could not be parsed.
pub(super) fn from_row(messages: &Messages, row: usize) -> (Option<SpanContext>, u32) {
    let mut values: [Option<&[u8]>; HEADERS.len()] = Default::default();
    let mut has_any = false;
    // Headers after one that does not parse are ignored: a trace must not fail for them.
    for (key, value) in messages.columns().headers(row).map_while(Result::ok) {
        let index = HEADERS.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(key));
        // The last value of a repeated header counts, because producers append theirs.
        if let Some(place) = index.and_then(|index| values.get_mut(index))
            && let Some(value) = value
        {
            *place = Some(value);
            has_any = true;
        }
    }
    if !has_any {
        return (None, 0);
    }
    let found = grete_trace::extract(values);
    (found.context, found.broken)
}
