//! A request to the node's admin API, and its answer as text or as JSON.

use clap::Args;
use serde::de::DeserializeOwned;
use server::api::answers::CommandResult;

use super::Format;
use super::http::{Client, query};

/// The tables of a command: all, those of a keyspace, or those that are named.
#[derive(Args, Debug)]
pub struct Tables {
    /// Only tables of this keyspace
    pub keyspace: Option<String>,
    /// Only these tables of the keyspace
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
}

impl Tables {
    /// The names of the tables as the admin API takes them; `None`: all tables.
    pub fn joined(&self) -> Option<String> {
        (!self.tables.is_empty()).then(|| self.tables.join(","))
    }
}

/// The node to ask, and the format of answers.
pub struct Call {
    pub client: Client,
    pub format: Format,
}

impl Call {
    /// Requests `path` and formats the answer with `show`.
    ///
    /// # Errors
    /// No node answers, or the node returns an error.
    pub fn get<T: DeserializeOwned, R: FromText>(
        &self,
        path: &str,
        show: impl Fn(T) -> R,
    ) -> Result<R, String> {
        self.ask("GET", path, show)
    }

    /// A sentence in place of an answer of the node.
    ///
    /// # Errors
    /// Never; as the other functions of a call.
    pub fn say(&self, sentence: &str) -> Result<String, String> {
        let body = serde_json::json!({ "message": sentence }).to_string();
        self.show(&body, |_: serde_json::Value| format!("{sentence}\n"))
    }

    /// Sends a request with any method and formats the answer with `show`.
    ///
    /// # Errors
    /// No node answers, or the node returns an error.
    pub fn ask<T: DeserializeOwned, R: FromText>(
        &self,
        method: &str,
        path: &str,
        show: impl Fn(T) -> R,
    ) -> Result<R, String> {
        let body = self.client.ask(method, path)?;
        self.show(&body, show)
    }

    /// Formats an answer of the node.
    ///
    /// # Errors
    /// The answer is of another type: the node has another version.
    pub fn show<T: DeserializeOwned, R: FromText>(
        &self,
        body: &str,
        show: impl Fn(T) -> R,
    ) -> Result<R, String> {
        match self.format {
            Format::Json => return Ok(R::from_text(format!("{body}\n"))),
            Format::Yaml => return Ok(R::from_text(yaml(body)?)),
            Format::Text => {}
        }
        let answer = serde_json::from_str(body);
        let wrong = |error| {
            format!(
                "the node's answer cannot be parsed, is it another version? {error}: {}",
                body.escape_debug()
            )
        };
        Ok(show(answer.map_err(wrong)?))
    }

    /// Sends a command whose answer has no content.
    ///
    /// # Errors
    /// No node answers, or the node returns an error.
    pub fn post(&self, path: &str) -> Result<String, String> {
        self.ask("POST", path, |_: CommandResult| String::new())
    }

    /// Sends a command for tables.
    ///
    /// # Errors
    /// No node answers, or the node returns an error.
    pub fn of_tables(
        &self,
        path: &str,
        of: &Tables,
        more: &[(&str, Option<&str>)],
    ) -> Result<String, String> {
        let tables = of.joined();
        let asked = [&[("keyspace", of.keyspace.as_deref()), ("tables", tables.as_deref())], more].concat();
        self.post(&query(path, &asked))
    }
}

/// Output of a command that is text, or text unless the answer lacks what the user has named.
pub trait FromText {
    fn from_text(text: String) -> Self;
}

impl FromText for String {
    fn from_text(text: String) -> Self {
        text
    }
}

impl FromText for Result<String, String> {
    fn from_text(text: String) -> Self {
        Ok(text)
    }
}

/// A JSON text as YAML.
fn yaml(body: &str) -> Result<String, String> {
    let value: serde_json::Value =
        serde_json::from_str(body).map_err(|error| format!("the node's answer is not JSON: {error}"))?;
    yaml_serde::to_string(&value).map_err(|error| format!("the answer cannot be shown as YAML: {error}"))
}

/// Keyspace and table of `keyspace` or `keyspace.table`.
pub fn one_or_two(of: Option<&str>) -> (Option<&str>, Option<&str>) {
    match of.map(|of| of.split_once('.').ok_or(of)) {
        None => (None, None),
        Some(Err(keyspace)) => (Some(keyspace), None),
        Some(Ok((keyspace, table))) => (Some(keyspace), Some(table)),
    }
}

/// A flag as a parameter of the admin API.
pub fn flag(is_set: bool) -> Option<&'static str> {
    is_set.then_some("true")
}
