//! The errors of the native protocol, each with the fields that its message carries.

use std::fmt;

use model::types::TypeError;

use crate::Consistency;

/// Kind of a write, for timeouts and failures. [`WriteKind::name`] returns the protocol's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// A single statement, neither conditional nor on counters.
    Simple,
    /// A logged batch whose log has been written.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// An update of counters.
    Counter,
    /// The write of a logged batch to its log.
    BatchLog,
    /// A conditional write.
    Cas,
    /// The update of a materialized view.
    View,
    /// The write of a change data capture log.
    Cdc,
}

impl WriteKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Simple,
        Self::Batch,
        Self::UnloggedBatch,
        Self::Counter,
        Self::BatchLog,
        Self::Cas,
        Self::View,
        Self::Cdc,
    ];

    /// The name in the protocol: `BATCH_LOG`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Counter => "COUNTER",
            Self::BatchLog => "BATCH_LOG",
            Self::Cas => "CAS",
            Self::View => "VIEW",
            Self::Cdc => "CDC",
        }
    }
}

/// Reason why a replica could not answer. Sent to clients in protocol v5 and later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureReason {
    /// 0x0000: any other reason.
    #[default]
    Unknown,
    /// The read exceeded the limit `tombstone_failure_threshold`.
    ReadTooManyTombstones,
}

impl FailureReason {
    /// Code of the protocol. Source: Cassandra's `RequestFailureReason`.
    pub fn code(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::ReadTooManyTombstones => 1,
        }
    }

    /// Converts a code of the protocol. An unknown code is [`Self::Unknown`].
    pub fn from_code(code: u16) -> Self {
        if code == 1 { Self::ReadTooManyTombstones } else { Self::Unknown }
    }

    /// The name of the reason in the log and in the shell.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::ReadTooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
        }
    }
}

/// The error of a failed request. Source of codes and fields: the native protocol's specification, §9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CqlError {
    /// 0x0000: an internal error of the server; the text describes it.
    Server(String),
    /// 0x000A: the frame violates the protocol.
    Protocol(String),
    /// 0x0100
    BadCredentials(String),
    /// 0x1000
    Unavailable {
        /// Number of the consistency level.
        consistency: u16,
        /// Replicas that the level needs.
        required: i32,
        /// Replicas that are alive.
        alive: i32,
    },
    /// 0x1001: the node has too much work. The request was not started and can be sent again.
    Overloaded(String),
    /// 0x1002: the node is starting.
    Bootstrapping(String),
    /// 0x1003
    Truncate(String),
    /// 0x1100: it is not known whether the write was applied.
    WriteTimeout {
        /// Number of the consistency level.
        consistency: u16,
        /// Replicas that have answered.
        received: i32,
        /// Replicas that the level needs.
        required: i32,
        /// The kind of write.
        kind: WriteKind,
    },
    /// 0x1200
    ReadTimeout {
        /// Number of the consistency level.
        consistency: u16,
        /// Replicas that have answered.
        received: i32,
        /// Replicas that the level needs.
        required: i32,
        /// Whether the replica that was asked for the data has answered.
        data_present: bool,
    },
    /// 0x1300
    ReadFailure {
        /// Number of the consistency level.
        consistency: u16,
        /// Replicas that have answered.
        received: i32,
        /// Replicas that the level needs.
        required: i32,
        /// Replicas that have failed.
        failures: i32,
        /// The reason, the same for all failed replicas.
        reason: FailureReason,
        /// Whether the replica that was asked for the data has answered.
        data_present: bool,
    },
    /// 0x1400
    FunctionFailure {
        /// Keyspace of the function.
        keyspace: String,
        /// Name of the function.
        function: String,
        /// Its argument types as CQL.
        arguments: Vec<String>,
        /// The error.
        text: String,
    },
    /// 0x1500
    WriteFailure {
        /// Number of the consistency level.
        consistency: u16,
        /// Replicas that have answered.
        received: i32,
        /// Replicas that the level needs.
        required: i32,
        /// Replicas that have failed.
        failures: i32,
        /// The kind of write.
        kind: WriteKind,
    },
    /// 0x1600: the log of changes (CDC) has no space left.
    CdcWriteFailure(String),
    /// 0x1700: it is not known whether the conditional write was applied.
    CasWriteUnknown {
        /// Number of the consistency level.
        consistency: u16,
        /// Replicas that have answered.
        received: i32,
        /// Replicas that the level needs.
        required: i32,
    },
    /// 0x2000: the statement has a syntax error; the message has line and column.
    Syntax(String),
    /// 0x2100
    Unauthorized(String),
    /// 0x2200: the syntax of the statement is correct, but it cannot be executed.
    Invalid(String),
    /// 0x2300
    Config(String),
    /// 0x2400: the keyspace (if `table` is empty) or the table already exists.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; empty: the keyspace itself.
        table: String,
    },
    /// 0x2500: there is no such prepared statement; the client prepares it again.
    Unprepared {
        /// The id that the client sent.
        id: Vec<u8>,
    },
}

impl CqlError {
    /// The error code of the protocol.
    pub fn code(&self) -> i32 {
        match self {
            Self::Server(_) => 0x0000,
            Self::Protocol(_) => 0x000A,
            Self::BadCredentials(_) => 0x0100,
            Self::Unavailable { .. } => 0x1000,
            Self::Overloaded(_) => 0x1001,
            Self::Bootstrapping(_) => 0x1002,
            Self::Truncate(_) => 0x1003,
            Self::WriteTimeout { .. } => 0x1100,
            Self::ReadTimeout { .. } => 0x1200,
            Self::ReadFailure { .. } => 0x1300,
            Self::FunctionFailure { .. } => 0x1400,
            Self::WriteFailure { .. } => 0x1500,
            Self::CdcWriteFailure(_) => 0x1600,
            Self::CasWriteUnknown { .. } => 0x1700,
            Self::Syntax(_) => 0x2000,
            Self::Unauthorized(_) => 0x2100,
            Self::Invalid(_) => 0x2200,
            Self::Config(_) => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
            Self::Unprepared { .. } => 0x2500,
        }
    }
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(text)
            | Self::Protocol(text)
            | Self::BadCredentials(text)
            | Self::Overloaded(text)
            | Self::Bootstrapping(text)
            | Self::Truncate(text)
            | Self::FunctionFailure { text, .. }
            | Self::CdcWriteFailure(text)
            | Self::Syntax(text)
            | Self::Unauthorized(text)
            | Self::Invalid(text)
            | Self::Config(text) => f.write_str(text),
            Self::Unavailable { consistency, .. } => match Consistency::from_code(*consistency) {
                Some(level) => write!(f, "Cannot achieve consistency level {level}"),
                None => write!(f, "Cannot achieve consistency level {consistency}"),
            },
            Self::WriteTimeout { received, required, .. } => {
                write!(f, "Operation timed out - received only {received} of {required} responses.")
            }
            Self::ReadTimeout { received, required, .. } => {
                write!(f, "Operation timed out - received only {received} of {required} responses.")
            }
            Self::CasWriteUnknown { received, required, .. } => {
                write!(f, "CAS operation result is unknown - accepted by {received} of {required} replicas.")
            }
            Self::ReadFailure { received, failures, reason, .. } if *reason != FailureReason::Unknown => {
                write!(
                    f,
                    "Operation failed - received {received} responses and {failures} failures: {}",
                    reason.name()
                )
            }
            Self::ReadFailure { failures, .. } | Self::WriteFailure { failures, .. } => {
                write!(f, "Operation failed - received {failures} failures")
            }
            Self::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            Self::AlreadyExists { keyspace, table } => {
                write!(f, "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
            }
            Self::Unprepared { id } => {
                f.write_str("Prepared query with ID ")?;
                id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(" not found (either the query was not prepared on this host or it was evicted)")
            }
        }
    }
}

impl std::error::Error for CqlError {}

impl From<TypeError> for CqlError {
    fn from(error: TypeError) -> Self {
        Self::Invalid(error.to_string())
    }
}
