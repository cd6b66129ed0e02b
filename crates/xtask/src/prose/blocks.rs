//! Extracts comments and docs from Rust, Python and Markdown files.

use std::path::Path;

/// Comment, doc comment, docstring, or line of a document.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// Number of the first line, from 1.
    pub line: usize,
    /// Text without the comment's marks.
    pub text: String,
    /// Doc comment or docstring: its first sentence describes an item.
    pub is_doc: bool,
}

/// Returns the blocks of a file, by its extension.
pub fn read(path: &Path, source: &str) -> Vec<Block> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => rust(source),
        Some("md") => markdown(source),
        _ => python(source),
    }
}

fn rust(source: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut last = (0, "");
    for (index, line) in source.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = ["///", "//!", "//"].into_iter().find(|mark| trimmed.starts_with(mark));
        let (mark, text) = match mark {
            Some(mark) => (mark, trimmed.strip_prefix(mark).unwrap_or_default()),
            // A comment behind code: two slashes outside of a string.
            None => match line.find(" // ").filter(|&at| line[..at].matches('"').count() % 2 == 0) {
                Some(at) => ("code", &line[at + 4..]),
                None => continue,
            },
        };
        let text = text.strip_prefix(' ').unwrap_or(text);
        match blocks.last_mut() {
            Some(block) if last == (index, mark) && mark != "code" => {
                block.text.push('\n');
                block.text.push_str(text);
            }
            _ => blocks.push(Block { line: index + 1, text: text.into(), is_doc: mark == "///" || mark == "//!" }),
        }
        last = (index + 1, mark);
    }
    blocks
}

/// Docstrings are the triple-quoted strings that begin a line.
fn python(source: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut string: Option<&str> = None;
    for (index, line) in source.lines().enumerate() {
        if let Some(block) = &mut open {
            block.text.push('\n');
            match line.find("\"\"\"") {
                Some(end) => {
                    block.text.push_str(line[..end].trim());
                    blocks.extend(open.take());
                }
                None => block.text.push_str(line.trim()),
            }
            continue;
        }
        if let Some(quotes) = string {
            if line.contains(quotes) {
                string = None;
            }
            continue;
        }
        let trimmed = line.trim_start();
        let doc = trimmed.strip_prefix("\"\"\"").or_else(|| trimmed.strip_prefix("r\"\"\""));
        if let Some(text) = doc {
            match text.find("\"\"\"") {
                Some(end) => blocks.push(Block { line: index + 1, text: text[..end].into(), is_doc: true }),
                None => open = Some(Block { line: index + 1, text: text.into(), is_doc: true }),
            }
            continue;
        }
        string = ["\"\"\"", "'''"].into_iter().find(|quotes| line.matches(quotes).count() % 2 == 1);
        let comment = line.match_indices('#').find(|(at, _)| {
            let before = &line[..*at];
            (before.is_empty() || before.ends_with(' '))
                && before.matches('"').count() % 2 == 0
                && before.matches('\'').count() % 2 == 0
        });
        if string.is_none()
            && let Some((at, _)) = comment
            && !["# noqa", "# type:", "# fmt:"].iter().any(|mark| line[at..].starts_with(mark))
        {
            blocks.push(Block { line: index + 1, text: line[at + 1..].trim().into(), is_doc: false });
        }
    }
    blocks
}

fn markdown(source: &str) -> Vec<Block> {
    let mut fenced = false;
    let mut blocks = Vec::new();
    for (index, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.is_empty() {
            blocks.push(Block { line: index + 1, text: line.into(), is_doc: false });
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(blocks: &[Block]) -> Vec<(usize, &str, bool)> {
        blocks.iter().map(|block| (block.line, block.text.as_str(), block.is_doc)).collect()
    }

    #[test]
    fn rust_comments_are_joined_by_kind() {
        let source =
            "//! Head\n//! of a file.\n\n/// Doc.\nfn f() {\n    g(\"// no\"); // behind\n    // a\n    // b\n}\n";
        let expected = [(1, "Head\nof a file.", true), (4, "Doc.", true), (6, "behind", false), (7, "a\nb", false)];
        assert_eq!(texts(&rust(source)), expected);
    }

    #[test]
    fn python_docstrings_and_comments_are_found_and_strings_are_not() {
        let source = "\"\"\"Head.\"\"\"\n\ndef f():\n    \"\"\"Doc\n    of f.\"\"\"\n    x = \"# no\"  # yes\n    y = '''\n# no\n'''\n";
        assert_eq!(texts(&python(source)), [(1, "Head.", true), (4, "Doc\nof f.", true), (6, "yes", false)]);
    }

    #[test]
    fn code_in_documents_is_not_prose() {
        assert_eq!(texts(&markdown("# A\n\n```\ncode\n```\ntext\n")), [(1, "# A", false), (6, "text", false)]);
    }
}
