//! A question to the node's admin API, and its answer as text for people or as it came.

use clap::Args;
use serde::de::DeserializeOwned;
use server::api::answers::Done;

use super::Format;
use super::http::{Client, query};

/// Which tables a command is for: all, those of a keyspace, or those that are named.
#[derive(Args, Debug)]
pub struct Tables {
    /// Only tables of this keyspace
    pub keyspace: Option<String>,
    /// Only these tables of the keyspace
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
}

impl Tables {
    /// The names of the tables as the admin API takes them; `None`: all.
    pub fn joined(&self) -> Option<String> {
        (!self.tables.is_empty()).then(|| self.tables.join(","))
    }
}

/// Where to ask, and how answers are shown.
pub struct Call {
    pub client: Client,
    pub format: Format,
}

impl Call {
    /// # Errors
    /// There is no node, or what the node says is wrong.
    pub fn get<T: DeserializeOwned>(&self, path: &str, show: impl Fn(T) -> String) -> Result<String, String> {
        self.ask("GET", path, show)
    }

    /// # Errors
    /// There is no node, or what the node says is wrong.
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
        let wrong = |error| format!("an answer of another version? {error}: {}", body.escape_debug());
        Ok(show(answer.map_err(wrong)?))
    }

    /// Has something done that is answered with nothing.
    ///
    /// # Errors
    /// There is no node, or what the node says is wrong.
    pub fn post(&self, path: &str) -> Result<String, String> {
        self.ask("POST", path, |_: Done| String::new())
    }

    /// Has something done with tables.
    ///
    /// # Errors
    /// There is no node, or what the node says is wrong.
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

/// The value of a flag as the admin API takes it.
pub fn flag(is_set: bool) -> Option<&'static str> {
    is_set.then_some("true")
}
