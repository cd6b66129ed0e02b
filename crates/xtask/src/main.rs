//! Development tool: code generation, and the check of the layering rules.
#![forbid(unsafe_code)]

mod circles;
mod codegen;
mod layering;
mod prose;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND
  codegen            writes crates/grete-wire/src/messages from the schemas in the kafka-clients jar
  codegen --check    changes nothing; fails when the committed code differs from what would be written
  layering           checks that crate edges point down and that unsafe stays where it belongs
  circles            checks that the modules of each crate form no import circle
  prose              checks comments and documents against the rules of CONTRIBUTING.md";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen"] => codegen::run(&root, false),
        ["codegen", "--check"] => codegen::run(&root, true),
        ["layering"] => layering::run(&root),
        ["circles"] => circles::run(&root),
        ["prose"] => prose::run(&root),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the workspace's folder: two levels above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
