//! Adds durations to dates and timestamps, in the proleptic Gregorian calendar.

use base::calendar::{date_of_days, days_in_month, days_of_date};
use model::CqlType;
use model::types::Duration;
use protocol::CqlError;

use crate::error::invalid;

pub const MS_PER_DAY: i64 = 86_400_000;
const NS_PER_MS: i64 = 1_000_000;
/// The value of type `date` for 1970-01-01.
pub const DATE_EPOCH: i64 = 1 << 31;

/// Whether durations can be added to the type.
pub fn is_time(ty: &CqlType) -> bool {
    matches!(ty.without_reversed(), CqlType::Timestamp | CqlType::Date)
}

/// Returns `value + sign × duration`; `None` for the empty value.
///
/// # Errors
/// The result is out of the type's range, or a part of a day is added to a date.
pub fn plus(ty: &CqlType, value: &[u8], duration: Duration, sign: i64) -> Result<Option<Vec<u8>>, CqlError> {
    let range = || CqlError::Invalid(format!("The result is out of the range of {}", ty.to_cql()));
    match ty.without_reversed() {
        CqlType::Timestamp => {
            let Ok(bytes) = <[u8; 8]>::try_from(value) else { return Ok(None) };
            let ms = i64::from_be_bytes(bytes);
            let days = shifted_days(ms.div_euclid(MS_PER_DAY), duration, sign).ok_or_else(range)?;
            let moved = days.checked_mul(MS_PER_DAY).and_then(|start| {
                start
                    .checked_add(ms.rem_euclid(MS_PER_DAY))?
                    .checked_add(sign * (duration.nanoseconds / NS_PER_MS))
            });
            Ok(Some(moved.ok_or_else(range)?.to_be_bytes().to_vec()))
        }
        CqlType::Date => {
            let Ok(bytes) = <[u8; 4]>::try_from(value) else { return Ok(None) };
            if duration.nanoseconds != 0 {
                return invalid!("The duration must have a day precision");
            }
            let days = i64::from(u32::from_be_bytes(bytes)) - DATE_EPOCH;
            let days = shifted_days(days, duration, sign).ok_or_else(range)?;
            let date = u32::try_from(days + DATE_EPOCH).map_err(|_| range())?;
            Ok(Some(date.to_be_bytes().to_vec()))
        }
        other => invalid!("{} takes no durations", other.to_cql()),
    }
}

/// Adds months first, with the day limited to the length of the month, and then days.
fn shifted_days(days: i64, duration: Duration, sign: i64) -> Option<i64> {
    let mut days = days;
    if duration.months != 0 {
        let (year, month, day) = date_of_days(days);
        let months = year.checked_mul(12)?.checked_add(month - 1)?;
        let months = months.checked_add(sign * i64::from(duration.months))?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = days_of_date(year, month, day.min(days_in_month(year, month)?))?;
    }
    days.checked_add(sign * i64::from(duration.days))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_after_the_31st_of_january_is_the_end_of_february() {
        let at_5_ms = |month, day| days_of_date(2024, month, day).expect("a date") * MS_PER_DAY + 5;
        let month = Duration { months: 1, days: 0, nanoseconds: 0 };
        let moved = plus(&CqlType::Timestamp, &at_5_ms(1, 31).to_be_bytes(), month, 1).expect("in range");
        assert_eq!(moved, Some(at_5_ms(2, 29).to_be_bytes().to_vec()));
    }
}
