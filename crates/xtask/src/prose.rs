//! Checks comments, docstrings and documents against the prose rules of CONTRIBUTING.md.
//!
//! Three rules can be checked by a program: words of a private language, docs that begin with a relative pronoun, and
//! sentences that are too long to be parsed at first reading.

mod blocks;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use blocks::Block;

/// Words and phrases that comments and documents do without. Each has a plain word of the field beside it.
const FORBIDDEN: &[(&str, &str)] = &[
    ("told", "logged, reported, notified"),
    ("tell", "log, report, notify"),
    ("tells", "logs, reports, notifies"),
    ("telling", "logging, reporting, notifying"),
    ("whoever", "the caller, the worker, ... (a noun)"),
    ("whomever", "the caller, the worker, ... (a noun)"),
    ("nobody", "no caller, no worker, ... (a noun)"),
    ("somebody", "a caller, a worker, ... (a noun)"),
    ("farewell", "close"),
    ("errand", "handler"),
    ("errands", "handlers"),
    ("verdict", "outcome, result"),
    ("verdicts", "outcomes, results"),
    ("wish", "request, command"),
    ("wishes", "requests, commands"),
    ("wished", "requested"),
    ("chore", "task"),
    ("chores", "tasks"),
    ("lookout", "main loop"),
    ("comes to", "is assigned to, amounts to"),
    ("came to", "amounted to"),
    ("is to be", "must be"),
    ("are to be", "must be"),
    ("looks at", "checks, reads"),
    ("look at", "check, read"),
    ("looked at", "checked, read"),
    ("makes up for", "compensates"),
    ("the other way round", "conversely"),
    ("for ever", "forever"),
    ("hears of", "is notified of"),
    ("heard of", "was notified of"),
    ("hurry", "expedite"),
    ("hurries", "expedites"),
    ("hurried", "expedited"),
];

/// First words that leave a doc without a subject.
const FORBIDDEN_STARTS: &[&str] =
    &["What", "Who", "Whoever", "Whose", "Whom", "Where", "Of", "As", "Nobody", "Somebody"];

/// Words in a sentence of a doc.
const MAX_SENTENCE: usize = 40;

/// Folders and files that are checked.
const CHECKED: &[&str] =
    &["crates", "fuzz", "python", "tests", "benchmarks", "examples", "docs", "docsite", "README.md", "CONTRIBUTING.md"];

/// Generated code, a list of old names, and the lists of this check itself.
const EXCLUDED: &[&str] = &[
    "crates/grete-wire/src/messages",
    "crates/xtask/src/prose.rs",
    "docs/adr/0001-names.md",
    "docs/glossary.md",
    "docs/cli",
    "benchmarks/results",
    "CONTRIBUTING.md",
];

/// Runs the check and reports each breach with its file and line.
pub fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in CHECKED {
        collect(&root.join(entry), &mut files)?;
    }
    let mut breaches = Vec::new();
    let mut checked = 0;
    for file in &files {
        let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        if EXCLUDED.iter().any(|excluded| path == *excluded || path.starts_with(&format!("{excluded}/"))) {
            continue;
        }
        checked += 1;
        let in_tests = path.contains("/tests") || path.starts_with("tests") || path.contains("/simulation");
        for block in blocks::read(file, &fs::read_to_string(file)?) {
            breaches.extend(check(&block, in_tests).into_iter().map(|(line, text)| format!("{path}:{line}: {text}")));
        }
    }
    if breaches.is_empty() {
        println!("comments and documents of {checked} files keep the prose rules");
        return Ok(());
    }
    Err(format!("{}\n{} breaches of the prose rules (CONTRIBUTING.md)", breaches.join("\n"), breaches.len()).into())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if path.is_dir() {
        if path
            .file_name()
            .is_some_and(|name| ["target", "__pycache__", "results", "corpus"].iter().any(|skipped| name == *skipped))
        {
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| ["rs", "py", "pyi", "md"].iter().any(|kind| extension == *kind))
    {
        files.push(path.to_path_buf());
    }
    files.sort();
    Ok(())
}

/// Returns line and text of each breach. In tests only the words count.
fn check(block: &Block, in_tests: bool) -> Vec<(usize, String)> {
    let text = without_code(&block.text);
    let mut breaches = Vec::new();
    let lower = text.to_lowercase().replace('\n', " \u{0}");
    let flat = lower.replace('\u{0}', "");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (word, instead) in FORBIDDEN {
        for (at, _) in flat.match_indices(word) {
            let before = flat[..at].chars().next_back().is_some_and(is_word);
            let after = flat[at + word.len()..].chars().next().is_some_and(is_word);
            if !before && !after {
                let line = text.get(..at).map_or(0, |before| before.matches('\n').count());
                breaches.push((block.line + line, format!("\"{word}\": write {instead}")));
            }
        }
    }
    if !block.is_doc || in_tests {
        return breaches;
    }
    let first = text.trim_start().split(|c: char| !is_word(c)).next().unwrap_or_default();
    if FORBIDDEN_STARTS.contains(&first) {
        breaches.push((
            block.line,
            format!("starts with \"{first}\": begin with a verb or with a noun that names the thing"),
        ));
    }
    for sentence in sentences(&text) {
        let words = sentence.split_whitespace().count();
        if words > MAX_SENTENCE {
            let begin: String = sentence.chars().take(50).collect();
            breaches.push((block.line, format!("a sentence of {words} words (\"{begin}...\"): make it two")));
        }
    }
    breaches
}

/// Replaces code spans by one word of the same number of bytes, so that places stay as they are.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '`' => {
                in_code = !in_code;
                out.push('x');
            }
            '\n' => out.push('\n'),
            _ if in_code => out.extend(std::iter::repeat_n('x', c.len_utf8())),
            _ => out.push(c),
        }
    }
    out
}

/// Splits prose at the ends of sentences, at colons and semicolons, at list items and at empty lines.
fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current = String::new();
    let mut fenced = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("xxx") {
            fenced = !fenced;
        }
        let is_item = line.is_empty()
            || line.starts_with(['-', '*', '|', '#', '>'])
            || line.split_once(['.', ')']).is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_item {
            found.push(std::mem::take(&mut current));
        }
        if fenced {
            continue;
        }
        for word in line.split_whitespace() {
            current.push_str(word);
            current.push(' ');
            if word.ends_with(['.', '!', '?', ':', ';']) {
                found.push(std::mem::take(&mut current));
            }
        }
    }
    found.push(current);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(text: &str) -> Vec<String> {
        let block = Block { line: 1, text: text.into(), is_doc: true };
        check(&block, false).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn plain_docs_pass() {
        assert_eq!(breaches("Returns the offset to commit. `None`: no record was marked."), [""; 0]);
        assert_eq!(breaches("Sends `whoever.told()` to the broker."), [""; 0]);
    }

    #[test]
    fn forbidden_words_are_found_over_line_ends() {
        assert!(breaches("Returns what\nwas told.")[0].contains("told"));
        assert!(breaches("Returns a task that is\nto be run.")[0].contains("is to be"));
        assert_eq!(breaches("Retells a stolde story."), [""; 0]);
    }

    #[test]
    fn docs_begin_with_a_subject_and_sentences_end() {
        assert!(breaches("What is left.")[0].contains("starts with"));
        assert!(breaches(&format!("Returns {} end.", "and ".repeat(45)))[0].contains("words"));
    }
}
