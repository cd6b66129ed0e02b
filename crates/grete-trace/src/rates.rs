//! The agent's answer: `{"rate_by_service": {"service:orders,env:prod": 0.5, ...}}`.

/// Deeper than any agent nests.
const DEEPEST: usize = 32;

/// Calls `each` with every service and its rate. What is no such JSON says nothing.
pub(crate) fn read(body: &[u8], mut each: impl FnMut(&str, f64)) -> Option<()> {
    let mut json = Json { rest: body };
    json.object(DEEPEST, |json, key| {
        if key != "rate_by_service" {
            return json.skip(DEEPEST);
        }
        json.object(DEEPEST, |json, service| {
            if let Some(rate) = json.number() {
                if (0.0..=1.0).contains(&rate) {
                    each(service, rate);
                }
                return Some(());
            }
            json.skip(DEEPEST)
        })
    })
}

/// A reader that goes forward only, and never deeper than it is told to.
struct Json<'a> {
    rest: &'a [u8],
}

impl Json<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.rest.first().copied()
    }

    fn object(&mut self, depth: usize, mut each: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        depth.checked_sub(1)?;
        self.take(b'{')?;
        if self.peek()? == b'}' {
            return self.take(b'}');
        }
        loop {
            let key = self.string()?;
            self.take(b':')?;
            each(self, &key)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take(b'"')?;
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
        self.space();
        let end = self.rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        self.rest = rest;
        Some(number)
    }

    /// Whatever stands here.
    fn skip(&mut self, depth: usize) -> Option<()> {
        let inside = depth.checked_sub(1)?;
        match self.peek()? {
            b'{' => self.object(depth, |json, _| json.skip(inside)),
            b'[' => {
                self.take(b'[')?;
                if self.peek()? == b']' {
                    return self.take(b']');
                }
                loop {
                    self.skip(inside)?;
                    if self.take(b',').is_none() {
                        return self.take(b']');
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
        let _ = read(body.as_bytes(), |service, rate| rates.push((service.to_owned(), rate)));
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
