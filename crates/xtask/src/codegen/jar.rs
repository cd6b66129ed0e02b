//! Locates the kafka-clients jar and reads schemas from it.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::schema::{self, Schema};

/// Kafka release whose schemas are used.
pub const KAFKA: &str = "4.3.0";

/// Open jar.
pub struct Jar(zip::ZipArchive<File>);

impl Jar {
    /// Opens the jar that the tests have downloaded, or else the one in the local Maven repository. Maven fetches a
    /// missing jar.
    pub fn open(root: &Path) -> Result<Self, Box<dyn Error>> {
        let build = std::env::var_os("KAFKA_TEST_BUILD").map_or_else(|| root.join("build"), PathBuf::from);
        let mut path = build.join(format!("kafka/{KAFKA}/libs/kafka-clients-{KAFKA}.jar"));
        if !path.exists() {
            path = maven_path()?;
        }
        if !path.exists() {
            fetch()?;
        }
        let file = File::open(&path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        Ok(Self(zip::ZipArchive::new(file)?))
    }

    /// Reads the schema of one message, such as `MetadataRequest`.
    pub fn schema(&mut self, name: &str) -> Result<Schema, Box<dyn Error>> {
        let mut text = String::new();
        let entry = format!("common/message/{name}.json");
        self.0.by_name(&entry).map_err(|error| format!("{entry}: {error}"))?.read_to_string(&mut text)?;
        schema::parse(&text).map_err(|error| format!("{entry}: {error}").into())
    }
}

fn maven_path() -> Result<PathBuf, Box<dyn Error>> {
    let repository = match std::env::var_os("MAVEN_REPO_LOCAL") {
        Some(path) => PathBuf::from(path),
        None => Path::new(&std::env::var_os("HOME").ok_or("set HOME or MAVEN_REPO_LOCAL")?).join(".m2/repository"),
    };
    Ok(repository.join(format!("org/apache/kafka/kafka-clients/{KAFKA}/kafka-clients-{KAFKA}.jar")))
}

fn fetch() -> Result<(), Box<dyn Error>> {
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:get", "-Dtransitive=false"]);
    maven.arg(format!("-Dartifact=org.apache.kafka:kafka-clients:{KAFKA}"));
    if let Some(path) = std::env::var_os("MAVEN_REPO_LOCAL") {
        maven.arg(format!("-Dmaven.repo.local={}", PathBuf::from(path).display()));
    }
    let status = maven.status().map_err(|error| format!("cannot run mvn ({error}): install Maven"))?;
    if status.success() { Ok(()) } else { Err("Maven could not fetch the kafka-clients jar".into()) }
}
