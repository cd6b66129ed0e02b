//! Cure of an operation that the brokers' authorizer refuses.

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

/// Returns the ACL that is needed, for a client that does not know its own user here.
#[must_use]
pub const fn needed<'a>(operation: &'static str, kind: &'static str, name: &'a str) -> NeededAcl<'a> {
    NeededAcl { operation, kind, name, user: None }
}

/// Quotes a word for a shell if that is necessary.
fn quoted(word: &str) -> String {
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
        let odd = NeededAcl { user: Some("o'neil; rm -rf"), ..needed };
        assert!(odd.to_string().contains("--allow-principal 'User:o'\\''neil; rm -rf'"), "{odd}");
    }
}
