//! Properties of CREATE and ALTER SERVICE LEVEL.

use catalog::{LevelChange, Workload};
use model::types::Duration;
use protocol::CqlError;
use syntax::{LevelProperty, Literal, LiteralKind};

use crate::error::invalid;

/// Largest number of shares, as in ScyllaDB.
const SHARES_MAX: i64 = 1000;

pub(super) fn change(properties: &[LevelProperty]) -> Result<LevelChange, CqlError> {
    let mut change = LevelChange::default();
    for LevelProperty { name, value } in properties {
        match (name.as_str(), value) {
            ("timeout", None) => change.timeout_ms = Some(None),
            ("timeout", Some(value)) => change.timeout_ms = Some(Some(timeout_ms(value)?)),
            ("workload_type", Some(value)) => change.workload = Some(workload(value)?),
            ("shares", Some(value)) => change.shares = Some(shares(value)?),
            ("workload_type" | "shares", None) => {
                return invalid!("Invalid value for property '{}': null", name.as_str());
            }
            (unknown, _) => return Err(CqlError::Syntax(format!("Unknown property '{unknown}'"))),
        }
    }
    Ok(change)
}

fn timeout_ms(value: &Literal) -> Result<u64, CqlError> {
    let duration = match (value.kind, Duration::parse(&value.text)) {
        (LiteralKind::Duration, Ok(duration)) => duration,
        _ => return invalid!("Invalid timeout {}: expected a duration, as 50ms", value.text),
    };
    if duration.months != 0 || duration.days != 0 {
        return invalid!("Timeout values cannot be expressed in days/months");
    }
    if duration.nanoseconds % 1_000_000 != 0 {
        return invalid!("Timeout values must be expressed in millisecond granularity");
    }
    match u64::try_from(duration.nanoseconds / 1_000_000) {
        Ok(timeout_ms) => Ok(timeout_ms),
        Err(_) => invalid!("Timeout values must be nonnegative"),
    }
}

/// Parses the workload type. `'null'` resets the type to unspecified. The word `unspecified` is shown to
/// users but not accepted in statements.
fn workload(value: &Literal) -> Result<Workload, CqlError> {
    match value.text.as_str() {
        "null" => Ok(Workload::Unspecified),
        text => match Workload::from_name(text).filter(|workload| *workload != Workload::Unspecified) {
            Some(workload) => Ok(workload),
            None => invalid!("Invalid workload type: {text}"),
        },
    }
}

fn shares(value: &Literal) -> Result<u32, CqlError> {
    let given = match (value.kind, value.text.parse::<i64>()) {
        (LiteralKind::Integer, Ok(given)) => given,
        _ => return Err(CqlError::Syntax(format!("Invalid value for property 'shares': {}", value.text))),
    };
    match u32::try_from(given) {
        Ok(shares) if (1..=SHARES_MAX).contains(&given) => Ok(shares),
        _ => {
            Err(CqlError::Syntax(format!("'SHARES' can only take values of 1-{SHARES_MAX} (given {given})")))
        }
    }
}
