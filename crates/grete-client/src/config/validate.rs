//! Checks of single values against the definitions of their settings.

use std::sync::Arc;

use super::setting::{Kind, Role, Setting, Status};
use super::settings_table::{find_setting, nearest_name};
use super::{ConfigError, ConfigErrorKind, SecurityProtocol, invalid};

/// Returns the setting of that name and the value to store. `None`: an unsupported setting of another role, which does
/// not concern this client.
pub(super) fn parse_setting(
    role: Role,
    name: &str,
    value: &str,
) -> Result<Option<(&'static Setting, String)>, ConfigError> {
    let Some((setting, ours)) = find_setting(name, role) else {
        let message = match nearest_name(name) {
            Some(near) => format!("there is no setting {name:?}; did you mean {near:?}?"),
            None => {
                let role = role.name();
                format!("there is no {role} setting {name:?}; Kafka's {role} configuration lists the names that exist")
            }
        };
        return Err(ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::Unknown });
    };
    if !ours && setting.status != Status::Supported {
        return Ok(None);
    }
    Ok(Some((setting, parse_value(setting, name, value)?)))
}

pub(super) fn parse_value(setting: &'static Setting, name: &str, value: &str) -> Result<String, ConfigError> {
    if setting.kind == Kind::Secret {
        return Ok(value.to_owned()); // a password may begin or end with a space
    }
    let value = value.trim();
    let wrong = |wanted: String| Err(invalid(name, format!("{name} = {value:?} cannot be used: {wanted}")));
    if let Status::Unsupported { off_values: unless, hint: cure } = setting.status {
        return if unless.iter().any(|allowed| allowed.eq_ignore_ascii_case(value)) {
            Ok(value.to_owned())
        } else {
            let given = if is_secret(name) { name.to_owned() } else { format!("{name} = {value:?}") };
            let message = format!("{given} is not built yet, so it is refused rather than ignored; {cure}");
            Err(ConfigError { setting: name.to_owned(), message, kind: ConfigErrorKind::NotSupported })
        };
    }
    match setting.kind {
        Kind::Text | Kind::Secret => Ok(value.to_owned()),
        Kind::Number { min: least, max: most, unit } => match value.parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            _ => wrong(format!("give a whole number of {unit} from {least} to {most}")),
        },
        Kind::Flag => match value.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok("true".into()),
            "false" | "0" => Ok("false".into()),
            _ => wrong("give true or false".into()),
        },
        Kind::Choice(choices) => match choices.iter().find(|(said, _)| said.eq_ignore_ascii_case(value)) {
            Some((_, kept)) => Ok((*kept).to_owned()),
            None => {
                let names: Vec<&str> = choices.iter().map(|(said, _)| *said).filter(|said| !said.is_empty()).collect();
                wrong(format!("give one of {}", names.join(", ")))
            }
        },
        Kind::Assignors => parse_assignors(name, value),
    }
}

/// Returns whether the value of the setting must not be logged.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["password", "secret", "jaas", "ssl.key"].iter().any(|word| name.contains(word))
        || (name.starts_with("sasl.") && !name.starts_with("sasl.mechanism"))
}

fn parse_assignors(name: &str, value: &str) -> Result<String, ConfigError> {
    const CURE: &str = "give cooperative-sticky, range, roundrobin or sticky, or several in order of preference";
    let mut names = Vec::new();
    for given in value.split(',').map(str::trim).filter(|given| !given.is_empty()) {
        // Java names the class, librdkafka the strategy.
        let short = given.rsplit('.').next().unwrap_or(given);
        names.push(match short {
            "range" | "RangeAssignor" => "range",
            "cooperative-sticky" | "CooperativeStickyAssignor" => "cooperative-sticky",
            "roundrobin" | "RoundRobinAssignor" => "roundrobin",
            "sticky" | "StickyAssignor" => "sticky",
            _ => return Err(invalid(name, format!("{name}: {given:?} is no assignor; {CURE}"))),
        });
    }
    if names.is_empty() {
        return Err(invalid(name, format!("{name} names no assignor; {CURE}")));
    }
    Ok(names.join(","))
}

/// Returns host and port of each address. An address may begin with the name of `protocol`, as a broker writes it.
pub(super) fn parse_bootstrap(list: &str, protocol: SecurityProtocol) -> Result<Vec<(Arc<str>, u16)>, ConfigError> {
    const NAME: &str = "bootstrap.servers";
    // Checked on the whole list, because a password may contain a comma. The part before the "@" must not be logged.
    if list.contains('@') {
        let cure = "give host:port alone, as in localhost:9092; a login is not part of an address";
        return Err(invalid(NAME, format!("{NAME} has a user or a password before an \"@\" (not shown): {cure}")));
    }
    let mut addresses = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (scheme, bare) = entry.split_once("://").map_or((protocol.name(), entry), |(scheme, bare)| (scheme, bare));
        // Kafka's listeners are written with the protocol. To drop another one would speak the wrong one to its port.
        if scheme != protocol.name() {
            let cure = match SecurityProtocol::from_name(scheme) {
                Some(wanted) => format!("and set security.protocol={}", wanted.name()),
                None => "without a scheme".to_owned(),
            };
            return Err(invalid(NAME, format!("{NAME}: {entry:?} begins with {scheme}://; give host:port, {cure}")));
        }
        if bare.contains(|c: char| c.is_whitespace() || matches!(c, ';' | '/')) {
            let cure = "give host:port, and separate addresses by commas";
            return Err(invalid(NAME, format!("{NAME}: {entry:?} is not an address; {cure}")));
        }
        let Some((host, port)) = bare.rsplit_once(':') else {
            return Err(invalid(NAME, format!("{NAME}: {entry:?} has no port; give host:port, as in {bare}:9092")));
        };
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        let (Some(port), false) = (port, host.is_empty()) else {
            return Err(invalid(NAME, format!("{NAME}: {entry:?} is not host:port; a port is a number up to 65535")));
        };
        addresses.push((Arc::from(host.trim_start_matches('[').trim_end_matches(']')), port));
    }
    if addresses.is_empty() {
        return Err(ConfigError {
            setting: NAME.into(),
            message: format!("{NAME} is not set; give at least one broker as host:port, as in localhost:9092"),
            kind: ConfigErrorKind::Missing,
        });
    }
    Ok(addresses)
}
