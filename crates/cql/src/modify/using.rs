//! USING: timestamp, time to live and timeout of a write.

use model::types::Duration;
use model::{CqlType, NO_TIMESTAMP_US, TableSchema};
use protocol::CqlError;
use syntax::ast;

use crate::error::invalid;
use crate::term::{Env, Expr, Planner, Value};

/// Longest time to live: 20 years, as in Cassandra and ScyllaDB.
pub const TTL_MAX_S: u32 = 630_720_000;

/// The parameters of USING; each is `None` if the statement does not have it.
#[derive(Clone, Debug, Default)]
pub struct Using {
    pub timestamp: Option<Expr>,
    pub ttl: Option<Expr>,
    pub timeout: Option<Expr>,
}

impl Using {
    pub fn prepare(planner: &mut Planner<'_>, using: &ast::Using) -> Result<Self, CqlError> {
        let mut term = |term: &Option<ast::Term>, name: &str, ty: CqlType| {
            term.as_ref().map(|term| planner.term(term, name, &ty)).transpose()
        };
        Ok(Self {
            timestamp: term(&using.timestamp, "[timestamp]", CqlType::BigInt)?,
            ttl: term(&using.ttl, "[ttl]", CqlType::Int)?,
            timeout: term(&using.timeout, "[timeout]", CqlType::Duration)?,
        })
    }

    /// Returns the timestamp in microseconds, or `otherwise` if it is missing or unset.
    #[inline]
    pub fn timestamp_us(&self, env: &Env<'_>, otherwise: impl FnOnce() -> i64) -> Result<i64, CqlError> {
        let Some(timestamp) = &self.timestamp else { return Ok(otherwise()) };
        let bytes = match timestamp.evaluate(env)? {
            Value::Bytes(bytes) => bytes,
            Value::Null => return invalid!("Invalid null value of timestamp"),
            Value::Unset => return Ok(otherwise()),
        };
        match <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes) {
            Ok(NO_TIMESTAMP_US) | Err(_) => {
                invalid!("Out of bound timestamp, must be in [{}, {}]", NO_TIMESTAMP_US + 1, i64::MAX)
            }
            Ok(timestamp_us) => Ok(timestamp_us),
        }
    }

    /// Returns the time to live in seconds; 0 for none. The table's default applies if the statement has no
    /// TTL or it is unset.
    #[inline]
    pub fn ttl_s(&self, schema: &TableSchema, env: &Env<'_>, now_s: u32) -> Result<u32, CqlError> {
        let default_s = schema.options.default_ttl_s;
        let Some(ttl) = &self.ttl else { return expires(schema, default_s, true, now_s) };
        let bytes = match ttl.evaluate(env)? {
            Value::Bytes(bytes) => bytes,
            Value::Null => return Ok(0),
            Value::Unset => return expires(schema, default_s, true, now_s),
        };
        if bytes.is_empty() {
            return Ok(0);
        }
        let Ok(ttl_s) = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes) else {
            return invalid!("Invalid TTL value: a TTL is an int");
        };
        match u32::try_from(ttl_s) {
            Err(_) => invalid!("A TTL must be greater or equal to 0, but was {ttl_s}"),
            Ok(ttl_s) if ttl_s > TTL_MAX_S => {
                invalid!("ttl is too large. requested ({ttl_s}) maximum ({TTL_MAX_S})")
            }
            Ok(ttl_s) => expires(schema, ttl_s, false, now_s),
        }
    }

    /// Returns the timeout in nanoseconds.
    ///
    /// # Errors
    /// The timeout is null or negative, or has days or months.
    pub fn timeout_ns(&self, env: &Env<'_>) -> Result<Option<u64>, CqlError> {
        let Some(timeout) = &self.timeout else { return Ok(None) };
        let Some(bytes) = timeout.evaluate(env)?.required(|| "the timeout".to_string())? else {
            return invalid!("Invalid null value of timeout");
        };
        let duration = match Duration::from_bytes(&bytes) {
            Some(duration) => duration,
            None => return invalid!("Invalid timeout value: a timeout is a duration"),
        };
        if duration.months != 0 || duration.days != 0 {
            return invalid!("Timeout values cannot be expressed in days/months");
        }
        match u64::try_from(duration.nanoseconds) {
            Ok(ns) => Ok(Some(ns)),
            Err(_) => invalid!("Timeout values must be non-negative"),
        }
    }
}

/// Latest expiry in seconds since the Unix epoch. The SSTable formats that are written cannot hold a later
/// expiry.
const EXPIRATION_S_MAX: u32 = i32::MAX as u32 - 1;

/// Checks that data with this TTL expires in time. The error messages start with Cassandra's text for
/// `expiration_date_overflow_policy` REJECT, the default. Its advice about the policy and about other
/// versions does not apply here, so the text ends with advice that does.
fn expires(schema: &TableSchema, ttl_s: u32, is_default: bool, now_s: u32) -> Result<u32, CqlError> {
    if ttl_s > 0 && now_s.checked_add(ttl_s).is_none_or(|expiry_s| expiry_s > EXPIRATION_S_MAX) {
        return invalid!(
            "Request on table {} with {}ttl of {ttl_s} seconds exceeds maximum supported expiration date of \
             2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL, change the expiration date overflow policy \
             or upgrade to a version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for more details. \
             The SSTable formats 'me' and 'nb', which this node writes, cannot hold a later expiry: use a TTL of at most \
             {} seconds now, or none.",
            schema.full_name(),
            if is_default { "default " } else { "" },
            EXPIRATION_S_MAX.saturating_sub(now_s)
        );
    }
    Ok(ttl_s)
}
