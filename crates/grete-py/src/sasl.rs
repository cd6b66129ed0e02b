//! Bearer tokens of clients: Python fetches them, connections send them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use grete_client::{Settings, TokenSource, basic_authorization, endpoint_token, read_token, without_secret};
use grete_proto::sasl::{Token, TokenStore};
use grete_proto::secret::Secret;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyByteArray, PyDict};

/// Place where a source puts its tokens, for the connections of all clients that have the same source.
#[pyclass(frozen, module = "grete._native", name = "TokenStore")]
pub(crate) struct PyTokenStore {
    store: Arc<TokenStore>,
}

#[pymethods]
impl PyTokenStore {
    #[new]
    fn new() -> Self {
        Self { store: Arc::default() }
    }

    /// Replaces the token. `subject`: the user that the token names. `validity`: the times of the token as a text, for the
    /// error of a broker that refuses the token. Raises ValueError for a token or an extension that cannot be sent.
    #[pyo3(signature = (token, extensions, subject=None, validity=None))]
    fn set(
        &self,
        token: TokenArg<'_>,
        extensions: Vec<(String, String)>,
        subject: Option<&str>,
        validity: Option<&str>,
    ) -> PyResult<()> {
        let text = match token {
            TokenArg::Native(token) => token.get().text.clone(),
            TokenArg::Text(text) => Secret::from(&*text),
        };
        let token = Token::new(text, extensions).map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.store.set(token.of_subject(subject).of_validity(validity));
        Ok(())
    }

    /// Removes the token: logins fail for this reason until there is a new one. `lasts`: the source has failed
    /// several times in a row, or hangs, so a client that has never logged in ends with the reason.
    fn fail(&self, reason: &str, lasts: bool) {
        self.store.fail(reason, lasts);
    }

    /// Returns whether a broker has refused the present token.
    fn refused(&self) -> bool {
        self.store.is_refused()
    }

    /// Returns the number of clients that use the tokens.
    fn users(&self) -> usize {
        Arc::strong_count(&self.store).saturating_sub(1)
    }
}

/// Text of a token, or a token that Python does not have as a text.
#[derive(FromPyObject)]
enum TokenArg<'py> {
    Native(Bound<'py, PyNativeToken>),
    Text(PyBackedStr),
}

/// Bearer token that Python never has as a text: the memory of Python's texts is not overwritten.
#[pyclass(frozen, module = "grete._native", name = "NativeToken")]
pub(crate) struct PyNativeToken {
    text: Secret,
}

#[pymethods]
impl PyNativeToken {
    /// Reads a file. Raises ValueError, which says what is wrong with the file and repeats nothing of it.
    #[staticmethod]
    fn of_file(path: PathBuf) -> PyResult<Self> {
        let text = read_token(&path).map_err(|problem| PyValueError::new_err(format!("it {problem}")))?;
        Ok(Self { text })
    }

    /// Reads the answer of a token endpoint, and returns the token with its life in seconds (None: unknown). Raises
    /// ValueError, which repeats nothing of the answer.
    #[staticmethod]
    fn of_answer(answer: &Bound<'_, PyByteArray>, length: usize) -> PyResult<(Self, Option<f64>)> {
        let found = endpoint_token(answer.to_vec(), length)
            .map_err(|problem| PyValueError::new_err(format!("it {problem}")))?;
        Ok((Self { text: found.token }, found.expires_in))
    }

    /// Returns the claims of a JSON web token, as the text of a JSON object; None: the token is opaque.
    fn claims(&self) -> Option<String> {
        Token::claims(&self.text)
    }
}

/// Secret of a client at a token endpoint. Two objects with one secret are equal.
#[pyclass(frozen, module = "grete._native", name = "ClientSecret")]
pub(crate) struct PyClientSecret {
    client_id: String,
    secret: Secret,
}

#[pymethods]
impl PyClientSecret {
    #[new]
    fn new(client_id: String, secret: PyBackedStr) -> Self {
        Self { client_id, secret: Secret::from(&*secret) }
    }

    /// Returns the value of the header `Authorization`, for the caller to overwrite.
    fn authorization<'py>(&self, py: Python<'py>) -> Bound<'py, PyByteArray> {
        PyByteArray::new(py, &basic_authorization(&self.client_id, &self.secret))
    }

    /// Returns a text of the endpoint without the secret.
    fn mask(&self, text: &str) -> String {
        without_secret(text, &self.client_id, &self.secret)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Self>();
        other.is_ok_and(|other| other.get().client_id == self.client_id && other.get().secret == self.secret)
    }

    /// Hash of the client alone, which has nothing of the secret.
    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.client_id.hash(&mut hasher);
        hasher.finish()
    }
}

/// Gives the settings of a client the place of its tokens, and starts their source if no other client has it.
pub(crate) fn attach_tokens(py: Python<'_>, settings: &mut Settings) -> PyResult<()> {
    let Some(source) = settings.security().sasl.as_ref().and_then(|sasl| sasl.token_source()) else { return Ok(()) };
    let source = describe(py, source, settings)?;
    let store = py.import("grete._sasl")?.call_method1("tokens_of", (source,))?;
    let store = Arc::clone(&store.cast::<PyTokenStore>()?.get().store);
    settings.set_tokens(store);
    Ok(())
}

fn describe<'py>(py: Python<'py>, source: &TokenSource, settings: &Settings) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("preset", source.preset)?;
    fields.set_item("provider", &source.provider)?;
    fields.set_item("endpoint", &source.endpoint)?;
    fields.set_item("client_id", &source.client_id)?;
    let client_secret =
        |secret: &Secret| PyClientSecret { client_id: source.client_id.clone(), secret: secret.clone() };
    fields.set_item("client_secret", source.client_secret.as_ref().map(client_secret))?;
    fields.set_item("scope", &source.scope)?;
    fields.set_item("extensions", source.extensions.clone())?;
    fields.set_item("file", &source.file)?;
    fields.set_item("host", settings.bootstrap().first().map(|(host, _)| host.to_string()))?;
    Ok(fields)
}
