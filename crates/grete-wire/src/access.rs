//! Cure of an operation that the brokers' authorizer refuses.

use crate::printable::is_unsafe;

/// Resource and operation that a client needs an ACL for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededAcl<'a> {
    /// Kafka's name of the operation, such as `Read`.
    pub operation: &'static str,
    /// Kind of the resource: `topic`, `group`, `transactional-id` or `cluster`.
    pub kind: &'static str,
    /// Name of the resource; unused for the cluster.
    pub name: &'a str,
    /// User of the client's login; `None`: unknown here.
    pub user: Option<&'a str>,
}

impl std::fmt::Display for NeededAcl<'_> {
    /// Writes which ACL the client needs, and the command that creates it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operation, kind, name, user } = *self;
        let (user, place) = (user.unwrap_or("NAME"), kind.replace('-', " "));
        let (of, resource) = match kind {
            "cluster" => ("the cluster".to_owned(), String::new()),
            _ => (format!("{place} {name}"), format!(" {}", quoted(name))),
        };
        write!(
            f,
            "the client needs {operation} on {of}: grete acls create --allow-principal {} --operation {operation} \
             --{kind}{resource}",
            quoted(&format!("User:{user}"))
        )
    }
}

/// Puts the user into a text of [`needed`]; `None`: it stays as it is.
#[must_use]
pub fn with_user(text: &str, user: Option<&str>) -> String {
    // With what stands before it: the name of a resource, which the text repeats, may have the option, too.
    const UNKNOWN: &str = ": grete acls create --allow-principal User:NAME --operation ";
    match user {
        Some(user) => {
            let principal = quoted(&format!("User:{user}"));
            text.replacen(UNKNOWN, &format!(": grete acls create --allow-principal {principal} --operation "), 1)
        }
        None => text.to_owned(),
    }
}

/// Attribute types that have a keyword in RFC 2253.
const KEYWORDS: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// Returns an attribute of a certificate's subject as it stands in the principal (RFC 2253). `oid`: its type; `text`: its
/// value, `None`: the value in `der` is no text.
#[must_use]
pub fn subject_attribute(oid: &str, text: Option<&str>, der: &[u8]) -> String {
    match (KEYWORDS.iter().find(|(known, _)| *known == oid), text) {
        (Some((_, keyword)), Some(value)) => format!("{keyword}={}", escaped(value)),
        _ => der.iter().fold(format!("{oid}=#"), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut text = String::with_capacity(value.len());
    for (place, letter) in value.chars().enumerate() {
        let is_edge = letter == ' ' && (place == 0 || place == last) || letter == '#' && place == 0;
        if is_edge || ",+\"\\<>;".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Returns the ACL that is needed, for a client that does not know its own user here.
#[must_use]
pub const fn needed<'a>(operation: &'static str, kind: &'static str, name: &'a str) -> NeededAcl<'a> {
    NeededAcl { operation, kind, name, user: None }
}

/// Quotes a word for a shell if that is necessary. Characters that would be escaped in a line of the log are written as
/// bash, ksh and zsh read them: otherwise the command would name another resource.
fn quoted(word: &str) -> String {
    if word.contains(is_unsafe) {
        let mut text = String::from("$'");
        for letter in word.chars() {
            match letter {
                '\'' | '\\' => text.extend(['\\', letter]),
                letter if is_unsafe(letter) => {
                    letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
                }
                letter => text.push(letter),
            }
        }
        return text + "'";
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-:/=@,+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_creates_the_acl() {
        let needed = NeededAcl { operation: "Read", kind: "topic", name: "orders", user: Some("alice") };
        assert_eq!(
            needed.to_string(),
            "the client needs Read on topic orders: grete acls create --allow-principal User:alice --operation Read \
             --topic orders"
        );
        let cluster = NeededAcl { kind: "cluster", operation: "Alter", user: None, ..needed };
        assert!(cluster.to_string().ends_with("--allow-principal User:NAME --operation Alter --cluster"));
        let unknown = super::needed("Read", "topic", "orders").to_string();
        assert_eq!(with_user(&unknown, Some("alice")), needed.to_string());
        assert!(with_user(&unknown, Some("CN=a b")).contains("--allow-principal 'User:CN=a b' --operation"));
        assert_eq!(with_user(&unknown, None), unknown);
        let odd = NeededAcl { user: Some("o'neil; rm -rf"), ..needed };
        assert!(odd.to_string().contains("--allow-principal 'User:o'\\''neil; rm -rf'"), "{odd}");
        let odd = super::needed("Read", "group", "g\t\u{2028}'\\\nq").to_string();
        assert!(odd.ends_with(r"--group $'g\x09\xe2\x80\xa8\'\\\x0aq'"), "{odd}");
        let named = super::needed("Read", "group", "a --allow-principal User:NAME b").to_string();
        assert!(with_user(&named, Some("alice")).contains("create --allow-principal User:alice --operation"));
    }
}
