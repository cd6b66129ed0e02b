//! Logins of connections: credentials, the principal of the broker, and one context for each connection.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};

use grete_proto::ids::ConnId;
use grete_proto::sasl::{GssAnswer, GssCall, GssResult, KerberosConfig, KerberosFailure, KerberosFailureKind as Kind};

use super::failure::{Situation, failure, no_library, no_stores};
use super::library::{Context, Credentials, Library, NameKind, Problem, Step, library};
use super::worker::Provider;

/// Contexts of the connections of one client.
#[derive(Default)]
pub(super) struct Logins {
    logins: HashMap<ConnId, Login>,
}

struct Login {
    context: Context,
    situation: Situation,
}

impl Provider for Logins {
    fn call(&mut self, conn: ConnId, host: &str, call: GssCall) -> GssResult {
        if let GssCall::Begin(config) = call {
            self.logins.remove(&conn);
            let (login, answer) = begin(&config, host)?;
            self.logins.insert(conn, login);
            return Ok(answer);
        }
        let Some(login) = self.logins.get_mut(&conn) else {
            return Err(failure(Kind::Other, "the login was not begun"));
        };
        let context = &mut login.context;
        let result = match call {
            GssCall::Step(token) => match context.step(Some(&token)) {
                Ok(step) => return answer(step),
                Err(problem) => Err(problem),
            },
            GssCall::Unwrap(message) => context.unwrap(&message).map(GssAnswer::Unwrapped),
            GssCall::Wrap(message) => context.wrap(&message).map(GssAnswer::Wrapped),
            GssCall::Begin(_) => return Err(failure(Kind::Other, "the login was begun twice")),
        };
        result.map_err(|problem| login.situation.failure(&problem))
    }

    fn forget(&mut self, conn: ConnId) {
        self.logins.remove(&conn);
    }
}

fn begin(config: &KerberosConfig, host: &str) -> Result<(Login, GssAnswer), KerberosFailure> {
    let library = library().map_err(|problem| no_library(&problem))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let situation = Situation { config: config.clone(), host: host.to_owned() };
    let described = |problem: Problem| situation.failure(&problem);
    let credentials = credentials(library, config, &situation)?;
    let target = library.name_of(&format!("{}@{host}", config.service), NameKind::Service).map_err(described)?;
    let mut context = Context::new(library, credentials, target);
    let step = context.step(None).map_err(described)?;
    Ok((Login { context, situation }, answer(step)?))
}

fn answer(step: Step) -> GssResult {
    if step.is_complete && !step.is_trusted {
        return Err(failure(
            Kind::Broker,
            "the broker has not proved who it is, so it is not trusted: check that bootstrap.servers names your brokers",
        ));
    }
    Ok(GssAnswer::Token { token: step.token, is_complete: step.is_complete })
}

fn credentials(
    library: &'static Library,
    config: &KerberosConfig,
    situation: &Situation,
) -> Result<Credentials, KerberosFailure> {
    let described = |problem: Problem| situation.failure(&problem);
    let store = store(config)?;
    if !store.is_empty() && !library.has_stores() {
        return Err(no_stores(library.name, config));
    }
    let principal = config.principal.as_deref();
    let principal = principal.map(|name| library.name_of(name, NameKind::Principal)).transpose().map_err(described)?;
    library.credentials(principal.as_ref(), &store).map_err(described)
}

/// Returns where the credentials come from, as keys of the library and values; empty: its own places.
fn store(config: &KerberosConfig) -> Result<Vec<(&'static CStr, CString)>, KerberosFailure> {
    let value = |text: String| {
        CString::new(text).map_err(|_| failure(Kind::Other, "a file name has a NUL character: correct it"))
    };
    let mut store = Vec::new();
    if let Some(keytab) = &config.keytab {
        let path = keytab.strip_prefix("FILE:").unwrap_or(keytab);
        // The library says of a file that cannot be read only that there is no key.
        if let Err(error) = File::open(path) {
            return Err(failure(Kind::Keytab, format!("sasl.kerberos.keytab: {path:?} cannot be read: {error}")));
        }
        store.push((c"client_keytab", value(format!("FILE:{path}"))?));
        store.push((c"ccache", value(memory_cache(path, config.principal.as_deref()))?));
    } else if let Some(cache) = &config.ticket_cache {
        store.push((c"ccache", value(cache.clone())?));
    }
    Ok(store)
}

/// Returns the ticket cache in memory for a keytab: one for all clients of the process that have the same keytab, so that
/// the KDC is asked once for all of them. It lives as long as the process.
fn memory_cache(keytab: &str, principal: Option<&str>) -> String {
    let mut hasher = DefaultHasher::new();
    (keytab, principal).hash(&mut hasher);
    format!("MEMORY:grete-{:016x}", hasher.finish())
}
