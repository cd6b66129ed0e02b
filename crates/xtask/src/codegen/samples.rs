//! Writes a test helper: for each message a function that fills every field that a version has with arbitrary values.

use std::fmt::Write;

use super::emit::{condition, header, parameter};
use super::model::{Field, Kind, Message, Struct, snake};

/// `tests/messages/samples.rs` of grete-wire.
pub fn file(messages: &[Message]) -> String {
    let mut out = "//! Arbitrary messages.\n\n".to_string() + &header();
    out.push_str("#![allow(clippy::field_reassign_with_default, reason = \"as in the messages\")]\n\n");
    out.push_str("use grete_wire::messages;\n\nuse crate::values::Values;\n\n");
    for message in messages {
        for (i, known) in message.structs.iter().enumerate() {
            function(&mut out, message, known, i == 0);
        }
    }
    out
}

fn name(message: &Message, known: &str) -> String {
    if known == message.name { message.module.clone() } else { format!("{}_{}", message.module, snake(known)) }
}

fn function(out: &mut String, message: &Message, known: &Struct, top: bool) {
    let mut body = String::new();
    for field in &known.fields {
        let assign = format!("this.{} = {};", field.name, value(message, field));
        let _ = match condition(field.versions, message.versions) {
            None => writeln!(body, "{assign}"),
            Some(condition) => writeln!(body, "if {condition} {{ {assign} }}"),
        };
    }
    let version = parameter(&body);
    let lifetime = if known.borrows { "<'static>" } else { "" };
    let path = format!("messages::{}::{}", message.module, known.name);
    let _ = writeln!(
        out,
        "{} fn {}({version}: i16, v: &mut Values) -> {path}{lifetime} {{\nlet mut this = {path}::default();\n{body}this\n}}\n",
        if top { "pub" } else { "" },
        name(message, &known.name),
    );
}

fn value(message: &Message, field: &Field) -> String {
    let plain = kind(message, &field.kind);
    if field.nullable.is_empty() {
        return plain;
    }
    let nullable = format!("v.option(|v| {plain})");
    match condition(field.nullable, field.versions) {
        None => nullable,
        Some(condition) => format!("if {condition} {{ {nullable} }} else {{ Some({plain}) }}"),
    }
}

fn kind(message: &Message, value: &Kind) -> String {
    match value {
        Kind::Bool => "v.bool()".into(),
        Kind::Int(name) => format!("v.{name}()"),
        Kind::Uuid => "v.uuid()".into(),
        Kind::String => "v.string()".into(),
        Kind::Bytes => "v.bytes()".into(),
        Kind::Array(element) => format!("v.vec(|v| {})", kind(message, element)),
        Kind::Struct(known) => format!("{}(version, v)", name(message, known)),
    }
}
