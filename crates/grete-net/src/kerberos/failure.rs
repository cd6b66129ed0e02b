//! Errors of the GSSAPI library in words: what is wrong, and the cure.

use std::net::IpAddr;

use grete_proto::sasl::error::printable;
use grete_proto::sasl::{KerberosConfig, KerberosFailure, KerberosFailureKind as Kind};

use super::library::Problem;

/// First error of Kerberos' own table, which minor statuses count from.
const KRB5_TABLE: i32 = -1_765_328_384;
/// First error of the table of MIT Kerberos' GSSAPI.
const K5G_TABLE: i32 = 39_756_032;
const K5G_ERRORS: i32 = 13;

/// Part of a major status that says what went wrong; the rest are faults of the caller and hints.
const ROUTINE_ERROR: u32 = 0x00ff_0000;
const GSS_S_BAD_SIG: u32 = 6 << 16;
const GSS_S_NO_CRED: u32 = 7 << 16;
const GSS_S_DEFECTIVE_TOKEN: u32 = 9 << 16;
const GSS_S_CREDENTIALS_EXPIRED: u32 = 11 << 16;

/// Names of the library's packages.
const PACKAGES: &str = "Debian and Ubuntu: apt install libgssapi-krb5-2; Fedora, RHEL and their like: dnf install \
                        krb5-libs; Alpine: apk add krb5-libs";

/// Circumstances of a login that fails.
#[derive(Debug, Clone)]
pub(super) struct Situation {
    pub(super) config: KerberosConfig,
    /// Host name of the broker.
    pub(super) host: String,
}

pub(super) fn failure(kind: Kind, message: impl Into<String>) -> KerberosFailure {
    KerberosFailure { kind, message: message.into().into() }
}

/// Describes that no library was found. `problem`: the errors of the loader.
pub(super) fn no_library(problem: &str) -> KerberosFailure {
    let problem = printable(problem);
    failure(
        Kind::Library,
        format!(
            "sasl.mechanism=GSSAPI needs the GSSAPI library of Kerberos: install it ({PACKAGES}). Tried: {problem}"
        ),
    )
}

/// Describes that the library cannot use a given keytab or cache.
pub(super) fn no_stores(library: &str, config: &KerberosConfig) -> KerberosFailure {
    let (setting, instead) = match config.keytab {
        Some(_) => ("sasl.kerberos.keytab", "leave the setting out and get a ticket with kinit -kt KEYTAB PRINCIPAL"),
        None => ("ticketCache", "leave the option out and set the environment variable KRB5CCNAME"),
    };
    failure(
        Kind::Library,
        format!(
            "{library} has no gss_acquire_cred_from, which {setting} needs: install MIT Kerberos 1.11 or newer \
             ({PACKAGES}), or {instead}"
        ),
    )
}

/// Returns the number of the error in Kerberos' own table.
fn krb5_error(problem: &Problem) -> i32 {
    problem.minor.cast_signed().wrapping_sub(KRB5_TABLE)
}

impl Situation {
    /// Describes an error of the library.
    pub(super) fn failure(&self, problem: &Problem) -> KerberosFailure {
        let said = printable(&problem.text);
        let kind = self.kind(problem);
        let message = match kind {
            Kind::Service => {
                let (service, host) = (&self.config.service, &self.host);
                let cure = if host.parse::<IpAddr>().is_ok() {
                    "an IP address has no principal, so use host names in bootstrap.servers and in the brokers' \
                     advertised.listeners"
                } else if said.contains("krbtgt/") {
                    "name the realm of this host under [domain_realm] of /etc/krb5.conf, or let the realms trust each \
                     other"
                } else {
                    "create it and put its key into the broker's keytab, or correct sasl.kerberos.service.name and the \
                     host names in bootstrap.servers and advertised.listeners"
                };
                format!("the KDC does not know the broker's principal {service}/{host} ({said}): {cure}")
            }
            Kind::NoTicket => format!(
                "there is no ticket ({said}): get one with kinit, or set sasl.kerberos.keytab and \
                 sasl.kerberos.principal; klist shows the tickets of this user"
            ),
            Kind::Expired => format!(
                "the ticket has expired ({said}): get a new one with kinit, let k5start or a timer renew it, or set \
                 sasl.kerberos.keytab, whose tickets renew themselves"
            ),
            Kind::ClockSkew => format!(
                "the clock of this machine and that of the KDC or broker differ too much ({said}): set them right, for \
                 example by NTP; Kerberos allows 5 minutes"
            ),
            Kind::Keytab => self.of_keytab(problem, &said),
            Kind::Client => format!(
                "the KDC refuses the principal of this client{} ({said}): check sasl.kerberos.principal and its realm, \
                 and that the KDC has it and has not locked it",
                self.of_principal()
            ),
            Kind::KdcUnreachable => format!(
                "no KDC can be reached ({said}): name the KDC of the realm in /etc/krb5.conf (or in the file of \
                 KRB5_CONFIG, or by DNS), and check that its port 88 is open from here"
            ),
            Kind::Broker => format!(
                "the broker {} does not accept the ticket, or its answer is wrong ({said}): the key in its keytab must \
                 be the one that the KDC has now for {}/{}",
                self.host, self.config.service, self.host
            ),
            _ => format!(
                "{said}: check /etc/krb5.conf; the environment variable KRB5_TRACE=/dev/stderr shows what MIT Kerberos \
                 does"
            ),
        };
        failure(kind, message)
    }

    fn of_keytab(&self, problem: &Problem, said: &str) -> String {
        let (keytab, of) = (self.config.keytab.as_deref().unwrap_or_default(), self.of_principal());
        // The library says that there is no cache where the keytab gives it nothing to fill one with.
        if matches!(krb5_error(problem), 141 | 195) {
            return format!(
                "the keytab {keytab:?} has no key{of}, or is no keytab: check sasl.kerberos.principal, and what klist -kt \
                 shows ({said})"
            );
        }
        format!(
            "the keytab {keytab:?} is not accepted{of} ({said}): its keys must be those that the KDC has now, so make it \
             anew after a change of the password (kadmin: ktadd); klist -kt shows what it has"
        )
    }

    fn of_principal(&self) -> String {
        self.config.principal.as_ref().map(|name| format!(" for {}", printable(name))).unwrap_or_default()
    }

    fn kind(&self, problem: &Problem) -> Kind {
        let has_keytab = self.config.keytab.is_some();
        let without_ticket = if has_keytab { Kind::Keytab } else { Kind::NoTicket };
        let minor = problem.minor.cast_signed();
        // The names are those of krb5.h.
        match krb5_error(problem) {
            // KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN, KRB5KDC_ERR_SERVICE_EXP, KRB5_SERVICE_UNKNOWN
            7 | 2 | 155 => Kind::Service,
            // KRB5KDC_ERR_NAME_EXP, KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN, KRB5KDC_ERR_POLICY, KRB5KDC_ERR_CLIENT_REVOKED,
            // KRB5KDC_ERR_CLIENT_NOTYET, KRB5KDC_ERR_WRONG_REALM
            1 | 6 | 12 | 18 | 21 | 68 => Kind::Client,
            // KRB5KDC_ERR_KEY_EXP, KRB5KDC_ERR_PREAUTH_FAILED, KRB5KRB_AP_ERR_BAD_INTEGRITY, KRB5_KT_NOTFOUND,
            // KRB5_KT_END, KRB5_KT_IOERR, KRB5_PREAUTH_FAILED, KRB5_KEYTAB_BADVNO, KRB5_KT_KVNONOTFOUND, KRB5_KT_FORMAT
            23 | 24 | 31 | 181 | 182 | 184 | 210 | 213 | 230 | 235 if has_keytab => Kind::Keytab,
            // KRB5KDC_ERR_KEY_EXP
            23 => Kind::Client,
            // KRB5KRB_AP_ERR_TKT_EXPIRED
            32 => Kind::Expired,
            // KRB5KRB_AP_ERR_TKT_NYV, KRB5KRB_AP_ERR_SKEW, KRB5_KDCREP_SKEW
            33 | 37 | 148 => Kind::ClockSkew,
            // KRB5KDC_ERR_SVC_UNAVAILABLE, KRB5_REALM_UNKNOWN, KRB5_KDC_UNREACH, KRB5_REALM_CANT_RESOLVE
            29 | 154 | 156 | 220 => Kind::KdcUnreachable,
            // KRB5_CC_NOTFOUND, KRB5_CC_END, KRB5_FCC_PERM, KRB5_FCC_NOFILE
            141 | 142 | 194 | 195 => without_ticket,
            // KRB5KRB_AP_ERR_BAD_INTEGRITY, KRB5KRB_AP_ERR_NOT_US, KRB5KRB_AP_ERR_BADMATCH, KRB5KRB_AP_ERR_MODIFIED,
            // KRB5KRB_AP_ERR_BADKEYVER, KRB5KRB_AP_ERR_NOKEY, KRB5KRB_AP_ERR_MUT_FAIL, KRB5_MUTUAL_FAILED
            31 | 35 | 36 | 41 | 44 | 45 | 46 | 158 => Kind::Broker,
            _ if problem.major & ROUTINE_ERROR == GSS_S_CREDENTIALS_EXPIRED => Kind::Expired,
            _ if problem.major & ROUTINE_ERROR == GSS_S_NO_CRED => without_ticket,
            _ if matches!(problem.major & ROUTINE_ERROR, GSS_S_BAD_SIG | GSS_S_DEFECTIVE_TOKEN) => Kind::Broker,
            _ if (0..K5G_ERRORS).contains(&minor.wrapping_sub(K5G_TABLE)) => self.kind_of_mit(minor - K5G_TABLE),
            _ => Kind::Other,
        }
    }

    /// Returns the kind of an error of MIT Kerberos' GSSAPI.
    fn kind_of_mit(&self, code: i32) -> Kind {
        let has_keytab = self.config.keytab.is_some();
        match code {
            // KG_CCACHE_NOMATCH, KG_TGT_MISSING, KG_EMPTY_CCACHE
            0 | 2 | 12 if !has_keytab => Kind::NoTicket,
            // KG_KEYTAB_NOMATCH, and the same with a keytab
            0..=2 | 12 => Kind::Keytab,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(keytab: bool, host: &str, major: u32, minor: i32) -> KerberosFailure {
        let config = KerberosConfig {
            service: "kafka".into(),
            principal: Some("alice@EXAMPLE.COM".into()),
            keytab: keytab.then(|| "/etc/alice.keytab".to_owned()),
            ticket_cache: None,
        };
        let problem = Problem { major, minor: minor.cast_unsigned(), text: "words of\nthe library".into() };
        Situation { config, host: host.into() }.failure(&problem)
    }

    #[test]
    fn errors_are_told_apart_and_each_has_its_cure() {
        const FAILURE: u32 = 13 << 16;
        let krb5 = |code: i32| KRB5_TABLE + code;
        for (keytab, major, minor, kind, says) in [
            (true, FAILURE, krb5(7), Kind::Service, "principal kafka/b1.example.com"),
            (true, FAILURE, krb5(6), Kind::Client, "for alice@EXAMPLE.COM"),
            (false, FAILURE, krb5(18), Kind::Client, "has not locked it"),
            (true, FAILURE, krb5(24), Kind::Keytab, "\"/etc/alice.keytab\""),
            (true, FAILURE, krb5(31), Kind::Keytab, "make it anew"),
            (false, FAILURE, krb5(31), Kind::Broker, "the key in its keytab"),
            (true, FAILURE, krb5(23), Kind::Keytab, "change of the password"),
            (false, FAILURE, krb5(23), Kind::Client, "refuses the principal"),
            (true, FAILURE, krb5(181), Kind::Keytab, "klist -kt"),
            (false, GSS_S_CREDENTIALS_EXPIRED, krb5(32), Kind::Expired, "kinit, let k5start"),
            (false, GSS_S_CREDENTIALS_EXPIRED, 0, Kind::Expired, "kinit, let k5start"),
            (false, FAILURE, krb5(37), Kind::ClockSkew, "NTP"),
            (true, FAILURE, krb5(148), Kind::ClockSkew, "5 minutes"),
            (false, FAILURE, krb5(156), Kind::KdcUnreachable, "port 88"),
            (false, FAILURE, krb5(220), Kind::KdcUnreachable, "/etc/krb5.conf"),
            (false, FAILURE, krb5(195), Kind::NoTicket, "get one with kinit"),
            (false, GSS_S_NO_CRED, 0, Kind::NoTicket, "sasl.kerberos.keytab"),
            (true, GSS_S_NO_CRED, 0, Kind::Keytab, "not accepted"),
            (true, GSS_S_NO_CRED, krb5(195), Kind::Keytab, "has no key for alice@EXAMPLE.COM"),
            (false, GSS_S_NO_CRED, K5G_TABLE, Kind::NoTicket, "klist"),
            (true, FAILURE, K5G_TABLE + 1, Kind::Keytab, "not accepted"),
            (false, FAILURE, K5G_TABLE + 8, Kind::Other, "KRB5_TRACE"),
            (false, FAILURE, krb5(41), Kind::Broker, "kafka/b1.example.com"),
            (false, FAILURE, krb5(224), Kind::Other, "/etc/krb5.conf"),
            (false, GSS_S_DEFECTIVE_TOKEN, 100_001, Kind::Broker, "its answer is wrong"),
            (true, GSS_S_BAD_SIG, 0, Kind::Broker, "b1.example.com"),
            (false, FAILURE, 22, Kind::Other, "KRB5_TRACE"),
        ] {
            let failure = described(keytab, "b1.example.com", major, minor);
            assert_eq!(failure.kind, kind, "{minor}: {failure}");
            assert!(failure.message.contains(says), "{minor}: {failure}");
            assert!(failure.message.contains("words of\\x0athe library"), "{failure}");
        }
    }

    #[test]
    fn a_broker_without_a_host_name_is_told_to_get_one() {
        let failure = described(false, "10.0.0.1", 13 << 16, KRB5_TABLE + 7);
        assert!(failure.message.contains("an IP address has no principal"), "{failure}");
    }

    #[test]
    fn a_library_that_is_missing_or_too_old_is_named_with_its_packages() {
        let failure = no_library("libgssapi_krb5.so.2: cannot open shared object file");
        assert_eq!(failure.kind, Kind::Library);
        for says in ["libgssapi-krb5-2", "dnf install krb5-libs", "apk add krb5-libs", "Tried: libgssapi_krb5.so.2"] {
            assert!(failure.message.contains(says), "{failure}");
        }
        let keytab = KerberosConfig { keytab: Some("/k".into()), ..KerberosConfig::default() };
        let failure = no_stores("libgssapi.so.3", &keytab);
        assert!(failure.message.contains("libgssapi.so.3 has no gss_acquire_cred_from"), "{failure}");
        assert!(failure.message.contains("kinit -kt"), "{failure}");
        let failure = no_stores("libgssapi.so.3", &KerberosConfig::default());
        assert!(failure.message.contains("KRB5CCNAME"), "{failure}");
    }
}
