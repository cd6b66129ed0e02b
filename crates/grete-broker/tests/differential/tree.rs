//! Fields of a message as a tree, read from its `Debug` form: one parser serves all messages.

use std::fmt;

/// Value of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tree {
    /// Struct: fields by name.
    Struct(Vec<(String, Tree)>),
    /// List.
    List(Vec<Tree>),
    /// String.
    Text(String),
    /// Number, boolean or `None`.
    Atom(String),
}

impl Tree {
    /// Reads the `Debug` form of a message.
    pub fn of(message: &impl fmt::Debug) -> Self {
        let text = format!("{message:?}");
        Parser { rest: &text }.value()
    }

    /// Returns a field of a struct.
    pub fn get(&self, name: &str) -> Option<&Tree> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns a number of a struct's field.
    pub fn number(&self, name: &str) -> Option<i128> {
        self.get(name).and_then(Tree::as_number)
    }

    /// Returns the string of a struct's field.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements of a struct's list; none if there is no such list.
    pub fn list(&self, name: &str) -> &[Tree] {
        match self.get(name) {
            Some(Self::List(list)) => list,
            _ => &[],
        }
    }

    /// Returns a number. Ids above `i128::MAX` wrap.
    pub fn as_number(&self) -> Option<i128> {
        match self {
            Self::Atom(atom) => atom.parse().ok().or_else(|| atom.parse().ok().map(|id: u128| id as i128)),
            _ => None,
        }
    }

    /// Calls `each` for this value and all values in it.
    pub fn visit(&self, each: &mut impl FnMut(&Tree)) {
        each(self);
        match self {
            Self::Struct(fields) => fields.iter().for_each(|(_, value)| value.visit(each)),
            Self::List(list) => list.iter().for_each(|value| value.visit(each)),
            _ => {}
        }
    }

    /// Describes where two trees differ, one line for each place.
    pub fn differences(&self, other: &Self, path: &str, out: &mut Vec<String>) {
        match (self, other) {
            (Self::Struct(a), Self::Struct(b)) if a.len() == b.len() => {
                for ((name, a), (_, b)) in a.iter().zip(b) {
                    a.differences(b, &format!("{path}.{name}"), out);
                }
            }
            (Self::List(a), Self::List(b)) if a.len() == b.len() => {
                for (index, (a, b)) in a.iter().zip(b).enumerate() {
                    a.differences(b, &format!("{path}[{index}]"), out);
                }
            }
            (a, b) if a == b => {}
            (a, b) => out.push(format!("{path}: grete {a}, kafka {b}")),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Struct(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Self::List(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Atom(atom) => f.write_str(atom),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn value(&mut self) -> Tree {
        self.skip(" ");
        match self.rest.chars().next() {
            Some('[') => {
                self.rest = &self.rest[1..];
                let mut list = Vec::new();
                while !self.skip("]") {
                    list.push(self.value());
                    self.skip(",");
                    self.skip(" ");
                }
                Tree::List(list)
            }
            Some('"') => Tree::Text(self.string()),
            _ => {
                let word = self.word();
                if self.skip("(") {
                    let value = self.value();
                    self.skip(")");
                    return value;
                }
                if !self.skip(" {") {
                    return Tree::Atom(word);
                }
                let mut fields = Vec::new();
                self.skip(" ");
                while !self.skip("}") {
                    let name = self.word();
                    self.skip(": ");
                    fields.push((name, self.value()));
                    self.skip(",");
                    self.skip(" ");
                }
                Tree::Struct(fields)
            }
        }
    }

    fn word(&mut self) -> String {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        assert!(!word.is_empty(), "no value at {:?}", &self.rest[..self.rest.len().min(60)]);
        self.rest = rest;
        word.to_owned()
    }

    /// Reads a string with its escapes; escapes of characters stay as they are, both sides have the same.
    fn string(&mut self) -> String {
        let mut text = String::new();
        let mut is_escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '"' if !is_escaped => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                '\\' if !is_escaped => is_escaped = true,
                c => {
                    is_escaped = false;
                    text.push(c);
                }
            }
        }
        panic!("a string does not end");
    }

    fn skip(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}
