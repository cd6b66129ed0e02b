"""Python types and Avro schemas: the schema of a type, and which types need a conversion."""
