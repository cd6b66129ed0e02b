//! Generates a test helper: for each message a function that fills all fields of a version with arbitrary values.

use std::fmt::Write;

use super::emit::{condition, header, parameter};
use super::model::{Field, Kind, Message, MessageFile, Struct, snake};

/// Returns `tests/messages/samples.rs` of grete-wire.
pub fn file(files: &[MessageFile]) -> String {
    let mut out = "//! Arbitrary messages.\n\n".to_string() + &header();
    out.push_str("#![allow(clippy::field_reassign_with_default, reason = \"the fields that a version has are set one by one over the defaults\")]\n\n");
    out.push_str("use grete_wire::messages;\n\nuse crate::values::Values;\n\n");
    for file in files {
        for message in &file.messages {
            for (i, known) in message.structs.iter().enumerate() {
                function(&mut out, &file.module, message, known, i == 0);
            }
        }
    }
    out
}

fn name(message: &Message, known: &str) -> String {
    if known == message.name { message.snake.clone() } else { format!("{}_{}", message.snake, snake(known)) }
}

fn function(out: &mut String, module: &str, message: &Message, known: &Struct, top: bool) {
    let mut body = String::new();
    // Fields of the same versions share one `if`.
    for fields in known.fields.chunk_by(|a, b| a.versions == b.versions) {
        let assigns: String =
            fields.iter().map(|field| format!("this.{} = {};\n", field.name, value(message, field))).collect();
        match condition(fields[0].versions, message.versions) {
            None => body.push_str(&assigns),
            Some(condition) => {
                let _ = writeln!(body, "if {condition} {{\n{assigns}}}");
            }
        }
    }
    let version = parameter(&body);
    let lifetime = if known.borrows { "<'static>" } else { "" };
    let path = format!("messages::{module}::{}", known.name);
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
