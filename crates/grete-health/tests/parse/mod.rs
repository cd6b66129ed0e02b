//! Strict JSON parser for tests: panics at the first invalid character.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Flag(bool),
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    pub fn get(&self, name: &str) -> &Value {
        let Value::Object(fields) = self else { panic!("{self:?} has no fields") };
        let mut found = fields.iter().filter(|(field, _)| field == name);
        let (_, value) = found.next().unwrap_or_else(|| panic!("no {name} in {self:?}"));
        assert!(found.next().is_none(), "{name} is there twice");
        value
    }

    pub fn items(&self) -> &[Value] {
        let Value::List(items) = self else { panic!("{self:?} is no list") };
        items
    }
}

pub fn parse(text: &str) -> Value {
    let mut rest = text.chars().peekable();
    let value = value(&mut rest);
    assert_eq!(rest.next(), None, "something follows");
    value
}

fn value(rest: &mut Peekable<Chars<'_>>) -> Value {
    match rest.peek().copied().expect("a value") {
        '"' => Value::Text(string(rest)),
        '{' => Value::Object(sequence(rest, '}', |rest| {
            let name = string(rest);
            assert_eq!(rest.next(), Some(':'));
            (name, value(rest))
        })),
        '[' => Value::List(sequence(rest, ']', value)),
        _ => {
            let mut word = String::new();
            while let Some(character) = rest.next_if(|character| !",]}".contains(*character)) {
                word.push(character);
            }
            match word.as_str() {
                "null" => Value::Null,
                "true" => Value::Flag(true),
                "false" => Value::Flag(false),
                number => {
                    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
                    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                    assert!(digits(whole) && digits(fraction), "{number}");
                    assert!(whole == "0" || !whole.starts_with('0'), "{number}");
                    Value::Number(number.into())
                }
            }
        }
    }
}

fn sequence<T>(rest: &mut Peekable<Chars<'_>>, end: char, item: impl Fn(&mut Peekable<Chars<'_>>) -> T) -> Vec<T> {
    rest.next();
    let mut items = Vec::new();
    if rest.next_if_eq(&end).is_some() {
        return items;
    }
    loop {
        items.push(item(rest));
        match rest.next().expect("a comma or the end") {
            ',' => {}
            last => {
                assert_eq!(last, end);
                return items;
            }
        }
    }
}

fn string(rest: &mut Peekable<Chars<'_>>) -> String {
    assert_eq!(rest.next(), Some('"'));
    let mut text = String::new();
    loop {
        match rest.next().expect("the end of a string") {
            '"' => return text,
            '\\' => text.push(match rest.next().expect("an escape") {
                'u' => {
                    let digits: String = rest.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).expect("four digits")).expect("a character")
                }
                plain @ ('"' | '\\') => plain,
                other => panic!("an escape that is not needed: {other:?}"),
            }),
            character => {
                assert!(character >= ' ', "{character:?} is not escaped");
                text.push(character);
            }
        }
    }
}
