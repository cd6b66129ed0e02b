//! Rules for the names of topics.

/// Maximum length of a topic's name in bytes.
const MAX_NAME_BYTES: usize = 249;

/// Checks a topic's name by Kafka's rules. The error is the text for the client.
///
/// # Errors
/// The name is empty, `.`, `..`, longer than 249 bytes, or has a character other than letters, digits, `.`, `_` and
/// `-`.
pub fn check_topic_name(name: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("Topic name is invalid: {why}"));
    if name.is_empty() {
        return refused("the empty string is not allowed");
    }
    if name == "." || name == ".." {
        return refused(&format!("'{name}' is not allowed"));
    }
    if name.len() > MAX_NAME_BYTES {
        return refused(&format!("the length of '{name}' is longer than the max allowed length {MAX_NAME_BYTES}"));
    }
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.bytes().all(is_legal) {
        return refused(&format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_topic_name;

    #[test]
    fn names_follow_kafkas_rules() {
        for good in ["a", "orders.v2", "A_b-9", &"x".repeat(249)] {
            assert_eq!(check_topic_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
            assert!(check_topic_name(bad).is_err(), "{bad}");
        }
    }
}
