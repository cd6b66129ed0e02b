//! Generates the messages of grete-wire from Kafka's own schemas.
//!
//! The schemas are read from the kafka-clients jar and are not committed; the generated code is.

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
use self::model::{Message, MessageFile};

/// Files by folder. A file has the request and the response of an API, or the messages that [`joined`] names.
const FAMILIES: &[(&str, &[&str])] = &[
    (
        "admin",
        &[
            "AlterConfigs",
            "CreateAcls",
            "CreatePartitions",
            "CreateTopics",
            "DeleteAcls",
            "DeleteRecords",
            "DeleteTopics",
            "DescribeAcls",
            "DescribeCluster",
            "DescribeConfigs",
            "DescribeLogDirs",
            "DescribeTopicPartitions",
            "IncrementalAlterConfigs",
        ],
    ),
    ("connection", &["ApiVersions", "Header", "SaslAuthenticate", "SaslHandshake"]),
    ("data", &["Fetch", "ListOffsets", "Metadata", "OffsetForLeaderEpoch", "Produce"]),
    (
        "group",
        &[
            "ConsumerGroupDescribe",
            "ConsumerGroupHeartbeat",
            "ConsumerProtocol",
            "DeleteGroups",
            "DescribeGroups",
            "FindCoordinator",
            "Heartbeat",
            "JoinGroup",
            "LeaveGroup",
            "ListGroups",
            "OffsetCommit",
            "OffsetDelete",
            "OffsetFetch",
            "SyncGroup",
        ],
    ),
    (
        "share",
        &[
            "AlterShareGroupOffsets",
            "DeleteShareGroupOffsets",
            "DescribeShareGroupOffsets",
            "ShareAcknowledge",
            "ShareFetch",
            "ShareGroupDescribe",
            "ShareGroupHeartbeat",
        ],
    ),
    (
        "transaction",
        &[
            "AddOffsetsToTxn",
            "AddPartitionsToTxn",
            "DescribeProducers",
            "DescribeTransactions",
            "EndTxn",
            "InitProducerId",
            "ListTransactions",
            "TxnOffsetCommit",
            "WriteTxnMarkers",
        ],
    ),
];

const MESSAGES: &str = "crates/grete-wire/src/messages";
const SAMPLES: &str = "crates/grete-wire/tests/messages/samples.rs";

/// Writes the generated files, or compares them with the committed ones.
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
    let mut files = Vec::new();
    for (family, names) in FAMILIES {
        for name in *names {
            files.push(MessageFile::new(family, name, read(&mut jar, name)?));
        }
    }
    let folder = Path::new(MESSAGES);
    let mut written =
        vec![(folder.join("mod.rs"), emit::module(&files)), (PathBuf::from(SAMPLES), samples::file(&files))];
    for (family, _) in FAMILIES {
        written.push((folder.join(family).join("mod.rs"), emit::family(family, &files)));
    }
    written.extend(
        files.iter().map(|file| (folder.join(file.family).join(format!("{}.rs", file.module)), emit::file(file))),
    );
    Ok(written)
}

/// Reads the messages of a file.
fn read(jar: &mut Jar, name: &str) -> Result<Vec<Message>, Box<dyn Error>> {
    if let Some(parts) = joined(name) {
        return parts.iter().map(|part| Message::new(jar.schema(part)?)).collect();
    }
    let mut request = jar.schema(&format!("{name}Request"))?;
    let mut response = jar.schema(&format!("{name}Response"))?;
    // Only the request's schema says that its newest version is unstable.
    if request.latest_version_unstable {
        request.valid_versions.last -= 1;
        response.valid_versions.last = request.valid_versions.last;
    }
    Ok(vec![Message::new(request)?, Message::new(response)?])
}

/// Returns the messages of a file that is not an API.
fn joined(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "ConsumerProtocol" => Some(&["ConsumerProtocolAssignment", "ConsumerProtocolSubscription"]),
        "Header" => Some(&["RequestHeader", "ResponseHeader"]),
        _ => None,
    }
}

/// Returns all files below a folder.
fn present(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(present(&path)?) } else { files.push(path) }
    }
    Ok(files)
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
