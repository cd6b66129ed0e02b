//! `sasl.jaas.config`: the line that Java's clients take, so that it can be pasted.
//!
//! ```text
//! org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
//! ```

use std::str::Chars;

use zeroize::Zeroizing;

/// Maximum bytes of a line.
const MAX_BYTES: usize = 64 << 10;
const MAX_OPTIONS: usize = 64;

/// Login module and its options.
#[derive(Default)]
pub(super) struct JaasLine {
    /// Name of the class without its package.
    pub(super) module: String,
    options: Vec<(String, Zeroizing<String>)>,
}

impl JaasLine {
    /// Reads a line. The error says what is wrong and repeats nothing of the line, which has a password.
    pub(super) fn parse(line: &str) -> Result<Self, &'static str> {
        if line.len() > MAX_BYTES {
            return Err("it is longer than 64 KiB");
        }
        let mut reader = Reader { rest: line.chars() };
        let class = reader.word().ok_or("it names no login module")?;
        let module = class.rsplit('.').next().unwrap_or_default().to_owned();
        let is_flag = |flag: &str| ["required", "requisite", "sufficient", "optional"].contains(&flag);
        if !reader.word().is_some_and(|flag| is_flag(&flag.to_ascii_lowercase())) {
            return Err("the word \"required\" is missing after the login module");
        }
        let mut options = Vec::new();
        loop {
            reader.skip_space();
            match reader.peek() {
                Some(';') => break,
                None => return Err("the semicolon at its end is missing"),
                Some(_) if options.len() >= MAX_OPTIONS => return Err("it has more than 64 options"),
                Some(_) => options.push(reader.option()?),
            }
        }
        reader.next();
        reader.skip_space();
        if reader.peek().is_some() {
            return Err("something follows the semicolon: give one login module");
        }
        Ok(Self { module, options })
    }

    /// Returns the value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the options whose names begin with `prefix`, without it.
    pub(super) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.options.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

struct Reader<'a> {
    rest: Chars<'a>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn next(&mut self) -> Option<char> {
        self.rest.next()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next();
        }
    }

    /// Returns a text that never grows: memory that is given back would keep its bytes.
    fn room(&self) -> Zeroizing<String> {
        Zeroizing::new(String::with_capacity(self.rest.as_str().len()))
    }

    /// Reads a word up to a space, an equals sign or a semicolon; `None`: there is none.
    fn word(&mut self) -> Option<Zeroizing<String>> {
        self.skip_space();
        let mut word = self.room();
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace() && !matches!(c, '=' | ';' | '"' | '\'')) {
            word.push(c);
            self.next();
        }
        (!word.is_empty()).then_some(word)
    }

    fn option(&mut self) -> Result<(String, Zeroizing<String>), &'static str> {
        let name = self.word().ok_or("an option has no name")?;
        self.skip_space();
        if self.next() != Some('=') {
            return Err("an option has no value: write name=\"value\"");
        }
        self.skip_space();
        let value = match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                self.next();
                self.quoted(quote)?
            }
            _ => self.word().ok_or("an option has no value: write name=\"value\"")?,
        };
        Ok((name.to_string(), value))
    }

    fn quoted(&mut self, quote: char) -> Result<Zeroizing<String>, &'static str> {
        let mut value = self.room();
        loop {
            match self.next().ok_or("a quotation mark is not closed")? {
                c if c == quote => return Ok(value),
                '\\' => match self.next().ok_or("a quotation mark is not closed")? {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    c => value.push(c),
                },
                c => value.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_java_are_read() {
        let line = JaasLine::parse(
            "org.apache.kafka.common.security.plain.PlainLoginModule required\n  username=\"al\\\"ice\" \
             password='s=e;c r\"t' serviceName=kafka ;\n",
        );
        let line = line.unwrap();
        assert_eq!(line.module, "PlainLoginModule");
        assert_eq!(line.option("username"), Some("al\"ice"));
        assert_eq!(line.option("password"), Some("s=e;c r\"t"));
        assert_eq!(line.option("serviceName"), Some("kafka"));
        assert_eq!(line.option("nothing"), None);
        let line =
            JaasLine::parse("OAuthBearerLoginModule required clientId=\"c\" extension_logicalCluster=\"lkc-1\";");
        assert_eq!(line.unwrap().with_prefix("extension_").collect::<Vec<_>>(), [("logicalCluster", "lkc-1")]);
        assert!(JaasLine::parse("X REQUIRED;").is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_without_the_line() {
        let long = format!("X required password=\"{}\";", "s".repeat(70_000));
        let many = format!("X required {};", "a=s3cret ".repeat(65));
        for (line, says) in [
            ("", "no login module"),
            ("X", "\"required\" is missing"),
            ("X username=\"s3cret\";", "\"required\" is missing"),
            ("X required password=\"s3cret\"", "semicolon"),
            ("X required password=\"s3cret", "quotation mark"),
            ("X required password=\"s3cret\\", "quotation mark"),
            ("X required s3cret;", "no value"),
            ("X required =s3cret;", "no name"),
            ("X required password=;", "no value"),
            ("X required; Y required;", "follows"),
            (&long, "64 KiB"),
            (&many, "64 options"),
        ] {
            let error = JaasLine::parse(line).err().expect("refused");
            assert!(error.contains(says) && !error.contains("s3cret"), "{line:.40}: {error}");
        }
    }
}
