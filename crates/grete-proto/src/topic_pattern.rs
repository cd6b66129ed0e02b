//! Pattern of topic names.

use std::fmt;

use regex_lite::Regex;

/// Longest pattern, in bytes. A topic name has at most 249.
const MAX_LEN: usize = 1000;

/// Regular expression that begins with `^`, and matches whole names, as in Java and in KIP-848.
#[derive(Debug, Clone)]
pub struct TopicPattern {
    text: String,
    whole: Regex,
}

impl TopicPattern {
    /// Returns whether a topic of a subscription is a pattern: no name of a topic begins with `^`.
    #[must_use]
    pub fn is_pattern(topic: &str) -> bool {
        topic.starts_with('^')
    }

    /// Parses a pattern. The syntax is that of RE2, without look-around and back-references: a match takes linear time.
    ///
    /// # Errors
    /// The reason why the text is no pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LEN {
            return Err(format!("it is longer than {MAX_LEN} bytes"));
        }
        if text == "^" {
            return Err("it matches no topic".to_owned());
        }
        // The text alone first: a parenthesis must not end the group around it.
        Regex::new(text).map_err(|error| error.to_string())?;
        let whole = Regex::new(&format!(r"\A(?:{text})\z"));
        let whole = whole.map_err(|_| "it has a comment (flag x)".to_owned())?;
        Ok(Self { text: text.to_owned(), whole })
    }

    /// Returns whether the pattern matches the whole name.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        self.whole.is_match(topic)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let pattern = TopicPattern::parse(r"^orders\.(eu|us)").unwrap();
        assert!(pattern.matches("orders.eu") && pattern.matches("orders.us"));
        assert!(!pattern.matches("orders.eux") && !pattern.matches("my-orders.eu") && !pattern.matches("ordersXeu"));
        let either = TopicPattern::parse("^a|b").unwrap();
        assert!(either.matches("a") && either.matches("b") && !either.matches("ab"));
        assert!(TopicPattern::parse("^orders.*").unwrap().matches("orders"));
        assert!(TopicPattern::is_pattern("^a") && !TopicPattern::is_pattern("a"));
        assert_eq!(pattern.to_string(), r"^orders\.(eu|us)");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["^", "^(", "^a)(b", "^[", r"^(?=a)", r"^(a)\1", "^(?x) a # b", "^a{1000}{1000}{1000}"] {
            assert!(TopicPattern::parse(text).is_err(), "{text}");
        }
        assert!(TopicPattern::parse(&format!("^{}", "a".repeat(MAX_LEN))).is_err());
    }
}
