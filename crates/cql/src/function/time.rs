//! Functions of times: the current time, and conversions between timestamps, dates and timeuuids.

use model::CqlType;
use protocol::CqlError;

use super::calendar::{DATE_EPOCH, MS_PER_DAY};
use super::resolve::Signature;
use crate::error::invalid;
use crate::term::Env;

/// Steps of 100 ns from 1582-10-15, the epoch of UUIDs, to 1970.
const UUID_EPOCH_TICKS: i64 = 0x01B2_1DD2_1381_4000;
const TICKS_PER_MS: i64 = 10_000;

/// Builds a function that returns the clock of the request, in milliseconds.
pub fn current_timestamp(name: &str) -> Signature {
    Signature::of_moment(name, CqlType::Timestamp, |env| env.now_us.div_euclid(1_000).to_be_bytes().to_vec())
}

/// Returns the overloads of the functions of times; `None` for any other name.
pub fn overloads(name: &str) -> Option<Vec<Signature>> {
    use CqlType as T;
    Some(match name {
        "now" | "currenttimeuuid" | "current_timeuuid" => {
            vec![Signature::of_moment(name, T::TimeUuid, now)]
        }
        "uuid" => vec![Signature::of_moment(name, T::Uuid, |env| {
            let random = u128::from((env.random)()) << 64 | u128::from((env.random)());
            let uuid = random & !(0xF << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
            uuid.to_be_bytes().to_vec()
        })],
        "currenttimestamp" | "current_timestamp" => vec![current_timestamp(name)],
        "currentdate" | "current_date" => vec![Signature::of_moment(name, T::Date, |env| {
            date_of_ms(env.now_us.div_euclid(1_000)).unwrap_or(0).to_be_bytes().to_vec()
        })],
        "currenttime" | "current_time" => vec![Signature::of_moment(name, T::Time, |env| {
            (env.now_us.rem_euclid(MS_PER_DAY * 1_000) * 1_000).to_be_bytes().to_vec()
        })],
        "mintimeuuid" | "min_timeuuid" => vec![timeuuid_of(name, 0, 0x8080_8080_8080_8080)],
        "maxtimeuuid" | "max_timeuuid" => vec![timeuuid_of(name, TICKS_PER_MS - 1, 0x7F7F_7F7F_7F7F_7F7F)],
        "dateof" => vec![conversion(name, &T::TimeUuid, &T::Timestamp)],
        "unixtimestampof" => vec![conversion(name, &T::TimeUuid, &T::BigInt)],
        "todate" | "to_date" => all(name, &[T::TimeUuid, T::Timestamp], &T::Date),
        "totimestamp" | "to_timestamp" => all(name, &[T::TimeUuid, T::Date], &T::Timestamp),
        "tounixtimestamp" | "to_unix_timestamp" => {
            all(name, &[T::TimeUuid, T::Timestamp, T::Date], &T::BigInt)
        }
        _ => return None,
    })
}

fn all(name: &str, from: &[CqlType], to: &CqlType) -> Vec<Signature> {
    from.iter().map(|from| conversion(name, from, to)).collect()
}

fn conversion(name: &str, from: &CqlType, to: &CqlType) -> Signature {
    let (own, result) = (from.clone(), to.clone());
    Signature::new(name, [from.clone()], to.clone(), move |args| convert(&own, &result, args[0]))
}

/// Whether [`convert`] supports the conversion.
pub fn converts(from: &CqlType, to: &CqlType) -> bool {
    use CqlType as T;
    matches!(
        (from, to),
        (T::TimeUuid, T::Timestamp | T::Date) | (T::Timestamp, T::Date) | (T::Date, T::Timestamp)
    )
}

/// Converts a timeuuid, timestamp or date to a timestamp, a date or milliseconds; `None` for the empty value.
pub fn convert(from: &CqlType, to: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>, CqlError> {
    if value.is_empty() {
        return Ok(None);
    }
    let malformed = || CqlError::Invalid(format!("not a {}", from.to_cql()));
    let ms = match from {
        CqlType::TimeUuid => {
            let bytes = <[u8; 16]>::try_from(value).map_err(|_| malformed())?;
            ms_of_timeuuid(u128::from_be_bytes(bytes))
        }
        CqlType::Date => {
            let bytes = <[u8; 4]>::try_from(value).map_err(|_| malformed())?;
            (i64::from(u32::from_be_bytes(bytes)) - DATE_EPOCH) * MS_PER_DAY
        }
        _ => i64::from_be_bytes(<[u8; 8]>::try_from(value).map_err(|_| malformed())?),
    };
    Ok(Some(match to {
        CqlType::Date => match date_of_ms(ms) {
            Some(date) => date.to_be_bytes().to_vec(),
            None => return invalid!("The timestamp {ms} is out of the range of dates"),
        },
        _ => ms.to_be_bytes().to_vec(),
    }))
}

fn date_of_ms(ms: i64) -> Option<u32> {
    u32::try_from(ms.div_euclid(MS_PER_DAY) + DATE_EPOCH).ok()
}

fn ms_of_timeuuid(uuid: u128) -> i64 {
    let high = (uuid >> 64) as u64;
    let ticks = (high & 0x0FFF) << 48 | (high >> 16 & 0xFFFF) << 32 | high >> 32;
    (ticks as i64 - UUID_EPOCH_TICKS).div_euclid(TICKS_PER_MS)
}

/// Builds a UUID of version 1. As in Cassandra, a time beyond the range of UUIDs keeps its lowest 60 bits.
fn timeuuid(ticks: i64, low: u64) -> [u8; 16] {
    let ticks = ticks.wrapping_add(UUID_EPOCH_TICKS) as u64;
    let high = ticks << 32 | (ticks >> 32 & 0xFFFF) << 16 | 0x1000 | (ticks >> 48 & 0x0FFF);
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// Returns a timeuuid with the clock in microseconds. The other bits are random, so that timeuuids are
/// unique.
fn now(env: &Env<'_>) -> Vec<u8> {
    let low = (env.random)() & !(0x3 << 62) | 0x2 << 62;
    // The multicast bit marks a random node id, which is not the address of a network card.
    let ticks = env.now_us.saturating_mul(10);
    timeuuid(ticks, low | 1 << 40).to_vec()
}

fn timeuuid_of(name: &str, extra_ticks: i64, low: u64) -> Signature {
    Signature::new(name, [CqlType::Timestamp], CqlType::TimeUuid, move |args| {
        let Ok(bytes) = <[u8; 8]>::try_from(args[0]) else { return Ok(None) };
        let ticks = i64::from_be_bytes(bytes).wrapping_mul(TICKS_PER_MS).wrapping_add(extra_ticks);
        Ok(Some(timeuuid(ticks, low).to_vec()))
    })
}
