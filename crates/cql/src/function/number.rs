//! Numbers of all types and their conversions, which follow Java's narrowing and widening.

use model::CqlType;
use model::types::CqlValue;
use num_bigint::BigInt;
use protocol::CqlError;

use crate::error::invalid;

/// Largest number of digits by which a decimal is scaled up. Without the limit, a value of a few bytes could
/// take gigabytes.
pub const DIGITS_MAX: i64 = 10_000;

/// A number of any numeric type.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    Big(BigInt),
    /// `unscaled × 10^-scale`
    Decimal(Decimal),
    Float(f32),
    Double(f64),
}

/// The number `unscaled × 10^-scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal {
    pub unscaled: BigInt,
    pub scale: i32,
}

pub static NUMERIC: [CqlType; 9] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Varint,
    CqlType::Decimal,
    CqlType::Float,
    CqlType::Double,
    CqlType::Counter,
];

pub fn is_numeric(ty: &CqlType) -> bool {
    NUMERIC.contains(ty.without_reversed())
}

impl Number {
    /// Reads a serialized number; `None` for the empty value, which is not a number.
    pub fn read(ty: &CqlType, bytes: &[u8]) -> Result<Option<Self>, CqlError> {
        let ty = match ty.without_reversed() {
            CqlType::Counter => &CqlType::BigInt,
            other => other,
        };
        Ok(Some(match CqlValue::decode(ty, bytes)? {
            CqlValue::TinyInt(value) => Self::Int(value.into()),
            CqlValue::SmallInt(value) => Self::Int(value.into()),
            CqlValue::Int(value) => Self::Int(value.into()),
            CqlValue::BigInt(value) => Self::Int(value),
            CqlValue::Varint(value) => Self::Big(value),
            CqlValue::Decimal { unscaled, scale } => Self::Decimal(Decimal { unscaled, scale }),
            CqlValue::Float(value) => Self::Float(value),
            CqlValue::Double(value) => Self::Double(value),
            CqlValue::Empty => return Ok(None),
            _ => return invalid!("{} is not a numeric type", ty.to_cql()),
        }))
    }

    /// Serializes the number as a value of `ty`. Integers keep their lowest bits.
    pub fn write(&self, ty: &CqlType) -> Result<Vec<u8>, CqlError> {
        let value = match ty.without_reversed() {
            CqlType::TinyInt => CqlValue::TinyInt(self.to_i64_by_i32()? as i8),
            CqlType::SmallInt => CqlValue::SmallInt(self.to_i64_by_i32()? as i16),
            CqlType::Int => CqlValue::Int(self.to_i64_by_i32()? as i32),
            CqlType::BigInt | CqlType::Counter => CqlValue::BigInt(self.to_i64()?),
            CqlType::Varint => CqlValue::Varint(self.to_big()?),
            CqlType::Decimal => {
                let Decimal { unscaled, scale } = self.to_decimal()?;
                CqlValue::Decimal { unscaled, scale }
            }
            CqlType::Float => CqlValue::Float(match self {
                Self::Float(value) => *value,
                Self::Decimal(decimal) => decimal.text().parse().unwrap_or(f32::NAN),
                Self::Int(value) => *value as f32,
                other => other.to_f64() as f32,
            }),
            CqlType::Double => CqlValue::Double(self.to_f64()),
            other => return invalid!("{} is not a numeric type", other.to_cql()),
        };
        let ty = if ty.is_counter() { &CqlType::BigInt } else { ty };
        Ok(value.encode(ty)?)
    }

    /// Converts to the nearest double.
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Big(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Self::Decimal(decimal) => decimal.text().parse().unwrap_or(f64::NAN),
            Self::Float(value) => f64::from(*value),
            Self::Double(value) => *value,
        }
    }

    /// Converts to an integer. Floating-point numbers are first clamped to the range of 32 bits.
    fn to_i64_by_i32(&self) -> Result<i64, CqlError> {
        Ok(match self {
            Self::Float(value) => i64::from(*value as i32),
            Self::Double(value) => i64::from(*value as i32),
            other => other.to_i64()?,
        })
    }

    /// Converts to an integer. Varints and decimals keep their lowest 64 bits; floating-point numbers are
    /// clamped.
    pub fn to_i64(&self) -> Result<i64, CqlError> {
        Ok(match self {
            Self::Int(value) => *value,
            Self::Float(value) => *value as i64,
            Self::Double(value) => *value as i64,
            Self::Big(_) | Self::Decimal(_) => lowest_bits(&self.to_big()?),
        })
    }

    /// Converts to an integer of unlimited size. Digits after the decimal point are cut off. As in Cassandra,
    /// floating-point numbers are clamped to the range of 64 bits.
    pub fn to_big(&self) -> Result<BigInt, CqlError> {
        Ok(match self {
            Self::Int(value) => BigInt::from(*value),
            Self::Big(value) => value.clone(),
            Self::Decimal(decimal) => decimal.truncated()?,
            Self::Float(_) | Self::Double(_) => BigInt::from(self.to_i64()?),
        })
    }

    /// Converts an operand of decimal arithmetic. As in Cassandra, integers and floats become doubles first,
    /// so that `1` is `1.0`; integers that no double represents are converted exactly.
    pub fn to_decimal_operand(&self) -> Result<Decimal, CqlError> {
        const EXACT_MAX: u64 = 1 << 53;
        match self {
            Self::Int(value) if value.unsigned_abs() <= EXACT_MAX => Self::Double(*value as f64).to_decimal(),
            Self::Float(value) => Self::Double(f64::from(*value)).to_decimal(),
            other => other.to_decimal(),
        }
    }

    /// Converts to a decimal: floating-point numbers by their shortest text, as in Java.
    pub fn to_decimal(&self) -> Result<Decimal, CqlError> {
        let text = match self {
            Self::Int(value) => return Ok(Decimal { unscaled: BigInt::from(*value), scale: 0 }),
            Self::Big(value) => return Ok(Decimal { unscaled: value.clone(), scale: 0 }),
            Self::Decimal(decimal) => return Ok(decimal.clone()),
            Self::Float(value) if value.is_finite() => CqlType::Float.text_of(&value.to_be_bytes()),
            Self::Double(value) if value.is_finite() => CqlType::Double.text_of(&value.to_be_bytes()),
            other if other.to_f64().is_nan() => return invalid!("A NaN cannot be converted into a decimal"),
            _ => return invalid!("An infinite number cannot be converted into a decimal"),
        };
        let bytes = CqlType::Decimal.bytes_of(&text)?;
        match CqlValue::decode(&CqlType::Decimal, &bytes)? {
            CqlValue::Decimal { unscaled, scale } => Ok(Decimal { unscaled, scale }),
            _ => invalid!("{text} cannot be a decimal"),
        }
    }
}

fn lowest_bits(value: &BigInt) -> i64 {
    let bytes = value.to_signed_bytes_le();
    let fill = if value < &BigInt::from(0) { 0xFF } else { 0 };
    let mut low = [fill; 8];
    let len = bytes.len().min(8);
    low[..len].copy_from_slice(&bytes[..len]);
    i64::from_le_bytes(low)
}

/// Returns 10 to the power of `digits`.
///
/// # Errors
/// `digits` is larger than [`DIGITS_MAX`].
pub fn power_of_ten(digits: i64) -> Result<BigInt, CqlError> {
    if digits > DIGITS_MAX {
        return invalid!("A decimal of {digits} digits is too long to calculate with (at most {DIGITS_MAX})");
    }
    Ok(BigInt::from(10).pow(u32::try_from(digits).unwrap_or(0)))
}

impl Decimal {
    fn text(&self) -> String {
        format!("{}e{}", self.unscaled, -i64::from(self.scale))
    }

    /// Number of digits before the decimal point; negative for zeros after it.
    pub fn integer_digits(&self) -> i64 {
        self.unscaled.magnitude().to_string().len() as i64 - i64::from(self.scale)
    }

    /// Returns the same number without trailing zeros. The scale may become negative.
    pub fn without_trailing_zeros(mut self) -> Self {
        let (zero, ten) = (BigInt::from(0), BigInt::from(10));
        if self.unscaled == zero {
            self.scale = 0;
            return self;
        }
        while self.scale > i32::MIN && &self.unscaled % &ten == zero {
            self.unscaled /= &ten;
            self.scale -= 1;
        }
        self
    }

    /// Truncates to an integer.
    fn truncated(&self) -> Result<BigInt, CqlError> {
        if self.scale <= 0 {
            return Ok(&self.unscaled * power_of_ten(-i64::from(self.scale))?);
        }
        // All digits are after the decimal point.
        if i64::from(self.scale) > self.unscaled.bits() as i64 {
            return Ok(BigInt::from(0));
        }
        Ok(&self.unscaled / power_of_ten(i64::from(self.scale))?)
    }

    /// Returns the unscaled value at a larger scale.
    pub fn unscaled_at(&self, scale: i32) -> Result<BigInt, CqlError> {
        Ok(&self.unscaled * power_of_ten(i64::from(scale) - i64::from(self.scale))?)
    }
}
