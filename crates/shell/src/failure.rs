//! The errors of the shell, by the user's next step.

use std::{fmt, io};

use protocol::CqlError;

/// Why a statement or command failed.
#[derive(Debug)]
pub enum Failure {
    /// The server refused the statement.
    Refused(CqlError),
    /// There is no connection, or it broke. The text describes what to do.
    Connection(String),
    /// No answer arrived in time; the connection stays open.
    Timeout { after_s: f64 },
    /// The user interrupted the request; the connection stays open.
    Interrupted,
    /// A command of the shell is used wrongly, or one of the user's files cannot be read or written.
    Command(String),
    /// A failure in a script read by SOURCE or `-f`. The text is the complete message.
    InScript(String),
    /// The output cannot be written, for example because the reader of a pipe has closed it.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "{}: {error}", kind_name(error)),
            Self::Connection(text) | Self::Command(text) | Self::InScript(text) => f.write_str(text),
            Self::Timeout { after_s } => write!(
                f,
                "no answer within {after_s} s; the statement may still take effect (--request-timeout sets how \
                 long to wait)"
            ),
            Self::Interrupted => f.write_str("the wait was interrupted; the statement may still take effect"),
            Self::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

/// The error's name in drivers.
fn kind_name(error: &CqlError) -> &'static str {
    match error {
        CqlError::Server(_) => "ServerError",
        CqlError::Protocol(_) => "ProtocolError",
        CqlError::BadCredentials(_) => "AuthenticationFailed",
        CqlError::Unavailable { .. } => "Unavailable",
        CqlError::Overloaded(_) => "Overloaded",
        CqlError::Bootstrapping(_) => "IsBootstrapping",
        CqlError::Truncate(_) => "TruncateError",
        CqlError::WriteTimeout { .. } => "WriteTimeout",
        CqlError::ReadTimeout { .. } => "ReadTimeout",
        CqlError::ReadFailure { .. } => "ReadFailure",
        CqlError::FunctionFailure { .. } => "FunctionFailure",
        CqlError::WriteFailure { .. } => "WriteFailure",
        CqlError::CdcWriteFailure(_) => "CDCWriteFailure",
        CqlError::CasWriteUnknown { .. } => "CASWriteUnknown",
        CqlError::Syntax(_) => "SyntaxException",
        CqlError::Unauthorized(_) => "Unauthorized",
        CqlError::Invalid(_) => "InvalidRequest",
        CqlError::Config(_) => "ConfigurationException",
        CqlError::AlreadyExists { .. } => "AlreadyExists",
        CqlError::Unprepared { .. } => "Unprepared",
    }
}
