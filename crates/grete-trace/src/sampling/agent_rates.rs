//! Parser of the agent's response: `{"rate_by_service": {"service:orders,env:prod": 0.5, ...}}`.

/// Maximum nesting; agents nest less.
const MAX_DEPTH: usize = 32;

/// Calls `each` with every service and its rate. `None`: the response is not such JSON.
pub(crate) fn parse_rates(body: &[u8], mut each: impl FnMut(&str, f64)) -> Option<()> {
    let mut json = JsonReader { rest: body };
    json.object(MAX_DEPTH, |json, key| {
        if key != "rate_by_service" {
            return json.skip(MAX_DEPTH);
        }
        json.object(MAX_DEPTH, |json, service| {
            if let Some(rate) = json.number() {
                if (0.0..=1.0).contains(&rate) {
                    each(service, rate);
                }
                return Some(());
            }
            json.skip(MAX_DEPTH)
        })
    })
}

/// Forward-only JSON reader with a bounded depth.
struct JsonReader<'a> {
    rest: &'a [u8],
}

impl JsonReader<'_> {
    fn skip_whitespace(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn expect_byte(&mut self, byte: u8) -> Option<()> {
        self.skip_whitespace();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_whitespace();
        self.rest.first().copied()
    }

    fn object(&mut self, depth: usize, mut each: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        depth.checked_sub(1)?;
        self.expect_byte(b'{')?;
        if self.peek()? == b'}' {
            return self.expect_byte(b'}');
        }
        loop {
            let key = self.string()?;
            self.expect_byte(b':')?;
            each(self, &key)?;
            if self.expect_byte(b',').is_none() {
                return self.expect_byte(b'}');
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.expect_byte(b'"')?;
        let mut text = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return String::from_utf8(text).ok(),
                b'\\' => {
                    let (&escaped, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    let character = match escaped {
                        b'u' => {
                            let (digits, rest) = self.rest.split_at_checked(4)?;
                            self.rest = rest;
                            let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
                            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                        }
                        b'n' => '\n',
                        b't' => '\t',
                        b'r' => '\r',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        other => char::from(other),
                    };
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                byte => text.push(byte),
            }
        }
    }

    fn number(&mut self) -> Option<f64> {
        self.skip_whitespace();
        let end = self.rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        self.rest = rest;
        Some(number)
    }

    /// Skips a value of any kind.
    fn skip(&mut self, depth: usize) -> Option<()> {
        let inside = depth.checked_sub(1)?;
        match self.peek()? {
            b'{' => self.object(depth, |json, _| json.skip(inside)),
            b'[' => {
                self.expect_byte(b'[')?;
                if self.peek()? == b']' {
                    return self.expect_byte(b']');
                }
                loop {
                    self.skip(inside)?;
                    if self.expect_byte(b',').is_none() {
                        return self.expect_byte(b']');
                    }
                }
            }
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.number().map(|_| ()),
            _ => {
                let word =
                    [b"true".as_slice(), b"false", b"null"].into_iter().find_map(|w| self.rest.strip_prefix(w))?;
                self.rest = word;
                Some(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rates(body: &str) -> Vec<(String, f64)> {
        let mut rates = Vec::new();
        let _ = parse_rates(body.as_bytes(), |service, rate| rates.push((service.to_owned(), rate)));
        rates
    }

    #[test]
    fn rates_are_found_among_other_things() {
        let body = r#" {"x": [1, {"y": null}, "}"], "rate_by_service": {"service:,env:": 1, "service:a\"\u00e9,env:p":2.5e-1,
            "service:bad,env:": 7, "service:odd,env:": "1"}, "z": true} "#;
        assert_eq!(rates(body), [("service:,env:".into(), 1.0), ("service:a\"\u{e9},env:p".into(), 0.25)]);
        assert_eq!(rates("{}"), []);
        assert_eq!(rates("OK\n"), []);
        assert_eq!(rates(r#"{"rate_by_service":{}}"#), []);
    }

    #[test]
    fn depth_is_bounded() {
        assert_eq!(rates(&format!(r#"{{"x": {}"#, "[".repeat(1_000_000))), []);
        assert_eq!(rates(&r#"{"x":"#.repeat(100_000)), []);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(body in r#"\{"rate_by_service":[\[\]{}":,a0-9.e\\u -]{0,60}"#) {
            rates(&body);
        }
    }
}
