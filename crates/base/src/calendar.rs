//! Days and dates in the proleptic Gregorian calendar, for any year.
//!
//! CQL's range is wider than that of the libraries, which end at the year 9999: a `date` ranges from year
//! -5877641 to 5881580, a `timestamp` to ±292 million.
//!
//! The algorithm is Hinnant's `days_from_civil`. A year of the computation starts in March, so that the leap
//! day is its last day. Then the lengths of months repeat every five months, in 153 days.

/// Days of the calendar's cycle of 400 years.
pub const CYCLE_DAYS: i64 = 146_097;
/// Days from 0000-03-01, the start of a cycle, to 1970-01-01.
const CYCLE_TO_EPOCH_DAYS: i64 = 719_468;

/// The number of days of a month (1 to 12); `None` if there is no such month.
pub fn days_in_month(year: i64, month: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    Some(match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    })
}

/// Days from 1970-01-01 to the date; `None` if the date does not exist. The year is at most ±2^50.
pub fn days_of_date(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=days_in_month(year, month)?).contains(&day) {
        return None;
    }
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (cycle, year_in_cycle) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let day_in_year = (153 * march_month + 2) / 5 + day - 1;
    let leap_days = year_in_cycle / 4 - year_in_cycle / 100;
    Some(cycle * CYCLE_DAYS + year_in_cycle * 365 + leap_days + day_in_year - CYCLE_TO_EPOCH_DAYS)
}

/// Year, month (1 to 12) and day (1 to 31) of a number of days since 1970-01-01, at most ±2^58.
pub fn date_of_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + CYCLE_TO_EPOCH_DAYS;
    let (cycle, day_in_cycle) = (shifted.div_euclid(CYCLE_DAYS), shifted.rem_euclid(CYCLE_DAYS));
    // Without the leap days (one per 1,460 days, none per 36,524, one per cycle) all years have 365 days.
    let leap_days = day_in_cycle / 1_460 - day_in_cycle / 36_524 + day_in_cycle / 146_096;
    let year_in_cycle = (day_in_cycle - leap_days) / 365;
    let day_in_year = day_in_cycle - (365 * year_in_cycle + year_in_cycle / 4 - year_in_cycle / 100);
    let march_month = (5 * day_in_year + 2) / 153;
    let day = day_in_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (cycle * 400 + year_in_cycle + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_cycles_follows_the_one_before() {
        let (mut year, mut month, mut day) = date_of_days(-800_000);
        for days in -800_000..-800_000 + 8 * CYCLE_DAYS {
            assert_eq!(date_of_days(days), (year, month, day), "{days}");
            assert_eq!(days_of_date(year, month, day), Some(days));
            day += 1;
            if days_of_date(year, month, day).is_none() {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn known_dates_and_the_ends_of_cqls_range() {
        assert_eq!(date_of_days(0), (1970, 1, 1));
        assert_eq!(days_of_date(2000, 2, 29), Some(11_016));
        assert_eq!(days_of_date(1900, 2, 29), None);
        assert_eq!(
            (days_of_date(2000, 13, 1), days_of_date(2000, 0, 1), days_of_date(2000, 1, 0)),
            (None, None, None)
        );
        for (days, date) in [(-(1 << 31), (-5_877_641, 6, 23)), ((1 << 31) - 1, (5_881_580, 7, 11))] {
            assert_eq!((date_of_days(days), days_of_date(date.0, date.1, date.2)), (date, Some(days)));
        }
    }
}
