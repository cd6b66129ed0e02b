//! Field of a JSON object, found without a parse of the other fields' values.

/// Returns the bytes of the value of a top-level field; `None`: there is no such field, or the bytes are no JSON object.
///
/// Only the structure before the field is checked. Names are compared as they are written, without escapes.
pub(in crate::dispatch) fn json_field<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut at = skip_space(json, 0);
    if json.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = skip_space(json, at);
        let end = string_end(json, at)?;
        let found = json.get(at + 1..end - 1)?;
        at = skip_space(json, end);
        if json.get(at) != Some(&b':') {
            return None;
        }
        at = skip_space(json, at + 1);
        let end = value_end(json, at)?;
        if found == name.as_bytes() {
            return json.get(at..end).filter(|value| !value.is_empty());
        }
        at = skip_space(json, end);
        if json.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

fn skip_space(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Returns the index behind a string that begins at `at`.
fn string_end(json: &[u8], at: usize) -> Option<usize> {
    if json.get(at) != Some(&b'"') {
        return None;
    }
    let mut next = at + 1;
    loop {
        match json.get(next)? {
            b'"' => return Some(next + 1),
            b'\\' => next += 2,
            _ => next += 1,
        }
    }
}

/// Returns the index behind a value that begins at `at`.
fn value_end(json: &[u8], at: usize) -> Option<usize> {
    let (mut next, mut depth) = (at, 0_usize);
    while let Some(byte) = json.get(next) {
        match byte {
            b'"' => {
                next = string_end(json, next)?;
                if depth == 0 {
                    return Some(next);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(next),
            b'}' | b']' if depth == 1 => return Some(next + 1),
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return Some(next),
            byte if depth == 0 && byte.is_ascii_whitespace() => return Some(next),
            _ => {}
        }
        next += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
        json_field(json.as_bytes(), name).and_then(|value| std::str::from_utf8(value).ok())
    }

    #[test]
    fn the_value_of_a_field_is_found() {
        let json = r#" { "a" : [1, {"id": 2}, "}"], "b\"" : "x,\"y", "id" :7, "s": "t", "o": {"p": []} } "#;
        assert_eq!(field(json, "id"), Some("7"));
        assert_eq!(field(json, "s"), Some("\"t\""));
        assert_eq!(field(json, "o"), Some(r#"{"p": []}"#));
        assert_eq!(field(json, "a"), Some(r#"[1, {"id": 2}, "}"]"#));
        assert_eq!(field(json, "p"), None);
        assert_eq!(field(r#"{"id":null}"#, "id"), Some("null"));
    }

    #[test]
    fn what_is_no_object_has_no_field() {
        for json in
            ["", "{", "[]", "7", r#"{"id"}"#, r#"{"id":"#, r#"{"id":"x"#, r#"{"id":}"#, r#"{"x":1 "id":2}"#, "{}"]
        {
            assert_eq!(field(json, "id"), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(json in prop::collection::vec(prop::sample::select(b"{}[]\":,\\ ai1".to_vec()), 0..40)) {
            if let Some(value) = json_field(&json, "a") {
                prop_assert!(value.len() < json.len());
            }
        }
    }
}
