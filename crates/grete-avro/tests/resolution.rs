//! Schema resolution, example by example.

use grete_avro::{Program, Schema, Table, Value, ValueSink, encode_value};

fn read(writer: &str, reader: &str, value: &Value) -> Result<Value, String> {
    let (writer, reader) = (Schema::parse(writer).unwrap(), Schema::parse(reader).unwrap());
    let data = encode_value(&writer, value).unwrap();
    let program = Program::compile(&writer, &reader).map_err(|error| error.to_string())?;
    program.decode(&data, &mut ValueSink::new(&reader)).map_err(|error| error.to_string())
}

fn record(name: &str, fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "{name}", "fields": [{fields}]}}"#)
}

fn fields(fields: &[(&str, Value)]) -> Value {
    Value::Record(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

#[test]
fn numbers_and_texts_are_promoted() {
    for (writer, reader, value, expected) in [
        ("int", "long", Value::Int(-3), Value::Long(-3)),
        ("int", "float", Value::Int(3), Value::Float(3.0)),
        ("int", "double", Value::Int(3), Value::Double(3.0)),
        ("long", "float", Value::Long(3), Value::Float(3.0)),
        ("long", "double", Value::Long(3), Value::Double(3.0)),
        ("float", "double", Value::Float(0.5), Value::Double(0.5)),
        ("bytes", "string", Value::Bytes(b"x".to_vec()), Value::String("x".into())),
        ("string", "bytes", Value::String("x".into()), Value::Bytes(b"x".to_vec())),
    ] {
        let found = read(&format!("{writer:?}"), &format!("{reader:?}"), &value);
        assert_eq!(found, Ok(expected), "{writer} as {reader}");
    }
    let refused = read(r#""long""#, r#""int""#, &Value::Long(1));
    assert_eq!(refused, Err("long cannot be read as int".to_owned()));
}

#[test]
fn fields_are_matched_skipped_and_defaulted() {
    let writer = record(
        "R",
        r#"{"name": "gone", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
           {"name": "old", "type": "string"}, {"name": "b", "type": "int"}"#,
    );
    let reader = record(
        "R",
        r#"{"name": "b", "type": "long"}, {"name": "new", "aliases": ["old"], "type": "string"},
           {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
           {"name": "raw", "type": "bytes", "default": "\u00ff"}"#,
    );
    let map = Value::Map(vec![("k".into(), Value::String("v".into()))]);
    let gone = Value::Array(vec![map.clone(), map]);
    let value = fields(&[("gone", gone), ("old", Value::String("text".into())), ("b", Value::Int(7))]);
    let expected = fields(&[
        ("new", Value::String("text".into())),
        ("b", Value::Long(7)),
        ("list", Value::Array(vec![Value::Int(1), Value::Int(2)])),
        ("raw", Value::Bytes(vec![255])),
    ]);
    assert_eq!(read(&writer, &reader, &value), Ok(expected));
    let strict = record("R", r#"{"name": "missing", "type": "int"}"#);
    assert!(
        read(&writer, &strict, &value).unwrap_err().contains("field R.missing: the writer's schema does not have it")
    );
}

#[test]
fn names_are_matched_by_alias() {
    let writer = record("shop.Old", r#"{"name": "a", "type": "int"}"#);
    let value = fields(&[("a", Value::Int(1))]);
    let aliased = writer.replace(r#""name": "shop.Old""#, r#""name": "New", "aliases": ["shop.Old"]"#);
    assert_eq!(read(&writer, &aliased, &value), Ok(value.clone()));
    let other = writer.replace("shop.Old", "shop.New");
    assert!(read(&writer, &other, &value).unwrap_err().ends_with(r#"give the reader's record the alias "shop.Old""#));
}

#[test]
fn enums_take_the_readers_default() {
    let writer = r#"{"type": "enum", "name": "E", "symbols": ["A", "B"]}"#;
    let reader = r#"{"type": "enum", "name": "E", "symbols": ["B", "X"], "default": "X"}"#;
    assert_eq!(read(writer, reader, &Value::Enum("B".into())), Ok(Value::Enum("B".into())));
    assert_eq!(read(writer, reader, &Value::Enum("A".into())), Ok(Value::Enum("X".into())));
    let strict = r#"{"type": "enum", "name": "E", "symbols": ["B", "X"]}"#;
    assert!(read(writer, strict, &Value::Enum("A".into())).unwrap_err().contains("neither the writer's symbol"));
}

#[test]
fn unions_are_resolved_branch_by_branch() {
    let union = r#"["null", "int", "string"]"#;
    assert_eq!(read(union, r#""long""#, &Value::Int(1)), Ok(Value::Long(1)));
    assert!(
        read(union, r#""long""#, &Value::String("x".into())).unwrap_err().contains("string cannot be read as long")
    );
    assert_eq!(read(r#""int""#, r#"["null", "double", "int"]"#, &Value::Int(1)), Ok(Value::Int(1)));
    assert_eq!(read(r#""int""#, r#"["null", "double"]"#, &Value::Int(1)), Ok(Value::Double(1.0)));
    assert!(read(union, r#""boolean""#, &Value::Null).unwrap_err().contains("cannot be read as boolean"));
}

#[test]
fn recursive_types_are_compiled_once() {
    let node = record("Node", r#"{"name": "id", "type": "int"}, {"name": "next", "type": ["null", "Node"]}"#);
    let wider = record("Node", r#"{"name": "next", "type": ["null", "Node"]}, {"name": "id", "type": "long"}"#);
    let end = fields(&[("id", Value::Int(2)), ("next", Value::Null)]);
    let value = fields(&[("id", Value::Int(1)), ("next", end)]);
    let end = fields(&[("id", Value::Long(2)), ("next", Value::Null)]);
    assert_eq!(read(&node, &wider, &value), Ok(fields(&[("id", Value::Long(1)), ("next", end)])));
}

#[test]
fn references_and_namespaces_are_resolved() {
    let address =
        r#"{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}"#;
    let order = r#"{"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "to", "type": "Address"}, {"name": "from", "type": "shop.Address"}]}"#;
    let schema = Schema::parse_with(order, &[address]).unwrap();
    assert_eq!(schema.describe(schema.root()), "record shop.Order");
    assert!(Schema::parse(order).unwrap_err().to_string().contains("the type shop.Address is not defined"));
}

#[test]
fn bad_schemas_are_named() {
    for (text, reason) in [
        ("{", "an Avro schema is JSON"),
        ("7", "7 is no type"),
        ("[]", "a union has no types"),
        (r#"["int", ["null"]]"#, "a union stands directly in a union"),
        (r#"["int", "int"]"#, "twice"),
        (r#"{"type": "record", "fields": []}"#, "has no \"name\""),
        (r#"{"type": "enum", "name": "E", "symbols": ["A", "A"]}"#, "symbol twice"),
        (
            r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}"#,
            "field R.a: default",
        ),
        (
            r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "R", "default": {}},
                {"name": "b", "type": "R", "default": {}}]}"#,
            "it contains itself",
        ),
    ] {
        let error = Schema::parse(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(Schema::parse(&deep).is_err());
}

#[test]
fn types_that_arrow_does_not_have_are_refused() {
    let node = record("Node", r#"{"name": "next", "type": ["null", "Node"]}"#);
    let error = Table::new(&Schema::parse(&node).unwrap()).unwrap_err().to_string();
    assert!(error.contains("record Node contains itself"), "{error}");
    let union = record("R", r#"{"name": "either", "type": ["int", "string"]}"#);
    let error = Table::new(&Schema::parse(&union).unwrap()).unwrap_err().to_string();
    assert!(error.contains("field either: Arrow has no column for a union of int, string"), "{error}");
}
