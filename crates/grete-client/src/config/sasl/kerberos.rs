//! Settings of a login by Kerberos, under librdkafka's names or in a line of Java's.

use grete_proto::sasl::KerberosConfig;

use super::jaas::JaasLine;
use super::missing;
use crate::config::{ConfigError, Settings, invalid};

const JAAS: &str = "sasl.jaas.config";
const SERVICE: &str = "sasl.kerberos.service.name";
const PRINCIPAL: &str = "sasl.kerberos.principal";
const KEYTAB: &str = "sasl.kerberos.keytab";

/// Options of Krb5LoginModule that mean something here.
const READ: [&str; 6] = ["useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName"];

/// Options that change nothing here, with the values that they may have; empty: any.
const WITHOUT_EFFECT: [(&str, &[&str]); 10] = [
    ("storeKey", &["true", "false"]),
    ("doNotPrompt", &["true", "false"]),
    ("debug", &["true", "false"]),
    ("refreshKrb5Config", &["true", "false"]),
    ("isInitiator", &["true"]),
    ("renewTGT", &["false"]),
    ("useFirstPass", &["false"]),
    ("tryFirstPass", &["false"]),
    ("storePass", &["true", "false"]),
    ("clearPass", &["true", "false"]),
];

/// Returns principals and credentials of a login by Kerberos.
pub(super) fn login(settings: &Settings, jaas: &JaasLine) -> Result<KerberosConfig, ConfigError> {
    check_options(jaas)?;
    let of_setting = |name: &str| Some(settings.text(name).to_owned()).filter(|text| !text.is_empty());
    let of_line = |option: &str| jaas.option(option).map(str::to_owned).filter(|text| !text.is_empty());
    let config = KerberosConfig {
        service: of_setting(SERVICE).or_else(|| of_line("serviceName")).ok_or_else(|| {
            missing(
                SERVICE,
                format!(
                    "sasl.mechanism=GSSAPI needs {SERVICE}: the first part of the brokers' principals, usually kafka"
                ),
            )
        })?,
        principal: of_setting(PRINCIPAL).or_else(|| of_line("principal")),
        keytab: of_setting(KEYTAB).or_else(|| of_line("keyTab")),
        ticket_cache: of_line("ticketCache"),
    };
    if config.service.contains(['@', '/', '\0']) || config.service.chars().any(char::is_whitespace) {
        return Err(invalid(
            SERVICE,
            format!(
                "{SERVICE} is only the first part of the brokers' principals: for kafka/broker.example.com@EXAMPLE.COM \
                 give kafka"
            ),
        ));
    }
    for (name, text) in [(PRINCIPAL, &config.principal), (KEYTAB, &config.keytab), (JAAS, &config.ticket_cache)] {
        if text.as_ref().is_some_and(|text| text.contains('\0')) {
            return Err(invalid(name, format!("{name} cannot have a NUL character")));
        }
    }
    if config.keytab.is_some() && config.ticket_cache.is_some() {
        return Err(invalid(
            JAAS,
            format!("a keytab ({KEYTAB} or keyTab) and ticketCache are both set: leave out one of them"),
        ));
    }
    Ok(config)
}

/// Refuses options of a JAAS line that would not be used, or that contradict each other.
fn check_options(jaas: &JaasLine) -> Result<(), ConfigError> {
    let refused = |problem: String| Err(invalid(JAAS, format!("{JAAS}: {problem}")));
    for (name, value) in jaas.with_prefix("") {
        if READ.contains(&name) {
            continue;
        }
        match WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
            Some((_, values)) if values.contains(&value.to_ascii_lowercase().as_str()) => {}
            Some((_, values)) => {
                return refused(format!("{name} of Krb5LoginModule can only be {}: leave it out", values.join(" or ")));
            }
            None => return refused(format!("{name} of Krb5LoginModule is not supported: leave it out")),
        }
    }
    let is_on = |name: &str| jaas.option(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let has = |name: &str| jaas.option(name).is_some_and(|value| !value.is_empty());
    if is_on("useKeyTab") && !has("keyTab") {
        return refused("useKeyTab=true needs keyTab=\"FILE\": name the keytab".to_owned());
    }
    if has("keyTab") && !is_on("useKeyTab") {
        return refused("keyTab is used only with useKeyTab=true: add that".to_owned());
    }
    if has("ticketCache") && !is_on("useTicketCache") {
        return refused("ticketCache is used only with useTicketCache=true: add that".to_owned());
    }
    if is_on("useKeyTab") && is_on("useTicketCache") {
        return refused("useKeyTab and useTicketCache are both true: leave out one of them".to_owned());
    }
    Ok(())
}
