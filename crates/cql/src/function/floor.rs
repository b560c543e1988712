//! `floor(time, duration)`: divides time into intervals of the duration and returns the start of the interval
//! that contains `time`. The intervals start at a given time, by default 1970, or midnight for `time` values.
//! GROUP BY uses the function.
//!
//! Source of rules and error messages: Cassandra 4.1 `cql3/functions/TimeFcts.java`, `cql3/Duration.java`.

use base::calendar::CYCLE_DAYS;
use model::CqlType;
use model::types::Duration;
use protocol::CqlError;

use super::calendar::{self, DATE_EPOCH, MS_PER_DAY};
use super::resolve::Signature;
use super::time;
use crate::error::invalid;

const NS_PER_MS: i64 = 1_000_000;
const NS_PER_DAY: i64 = MS_PER_DAY * NS_PER_MS;
/// Mean length of a month over 400 years, the period of the Gregorian calendar.
const MS_PER_MONTH: f64 = MS_PER_DAY as f64 * CYCLE_DAYS as f64 / 4_800.0;

/// Returns the overloads of `floor`; `None` for any other name.
pub fn overloads(name: &str) -> Option<Vec<Signature>> {
    use CqlType as T;
    if name != "floor" {
        return None;
    }
    let of = |from: T, to: T, start: Option<T>| {
        let args: Vec<T> = [from.clone(), T::Duration].into_iter().chain(start.clone()).collect();
        let result = to.clone();
        Signature::new(name, args, result, move |args| {
            let Some(duration) = Duration::from_bytes(args[1]) else { return Ok(None) };
            check_sign(duration)?;
            if from == T::Time {
                let Ok(bytes) = <[u8; 8]>::try_from(args[0]) else { return Ok(None) };
                return floor_time(i64::from_be_bytes(bytes), duration)
                    .map(|ns| Some(ns.to_be_bytes().to_vec()));
            }
            let start_ms = match (&start, args.get(2)) {
                (Some(ty), Some(start)) => ms_of(ty, start)?,
                _ => Some(0),
            };
            let (Some(ms), Some(start_ms)) = (ms_of(&from, args[0])?, start_ms) else { return Ok(None) };
            if to == T::Date {
                if duration.nanoseconds % NS_PER_DAY != 0 {
                    return invalid!(
                        "The floor on date values cannot be computed for the {} duration as precision is below 1 day",
                        T::Duration.text_of(args[1])
                    );
                }
                let days = floor_ms(ms, duration, start_ms)?.div_euclid(MS_PER_DAY);
                return Ok(u32::try_from(days + DATE_EPOCH).ok().map(|date| date.to_be_bytes().to_vec()));
            }
            if duration.nanoseconds % NS_PER_MS != 0 {
                return invalid!(
                    "The floor cannot be computed for the {} duration as precision is below 1 millisecond",
                    T::Duration.text_of(args[1])
                );
            }
            floor_ms(ms, duration, start_ms).map(|ms| Some(ms.to_be_bytes().to_vec()))
        })
    };
    Some(vec![
        of(T::Timestamp, T::Timestamp, None),
        of(T::Timestamp, T::Timestamp, Some(T::Timestamp)),
        of(T::TimeUuid, T::Timestamp, None),
        of(T::TimeUuid, T::Timestamp, Some(T::Timestamp)),
        of(T::Date, T::Date, None),
        of(T::Date, T::Date, Some(T::Date)),
        of(T::Time, T::Time, None),
    ])
}

fn check_sign(duration: Duration) -> Result<(), CqlError> {
    if duration.months < 0 || duration.days < 0 || duration.nanoseconds < 0 {
        return invalid!("Negative durations are not supported by the floor function");
    }
    if duration == Duration::default() {
        return invalid!("The floor function takes no duration of zero");
    }
    Ok(())
}

/// Converts to milliseconds since 1970; `None` for the empty value.
fn ms_of(ty: &CqlType, value: &[u8]) -> Result<Option<i64>, CqlError> {
    let ms = time::convert(ty, &CqlType::BigInt, value)?;
    Ok(ms.and_then(|ms| <[u8; 8]>::try_from(ms).ok()).map(i64::from_be_bytes))
}

fn floor_time(ns: i64, duration: Duration) -> Result<i64, CqlError> {
    if duration.months != 0 || duration.days != 0 || duration.nanoseconds > NS_PER_DAY {
        return invalid!("For time values, the floor can only be computed for durations smaller that a day");
    }
    Ok(ns - ns % duration.nanoseconds)
}

fn floor_ms(ms: i64, duration: Duration, start_ms: i64) -> Result<i64, CqlError> {
    if start_ms > ms {
        return invalid!("The floor function starting time is greater than the provided time");
    }
    let out_of_range =
        || CqlError::Invalid("The floor function was given a time out of its range".to_string());
    let step_ms = i64::from(duration.days)
        .checked_mul(MS_PER_DAY)
        .and_then(|days| days.checked_add(duration.nanoseconds / NS_PER_MS));
    let step_ms = step_ms.ok_or_else(out_of_range)?;
    let since_ms = ms.checked_sub(start_ms).ok_or_else(out_of_range)?;
    if duration.months == 0 {
        return Ok(ms - since_ms % step_ms.max(1));
    }
    // Months differ in length. The number of intervals is estimated, and then decreased from a slightly
    // larger value.
    let guess = since_ms as f64 / (f64::from(duration.months) * MS_PER_MONTH + step_ms as f64);
    let mut steps = guess as i64 + 2;
    while steps > 0 {
        let begin = times(duration, steps).and_then(|span| {
            let begin = calendar::plus(&CqlType::Timestamp, &start_ms.to_be_bytes(), span, 1).ok()??;
            <[u8; 8]>::try_from(begin).ok().map(i64::from_be_bytes)
        });
        if let Some(begin) = begin.filter(|begin| *begin <= ms) {
            return Ok(begin);
        }
        steps -= 1;
        if steps < guess as i64 - 2 {
            return Err(out_of_range());
        }
    }
    Ok(start_ms)
}

fn times(duration: Duration, count: i64) -> Option<Duration> {
    Some(Duration {
        months: i32::try_from(i64::from(duration.months).checked_mul(count)?).ok()?,
        days: i32::try_from(i64::from(duration.days).checked_mul(count)?).ok()?,
        nanoseconds: duration.nanoseconds.checked_mul(count)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ty: &CqlType, value: &str, duration: &str, start: Option<&str>, expected: &str) {
        let bytes = |ty: &CqlType, text: &str| ty.bytes_of(&format!("'{text}'")).expect(text);
        let mut args = vec![bytes(ty, value), CqlType::Duration.bytes_of(duration).expect(duration)];
        args.extend(start.map(|start| bytes(ty, start)));
        let wanted: Vec<CqlType> =
            [ty.clone(), CqlType::Duration].into_iter().chain(start.map(|_| ty.clone())).collect();
        let overloads = overloads("floor").expect("there is one");
        let signature = overloads.iter().find(|overload| overload.args == wanted).expect("an overload");
        let args: Vec<Option<std::borrow::Cow<'_, [u8]>>> =
            args.into_iter().map(|arg| Some(arg.into())).collect();
        let env = crate::term::Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 };
        let found = match (signature.run)(&env, &args) {
            Ok(found) => ty.text_of(&found.expect("a value")).replace('\'', ""),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "floor({value}, {duration}, {start:?})");
    }

    #[test]
    fn times_begin_with_their_span() {
        let ty = CqlType::Timestamp;
        let check = |value: &str, duration: &str, start: Option<&str>, expected: &str| {
            check(&ty, value, duration, start, expected);
        };
        check("2016-09-27 16:26:00+0000", "1h", None, "2016-09-27T16:00:00.000Z");
        check("2016-09-27 16:26:00+0000", "2h", None, "2016-09-27T16:00:00.000Z");
        check("2016-09-27 16:26:00+0000", "1mo", None, "2016-09-01T00:00:00.000Z");
        check(
            "2016-09-27 16:26:00+0000",
            "2mo",
            Some("2016-08-31 01:00:00+0000"),
            "2016-08-31T01:00:00.000Z",
        );
        check(
            "2016-11-01 00:00:00+0000",
            "1mo",
            Some("2016-08-31 01:00:00+0000"),
            "2016-10-31T01:00:00.000Z",
        );
        check("1969-12-31 23:00:00+0000", "1h", Some("1969-01-01 00:00:00+0000"), "1969-12-31T23:00:00.000Z");
        check("2016-09-27 16:26:00+0000", "1y", None, "2016-01-01T00:00:00.000Z");
        check("9999-09-27 16:26:00+0000", "1mo1d", None, "9999-09-03T00:00:00.000Z");
        check(
            "2016-09-27 16:26:00+0000",
            "-1h",
            None,
            "Negative durations are not supported by the floor function",
        );
        check(
            "2016-09-27 16:26:00+0000",
            "1h",
            Some("2020-01-01"),
            "The floor function starting time is greater than the provided time",
        );
        check(
            "2016-09-27 16:26:00+0000",
            "10us",
            None,
            "The floor cannot be computed for the 10us duration as precision is below 1 millisecond",
        );
    }

    #[test]
    fn dates_and_times_of_day() {
        check(&CqlType::Date, "2016-09-27", "1mo", None, "2016-09-01");
        check(&CqlType::Date, "2016-09-27", "7d", Some("2016-09-01"), "2016-09-22");
        check(
            &CqlType::Date,
            "2016-09-27",
            "1h",
            None,
            "The floor on date values cannot be computed for the 1h duration as precision is below 1 day",
        );
        check(&CqlType::Time, "16:26:07.5", "5m", None, "16:25:00.000000000");
        check(
            &CqlType::Time,
            "16:26:07.5",
            "1d",
            None,
            "For time values, the floor can only be computed for durations smaller that a day",
        );
    }
}
