//! Tool: code generation and the floors check.
fn main() {}
