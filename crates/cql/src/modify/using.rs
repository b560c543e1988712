//! USING: a write's timestamp, time to live and timeout.

use model::types::Duration;
use model::{CqlType, NO_TIMESTAMP_US, TableSchema};

use crate::CqlError;
use crate::error::invalid;
use crate::syntax::ast;
use crate::term::{Env, Expr, Planner, Value};

/// The longest time to live: 20 years, as the peers have it.
pub const TTL_MAX_S: u32 = 630_720_000;

/// Each is absent if the statement does not say it.
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

    /// `otherwise` where the statement says nothing.
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

    /// Seconds; 0: none. The table's default where the statement says nothing.
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

    /// Nanoseconds.
    ///
    /// # Errors
    /// A negative timeout, or one of days or months.
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

/// The last second that an expiry may have: the SSTables that are written have no room for a later one.
const EXPIRATION_S_MAX: u32 = i32::MAX as u32 - 1;

/// The texts are Cassandra's, where `expiration_date_overflow_policy` is REJECT, as it is by default.
fn expires(schema: &TableSchema, ttl_s: u32, is_default: bool, now_s: u32) -> Result<u32, CqlError> {
    if ttl_s > 0 && now_s.checked_add(ttl_s).is_none_or(|expiry_s| expiry_s > EXPIRATION_S_MAX) {
        return invalid!(
            "Request on table {} with {}ttl of {ttl_s} seconds exceeds maximum supported expiration date of \
             2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL, change the expiration date overflow policy \
             or upgrade to a version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for more details.",
            schema.full_name(),
            if is_default { "default " } else { "" }
        );
    }
    Ok(ttl_s)
}
