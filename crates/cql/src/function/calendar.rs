//! Days, months and durations, in the proleptic Gregorian calendar.

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
        let (year, month, day) = civil_of_days(days);
        let months = year.checked_mul(12)?.checked_add(month - 1)?;
        let months = months.checked_add(sign * i64::from(duration.months))?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = days_of_civil(year, month, day.min(days_in_month(year, month)));
    }
    days.checked_add(sign * i64::from(duration.days))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_of_civil(next.0, next.1, 1) - days_of_civil(year, month, 1)
}

/// Days since 1970-01-01, by Hinnant's algorithm `days_from_civil`. The years of the computation start in
/// March, so that the leap day is the last day of a year.
fn days_of_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Converts days since 1970-01-01 to year, month (1 to 12) and day (1 to 31).
fn civil_of_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        for days in (-800_000..800_000).step_by(17) {
            let (year, month, day) = civil_of_days(days);
            assert_eq!(days_of_civil(year, month, day), days, "{year}-{month}-{day}");
            assert!((1..=days_in_month(year, month)).contains(&day));
        }
        assert_eq!(civil_of_days(0), (1970, 1, 1));
        assert_eq!(days_of_civil(2000, 2, 29), 11_016);
    }

    #[test]
    fn a_month_after_the_31st_of_january_is_the_end_of_february() {
        let january = days_of_civil(2024, 1, 31) * MS_PER_DAY + 5;
        let month = Duration { months: 1, days: 0, nanoseconds: 0 };
        let moved = plus(&CqlType::Timestamp, &january.to_be_bytes(), month, 1).expect("in range");
        assert_eq!(moved, Some((days_of_civil(2024, 2, 29) * MS_PER_DAY + 5).to_be_bytes().to_vec()));
    }
}
