//! Finds words in Rust code, outside of comments and strings.

/// Returns the numbers of the lines that contain `word` as code.
pub fn lines_with_word(source: &str, word: &str) -> Vec<usize> {
    let code = blank_comments_and_strings(source);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has_word = |line: &str| line.split(|c: char| !is_word(c)).any(|token| token == word);
    code.lines().enumerate().filter(|(_, line)| has_word(line)).map(|(i, _)| i + 1).collect()
}

fn blank_comments_and_strings(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut i = 0;
    while let Some(&c) = chars.get(i) {
        let end = match c {
            '/' if chars.get(i + 1) == Some(&'/') => find(&chars, i, &['\n']),
            '/' if chars.get(i + 1) == Some(&'*') => end_of_block(&chars, i),
            '"' => end_of_string(&chars, i),
            'r' | 'b' | 'c' if !follows_word(&chars, i) => raw_string(&chars, i).unwrap_or(i),
            '\'' => end_of_char(&chars, i),
            _ => i,
        };
        if end > i {
            out.extend(chars[i..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            i = end;
        } else {
            out.push(c);
            i += 1;
        }
    }
    out
}

fn follows_word(chars: &[char], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| chars.get(before)).is_some_and(|c| c.is_alphanumeric() || *c == '_')
}

/// Returns the position of `pattern`, from `at` on; the end of the file if there is none.
fn find(chars: &[char], at: usize, pattern: &[char]) -> usize {
    (at..chars.len()).find(|&i| chars[i..].starts_with(pattern)).unwrap_or(chars.len())
}

/// Returns the end of a block comment; block comments nest.
fn end_of_block(chars: &[char], start: usize) -> usize {
    let (mut depth, mut i) = (0, start);
    while i < chars.len() {
        if chars[i..].starts_with(&['/', '*']) {
            depth += 1;
            i += 2;
        } else if chars[i..].starts_with(&['*', '/']) {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while let Some(&c) = chars.get(i) {
        match c {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// Returns the end of a raw string, `r"..."`, `br#"..."#` and the like; `None`: it is just a name.
fn raw_string(chars: &[char], start: usize) -> Option<usize> {
    let mut i = start;
    while matches!(chars.get(i), Some('b' | 'c')) {
        i += 1;
    }
    if chars.get(i) != Some(&'r') {
        return None;
    }
    i += 1;
    let hashes = chars[i..].iter().take_while(|&&c| c == '#').count();
    if chars.get(i + hashes) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    Some((find(chars, i + hashes + 1, &close) + close.len()).min(chars.len()))
}

/// Returns the end of a character, `'x'` or `'\n'`; a lifetime is skipped.
fn end_of_char(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), Some(_)) => (find(chars, start + 3, &['\'']) + 1).min(chars.len()),
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_as_code_only() {
        let source = r####"
//! unsafe in a comment
#![forbid(unsafe_code)]
/* unsafe /* unsafe */ unsafe */ fn f<'a>(x: &'a str) {
    let s = "unsafe \" unsafe"; let c = '"'; let d = '\''; unsafe { g() }
    let r = r#"unsafe " unsafe"#; let b = br"unsafe";
    let bar = "x"; unsafe impl Send for X {}
}
"####;
        assert_eq!(lines_with_word(source, "unsafe"), [5, 7]);
    }
}
