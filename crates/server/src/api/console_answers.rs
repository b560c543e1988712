//! Request and answers of the page's console.

use serde::{Deserialize, Serialize};

/// `GET /v1/console`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsoleState {
    /// Why there is no console.
    pub reason: Option<String>,
    /// Whether statements may change data and schema.
    pub may_change: bool,
    /// Whether each request needs a role and its password.
    pub asks_role: bool,
}

/// `POST /v1/console`: a statement.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleQuery {
    pub statement: String,
    /// The keyspace of names without one.
    #[serde(default)]
    pub keyspace: Option<String>,
    #[serde(default)]
    pub role: Option<String>,
    #[serde(default)]
    pub password: String,
    /// Rows of a page, at most 1000 [default: 100].
    #[serde(default)]
    pub page_rows: Option<u32>,
    /// The `paging_state` of the previous page; without it the first page is returned.
    #[serde(default)]
    pub paging_state: Option<String>,
    #[serde(default)]
    pub trace: bool,
}

/// A page of a statement's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsoleResult {
    pub columns: Vec<ConsoleColumn>,
    /// By column; `None`: null. Values are CQL literals; texts have no quotes.
    pub rows: Vec<Vec<Option<String>>>,
    /// Of the next page; `None`: this is the last.
    pub paging_state: Option<String>,
    /// What a statement without rows did.
    pub done: Option<String>,
    /// From the request to the whole answer, without the login.
    pub took_us: u64,
    pub warnings: Vec<String>,
    pub trace: Option<ConsoleTrace>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsoleColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub cql_type: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsoleTrace {
    pub id: String,
    /// `None`: the trace was not complete in time.
    pub duration_us: Option<u64>,
    pub events: Vec<ConsoleTraceEvent>,
    /// Why there are no events.
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsoleTraceEvent {
    /// Since the begin.
    pub at_us: Option<u64>,
    pub thread: String,
    pub activity: String,
}
