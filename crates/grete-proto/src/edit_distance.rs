//! Edit distance between names, to suggest the intended name after a typing mistake.

/// Returns the Levenshtein distance over bytes.
#[must_use]
pub fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Returns whether a known name at this distance is a plausible suggestion: at most a third of its letters differ.
#[must_use]
pub fn is_likely_typo(distance: usize, known: &str) -> bool {
    distance <= known.len() / 3
}
