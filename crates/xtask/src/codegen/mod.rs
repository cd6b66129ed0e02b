//! Writes the messages of grete-wire from Kafka's own schemas.
//!
//! The schemas are read from the kafka-clients jar and are not committed; what is written here is.

mod emit;
mod jar;
mod model;
mod samples;
mod schema;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::jar::Jar;
use self::model::Message;

const APIS: &[&str] = &[
    "ApiVersions",
    "ConsumerGroupDescribe",
    "CreatePartitions",
    "CreateTopics",
    "DeleteGroups",
    "DeleteRecords",
    "DeleteTopics",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeGroups",
    "Fetch",
    "FindCoordinator",
    "Heartbeat",
    "IncrementalAlterConfigs",
    "InitProducerId",
    "JoinGroup",
    "LeaveGroup",
    "ListGroups",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
    "Produce",
    "SaslAuthenticate",
    "SaslHandshake",
    "SyncGroup",
];
const DATA: &[&str] =
    &["ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "RequestHeader", "ResponseHeader"];

const MESSAGES: &str = "crates/grete-wire/src/messages";
const SAMPLES: &str = "crates/grete-wire/tests/messages/samples.rs";

/// Writes the messages, or compares them with what is committed.
pub fn run(root: &Path, check: bool) -> Result<(), Box<dyn Error>> {
    let mut files = BTreeMap::new();
    for (path, code) in generate(root)? {
        files.insert(root.join(&path), rustfmt(root, &code).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let stale: Vec<PathBuf> =
        present(&root.join(MESSAGES))?.into_iter().filter(|path| !files.contains_key(path)).collect();
    let changed: Vec<&PathBuf> = files
        .iter()
        .filter(|(path, code)| fs::read_to_string(path).ok().as_ref() != Some(code))
        .map(|(path, _)| path)
        .collect();
    if check {
        if stale.is_empty() && changed.is_empty() {
            println!("{} generated files are as Kafka {}'s schemas have them", files.len(), jar::KAFKA);
            return Ok(());
        }
        let list: Vec<String> = changed.into_iter().chain(&stale).map(|path| format!("  {}", path.display())).collect();
        return Err(format!(
            "these files are not what the generator writes; run `cargo run -p xtask -- codegen`:\n{}",
            list.join("\n")
        )
        .into());
    }
    println!("{} of {} files changed, {} removed", changed.len(), files.len(), stale.len());
    for path in &stale {
        fs::remove_file(path)?;
    }
    for path in changed {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, &files[path])?;
    }
    Ok(())
}

fn generate(root: &Path) -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let mut jar = Jar::open(root)?;
    let mut messages = Vec::new();
    for api in APIS {
        let mut request = jar.schema(&format!("{api}Request"))?;
        let mut response = jar.schema(&format!("{api}Response"))?;
        // Only the request says that its newest version is not final yet.
        if request.latest_version_unstable {
            request.valid_versions.last -= 1;
            response.valid_versions.last = request.valid_versions.last;
        }
        messages.push(Message::new(request)?);
        messages.push(Message::new(response)?);
    }
    for name in DATA {
        messages.push(Message::new(jar.schema(name)?)?);
    }
    messages.sort_by(|a, b| a.module.cmp(&b.module));
    let folder = Path::new(MESSAGES);
    let mut files =
        vec![(folder.join("mod.rs"), emit::module(&messages)), (PathBuf::from(SAMPLES), samples::file(&messages))];
    files.extend(
        messages.iter().map(|message| (folder.join(format!("{}.rs", message.module)), emit::file(message, &messages))),
    );
    Ok(files)
}

fn present(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

fn rustfmt(root: &Path, code: &str) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("rustfmt has no stdin")?.write_all(code.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("rustfmt refused the generated code:\n{code}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
