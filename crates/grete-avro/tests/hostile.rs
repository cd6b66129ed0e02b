//! Any bytes: an error or a value, in bounded memory and time. Any value: the same value again.

use grete_avro::{MAX_EMPTY_ITEMS, Program, Schema, Table, Value, ValueSink, encode_value};
use proptest::prelude::*;

/// Schemas with every type, as deep as data may go.
const SCHEMAS: &[&str] = &[
    r#"{"type": "record", "name": "R", "fields": [
        {"name": "null", "type": "null"}, {"name": "flag", "type": "boolean"}, {"name": "int", "type": "int"},
        {"name": "long", "type": "long"}, {"name": "float", "type": "float"}, {"name": "double", "type": "double"},
        {"name": "bytes", "type": "bytes"}, {"name": "string", "type": "string"},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "decimal", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}}]}"#,
    r#"{"type": "record", "name": "Node", "fields": [
        {"name": "next", "type": ["null", "Node"]}, {"name": "more", "type": {"type": "array", "items": "Node"}}]}"#,
    r#"{"type": "array", "items": "null"}"#,
    r#"{"type": "array", "items": {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}}"#,
    r#"["null", "long", {"type": "map", "values": "double"}]"#,
];

fn decode(schema: &Schema, data: &[u8]) -> Result<Value, String> {
    let program = Program::compile(schema, schema).unwrap();
    let checked = program.check(data).map_err(|error| error.to_string());
    let found = program.decode(data, &mut ValueSink::new(schema)).map_err(|error| error.to_string());
    if found.is_ok() {
        assert_eq!(checked, Ok(()), "what decodes can be skipped");
    }
    if let Ok(mut table) = Table::new(schema) {
        table.begin_row();
        // A decimal may have more digits than its column.
        if program.decode(data, &mut table).is_ok() {
            assert!(found.is_ok());
            table.end_row().unwrap();
            assert_eq!(table.finish().len(), 1);
        }
    }
    found
}

#[test]
fn items_without_bytes_are_bounded() {
    let schema = Schema::parse(SCHEMAS[2]).unwrap();
    // A block of 2^62 nulls.
    let data = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0];
    assert!(decode(&schema, &data).unwrap_err().contains("items without bytes"));
    let few = encode_value(&schema, &Value::Array(vec![Value::Null; MAX_EMPTY_ITEMS])).unwrap();
    assert!(decode(&schema, &few).is_ok());
    let many = encode_value(&schema, &Value::Array(vec![Value::Null; MAX_EMPTY_ITEMS + 1])).unwrap();
    assert!(decode(&schema, &many).is_err());
}

#[test]
fn nesting_is_bounded() {
    let schema = Schema::parse(SCHEMAS[1]).unwrap();
    let error = decode(&schema, &[2; 100_000]).unwrap_err();
    assert!(error.contains("nested deeper"), "{error}");
}

#[test]
fn lengths_are_bounded_by_the_data() {
    let schema = Schema::parse(r#""bytes""#).unwrap();
    let error = decode(&schema, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).unwrap_err();
    assert!(error.contains("are needed, 0 are left"), "{error}");
    assert!(decode(&schema, &[1]).unwrap_err().contains("a length is -1"));
    assert!(decode(&schema, &[2, 1, 9]).unwrap_err().contains("1 byte remains after"));
    assert!(decode(&schema, &[2, 1, 9, 9]).unwrap_err().contains("2 bytes remain after"));
}

#[test]
fn errors_name_the_field() {
    let schema = Schema::parse(SCHEMAS[0]).unwrap();
    let mut table = Table::new(&schema).unwrap();
    table.begin_row();
    let error = Program::compile(&schema, &schema).unwrap().decode(&[2], &mut table).unwrap_err();
    assert_eq!(error.to_string(), "field flag: a boolean is the byte 0 or 1, not [2] (at byte 1 of 1)");
}

fn value() -> impl Strategy<Value = Value> {
    let texts = prop::collection::vec(prop_oneof![Just(Value::Null), any::<String>().prop_map(Value::String)], 0..4);
    let ints = prop::collection::vec(any::<i32>().prop_map(Value::Int), 0..4).prop_map(Value::Array);
    (
        (any::<bool>(), any::<i32>(), any::<i64>(), -1e9_f32..1e9, -1e9_f64..1e9),
        (any::<Vec<u8>>(), any::<String>(), any::<[u8; 3]>(), any::<bool>()),
        (texts, prop::collection::vec((any::<String>(), ints), 0..3), any::<[u8; 4]>()),
    )
        .prop_map(|(numbers, texts, nested)| {
            let named = |name: &str, value: Value| (name.to_owned(), value);
            Value::Record(vec![
                named("null", Value::Null),
                named("flag", Value::Boolean(numbers.0)),
                named("int", Value::Int(numbers.1)),
                named("long", Value::Long(numbers.2)),
                named("float", Value::Float(numbers.3)),
                named("double", Value::Double(numbers.4)),
                named("bytes", Value::Bytes(texts.0)),
                named("string", Value::String(texts.1)),
                named("fixed", Value::Fixed(texts.2.to_vec())),
                named("enum", Value::Enum(if texts.3 { "A" } else { "B" }.into())),
                named("list", Value::Array(nested.0)),
                named("map", Value::Map(nested.1)),
                named("decimal", Value::Bytes(nested.2.to_vec())),
            ])
        })
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_value(schema in 0..SCHEMAS.len(), data: Vec<u8>) {
        let _ = decode(&Schema::parse(SCHEMAS[schema]).unwrap(), &data);
    }

    #[test]
    fn small_bytes_are_an_error_or_a_value(schema in 0..SCHEMAS.len(), data in prop::collection::vec(0_u8..6, 0..60)) {
        let _ = decode(&Schema::parse(SCHEMAS[schema]).unwrap(), &data);
    }

    #[test]
    fn changed_data_is_an_error_or_a_value(value in value(), at: prop::sample::Index, byte: u8) {
        let schema = Schema::parse(SCHEMAS[0]).unwrap();
        let mut data = encode_value(&schema, &value).unwrap();
        let at = at.index(data.len());
        data[at] = byte;
        let _ = decode(&schema, &data);
        data.truncate(at);
        prop_assert!(decode(&schema, &data).is_err());
    }

    #[test]
    fn values_are_the_same_again(value in value()) {
        let schema = Schema::parse(SCHEMAS[0]).unwrap();
        let data = encode_value(&schema, &value).unwrap();
        prop_assert_eq!(decode(&schema, &data), Ok(value));
    }

    #[test]
    fn any_text_is_an_error_or_a_schema(text: String) {
        let _ = Schema::parse(&text);
    }
}

/// A block that has one item without bytes, and says that it has one byte.
#[test]
fn a_block_with_another_size_than_its_items_is_refused() {
    let schema = Schema::parse(r#"{"type": "array", "items": "null"}"#).unwrap();
    let error = decode(&schema, &[1, 2, 0]).unwrap_err();
    assert!(error.starts_with("a block's items do not end where its size says"), "{error}");
    assert!(decode(&schema, &[1, 0, 0]).is_ok());
}
