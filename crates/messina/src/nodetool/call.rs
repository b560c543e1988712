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
    pub fn get<T: DeserializeOwned>(&self, path: &str, show: impl Fn(T) -> String) -> Result<String, String> {
        self.ask("GET", path, show)
    }

    /// Sends a request with any method and formats the answer with `show`.
    ///
    /// # Errors
    /// No node answers, or the node returns an error.
    pub fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        show: impl Fn(T) -> String,
    ) -> Result<String, String> {
        let body = self.client.ask(method, path)?;
        if self.format == Format::Json {
            return Ok(body + "\n");
        }
        let answer = serde_json::from_str(&body);
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

/// A flag as a parameter of the admin API.
pub fn flag(is_set: bool) -> Option<&'static str> {
    is_set.then_some("true")
}
