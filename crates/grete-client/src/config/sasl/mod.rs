//! How a client logs in: the settings of SASL, from the names that Java and librdkafka give them.

mod jaas;
pub(super) mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::sync::Arc;

use grete_proto::sasl::{Credentials, Mechanism, SaslConfig, TokenStore};
use grete_proto::secret::Secret;
use grete_sys::random::random;

use super::{ConfigError, ConfigErrorKind, SecurityProtocol, Settings, invalid};
use jaas::JaasLine;

/// Maximum bytes of a file with a password.
const MAX_SECRET_FILE: u64 = 64 << 10;

/// Mechanisms that are OAUTHBEARER with a token of a cloud, and the name of the source.
const PRESETS: [(&str, &str); 3] = [("AWS_MSK_IAM", "aws_msk_iam"), ("AZURE", "azure"), ("GCP", "gcp")];

/// How a client logs in.
#[derive(Debug, Clone)]
pub struct SaslSettings {
    /// `sasl.mechanism`.
    pub mechanism: Mechanism,
    login: Login,
    /// Whether a password or token is sent without encryption.
    is_exposed: bool,
}

#[derive(Debug, Clone)]
enum Login {
    Password { username: Secret, password: Secret },
    Token(TokenSource),
}

/// Source of OAUTHBEARER tokens, and where they are put.
#[derive(Debug, Clone, Default)]
pub struct TokenSource {
    /// Name of a cloud whose library makes the tokens; `None`: see the other fields.
    pub preset: Option<&'static str>,
    /// `sasl.oauthbearer.token.endpoint.url`; empty: none.
    pub endpoint: String,
    /// `sasl.oauthbearer.client.id`.
    pub client_id: String,
    /// `sasl.oauthbearer.client.secret`.
    pub client_secret: Option<Secret>,
    /// `sasl.oauthbearer.scope`.
    pub scope: String,
    /// `sasl.oauthbearer.extensions`: names and values.
    pub extensions: Vec<(String, String)>,
    /// `sasl.oauthbearer.token.file`; empty: none.
    pub file: String,
    /// `sasl.oauthbearer.token.provider`: name of a function; empty: none.
    pub provider: String,
    pub(super) store: Option<Arc<TokenStore>>,
}

impl SaslSettings {
    pub(super) fn from_settings(settings: &Settings, protocol: SecurityProtocol) -> Result<Option<Self>, ConfigError> {
        if !protocol.uses_sasl() {
            check_no_unused_login(settings)?;
            return Ok(None);
        }
        let jaas = match settings.secret("sasl.jaas.config") {
            Some(line) => JaasLine::parse(line.expose()).map_err(|problem| {
                invalid("sasl.jaas.config", format!("sasl.jaas.config cannot be read: {problem}"))
            })?,
            None => JaasLine::default(),
        };
        let (mechanism, preset) = mechanism(settings, protocol, &jaas)?;
        check_module(mechanism, &jaas)?;
        let is_exposed = mechanism.sends_secret() && protocol == SecurityProtocol::SaslPlaintext;
        if is_exposed && !settings.flag("sasl.allow.plaintext") {
            let what = if mechanism == Mechanism::Plain { "password" } else { "token" };
            return Err(invalid(
                "security.protocol",
                format!(
                    "security.protocol=SASL_PLAINTEXT with sasl.mechanism={mechanism} sends the {what} without \
                     encryption, to be read by everyone on the way: use SASL_SSL, or SCRAM-SHA-512; for a test on a \
                     network of your own, allow it with sasl.allow.plaintext=true"
                ),
            ));
        }
        let login = if mechanism == Mechanism::OAuthBearer {
            Login::Token(token_source(settings, preset, &jaas)?)
        } else {
            password_login(settings, mechanism, &jaas)?
        };
        Ok(Some(Self { mechanism, login, is_exposed }))
    }

    /// Returns the source of tokens; `None`: the mechanism has a password.
    #[must_use]
    pub fn token_source(&self) -> Option<&TokenSource> {
        match &self.login {
            Login::Token(source) => Some(source),
            Login::Password { .. } => None,
        }
    }

    /// Returns the user name of the login; `None`: a token names the user.
    pub(super) fn user(&self) -> Option<&str> {
        match &self.login {
            Login::Password { username, .. } => Some(username.expose()),
            Login::Token(_) => None,
        }
    }

    /// Sets the place where the source of tokens puts them.
    pub(super) fn set_tokens(&mut self, tokens: Arc<TokenStore>) {
        if let Login::Token(source) = &mut self.login {
            source.store = Some(tokens);
        }
    }

    /// Returns the settings for the connections of a new client.
    pub(super) fn to_core(&self) -> SaslConfig {
        let credentials = match &self.login {
            Login::Password { username, password } => {
                Credentials::Password { username: username.clone(), password: password.clone() }
            }
            Login::Token(source) => Credentials::Token(source.store.clone().unwrap_or_else(|| {
                let store = TokenStore::default();
                store.fail("nothing gives tokens: set sasl.oauthbearer.token.provider", true);
                Arc::new(store)
            })),
        };
        let mut seed = [0; 32];
        seed.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&random().to_ne_bytes()));
        let config = SaslConfig::new(self.mechanism, credentials, seed);
        if self.is_exposed { config.exposed() } else { config }
    }
}

impl fmt::Display for SaslSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mechanism.fmt(f)
    }
}

fn missing(name: &str, message: String) -> ConfigError {
    ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::Missing }
}

/// Returns the mechanism, and the name of the cloud if it stands for one.
fn mechanism(
    settings: &Settings,
    protocol: SecurityProtocol,
    jaas: &JaasLine,
) -> Result<(Mechanism, Option<&'static str>), ConfigError> {
    const NAME: &str = "sasl.mechanism";
    let given = settings.text(NAME);
    let implied = match (given, jaas.module.as_str()) {
        ("", "PlainLoginModule") => "PLAIN",
        ("", "OAuthBearerLoginModule") => "OAUTHBEARER",
        ("", _) if settings.text("sasl.oauthbearer.method") == "oidc" => "OAUTHBEARER",
        _ => given,
    };
    let protocol = protocol.name();
    if implied.is_empty() {
        return Err(missing(
            NAME,
            format!(
                "security.protocol={protocol} needs {NAME}: give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, as \
                 the broker offers it"
            ),
        ));
    }
    if let Ok(mechanism) = implied.parse() {
        return Ok((mechanism, None));
    }
    if let Some((_, preset)) = PRESETS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(implied)) {
        return Ok((Mechanism::OAuthBearer, Some(preset)));
    }
    if implied.eq_ignore_ascii_case("GSSAPI") {
        let message = format!("{NAME} = \"GSSAPI\" (Kerberos) is not built yet; use SCRAM-SHA-512 or OAUTHBEARER");
        return Err(ConfigError { setting: NAME.to_owned(), message, kind: ConfigErrorKind::NotSupported });
    }
    Err(invalid(
        NAME,
        format!(
            "{NAME} = {implied:?} cannot be used: give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; or \
             AWS_MSK_IAM, AZURE or GCP"
        ),
    ))
}

/// Refuses a JAAS line of another mechanism: its options would not be used.
fn check_module(mechanism: Mechanism, jaas: &JaasLine) -> Result<(), ConfigError> {
    let expected = match mechanism {
        Mechanism::Plain => "PlainLoginModule",
        Mechanism::ScramSha256 | Mechanism::ScramSha512 => "ScramLoginModule",
        Mechanism::OAuthBearer => "OAuthBearerLoginModule",
    };
    // The module of AWS's own library comes with the mechanism AWS_MSK_IAM.
    if jaas.module.is_empty() || jaas.module == expected || jaas.module == "IAMLoginModule" {
        return Ok(());
    }
    Err(invalid(
        "sasl.jaas.config",
        format!("sasl.mechanism={mechanism} goes with {expected}, and sasl.jaas.config has another login module"),
    ))
}

fn password_login(settings: &Settings, mechanism: Mechanism, jaas: &JaasLine) -> Result<Login, ConfigError> {
    let username = Some(settings.text("sasl.username")).filter(|name| !name.is_empty()).or(jaas.option("username"));
    let username = username.filter(|name| !name.is_empty()).ok_or_else(|| {
        missing("sasl.username", format!("sasl.mechanism={mechanism} needs sasl.username (or sasl.jaas.config)"))
    })?;
    let password = match secret(settings, "sasl.password", "sasl.password.file")? {
        Some(password) => password,
        None => jaas.option("password").map(Secret::from).ok_or_else(|| {
            missing(
                "sasl.password",
                format!(
                    "sasl.mechanism={mechanism} needs sasl.password: set it, name a file with sasl.password.file, or set \
                     the environment variable GRETE_KAFKA_SASL_PASSWORD"
                ),
            )
        })?,
    };
    if username.contains('\0') || password.expose().contains('\0') {
        return Err(invalid("sasl.username", "a user name and a password cannot have a NUL character".to_owned()));
    }
    Ok(Login::Password { username: username.into(), password })
}

fn token_source(
    settings: &Settings,
    preset: Option<&'static str>,
    jaas: &JaasLine,
) -> Result<TokenSource, ConfigError> {
    let text = |name: &str, option: &str| {
        let given = settings.text(name);
        if given.is_empty() { jaas.option(option).unwrap_or_default().to_owned() } else { given.to_owned() }
    };
    let extensions = settings.text("sasl.oauthbearer.extensions");
    let extensions: Vec<(String, String)> = if extensions.is_empty() {
        jaas.with_prefix("extension_").map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    } else {
        let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.trim().into(), value.trim().into()));
        extensions.split(',').map(pair).collect::<Option<_>>().ok_or_else(|| {
            let cure = "write name=value, and separate several by commas";
            invalid("sasl.oauthbearer.extensions", format!("sasl.oauthbearer.extensions cannot be read: {cure}"))
        })?
    };
    let secret = secret(settings, "sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.secret.file")?;
    Ok(TokenSource {
        preset,
        endpoint: settings.text("sasl.oauthbearer.token.endpoint.url").to_owned(),
        client_id: text("sasl.oauthbearer.client.id", "clientId"),
        client_secret: secret.or_else(|| jaas.option("clientSecret").map(Secret::from)),
        scope: text("sasl.oauthbearer.scope", "scope"),
        extensions,
        file: settings.text("sasl.oauthbearer.token.file").to_owned(),
        provider: settings.text("sasl.oauthbearer.token.provider").to_owned(),
        store: None,
    })
}

/// Returns a secret, given as such or as the name of a file; `None`: neither is set. A newline at the end of a file is
/// the editor's, not the secret's.
fn secret(settings: &Settings, name: &str, file: &str) -> Result<Option<Secret>, ConfigError> {
    let path = settings.text(file);
    if let Some(secret) = settings.secret(name) {
        // A variable of the environment that was forgotten would beat the file without a word.
        if !path.is_empty() {
            return Err(invalid(name, format!("{name} and {file} are both set: leave out one of them")));
        }
        return Ok(Some(secret.clone()));
    }
    if path.is_empty() {
        return Ok(None);
    }
    let wrong = |problem: String| invalid(file, format!("{file}: {path:?} {problem}"));
    let found = fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    // Opening a FIFO blocks, and a device has no end.
    if !found.is_file() {
        return Err(wrong("is no regular file".to_owned()));
    }
    let size = found.len();
    if size > MAX_SECRET_FILE {
        return Err(wrong(format!("has {size} bytes: give a file with nothing but the secret")));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let text = zeroize::Zeroizing::new(text);
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.is_empty() { Err(wrong("is empty".to_owned())) } else { Ok(Some(Secret::from(secret))) }
}

/// Refuses settings of a login without a `security.protocol` that would use them: users expect to be logged in then.
fn check_no_unused_login(settings: &Settings) -> Result<(), ConfigError> {
    if settings.explicit("security.protocol").is_some() {
        return Ok(());
    }
    let texts = ["sasl.mechanism", "sasl.username", "sasl.password.file", "sasl.oauthbearer.token.endpoint.url"];
    let text = texts.into_iter().find(|name| settings.explicit(name).is_some_and(|value| !value.is_empty()));
    let secret = ["sasl.password", "sasl.jaas.config"].into_iter().find(|name| settings.secret(name).is_some());
    match text.or(secret) {
        Some(name) => Err(invalid(
            name,
            format!(
                "{name} is set, but security.protocol is not, so no client would log in; add security.protocol=SASL_SSL"
            ),
        )),
        None => Ok(()),
    }
}
