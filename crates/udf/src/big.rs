//! Varints and decimals in Lua, which has only 64-bit numbers: a userdata with Lua's operators.
//!
//! With an integer or another of its kind, the result is exact; with a float it is a float, as is every
//! quotient of `/`. A number is limited to [`MAX_BYTES`], because Lua does not count its memory.

use std::cmp::Ordering;

use mlua::{Lua, MetaMethod, UserData, UserDataMethods, Value};
use num_bigint::BigInt;

/// Largest size of the unscaled value in bytes, some 2,400 digits.
pub const MAX_BYTES: u64 = 1024;
/// Largest difference of scales that is made up for.
const MAX_DIGITS: i64 = 2_400;

/// `unscaled × 10^-scale`. A varint has the scale 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Big {
    pub unscaled: BigInt,
    pub scale: i32,
    pub is_decimal: bool,
}

fn too_large<T>() -> mlua::Result<T> {
    Err(mlua::Error::runtime(format!("a number of more than {MAX_BYTES} bytes")))
}

impl Big {
    pub fn varint(value: impl Into<BigInt>) -> Self {
        Self { unscaled: value.into(), scale: 0, is_decimal: false }
    }

    /// # Errors
    /// The number is too large.
    pub fn checked(self) -> mlua::Result<Self> {
        if self.unscaled.bits() > MAX_BYTES * 8 { too_large() } else { Ok(self) }
    }

    /// The unscaled value at a scale that is not less than the number's.
    fn unscaled_at(&self, scale: i32) -> mlua::Result<BigInt> {
        let digits = i64::from(scale) - i64::from(self.scale);
        if self.unscaled == BigInt::from(0) {
            return Ok(BigInt::from(0));
        }
        match u32::try_from(digits) {
            Ok(digits) if i64::from(digits) <= MAX_DIGITS => Ok(&self.unscaled * power_of_ten(digits)),
            _ => too_large(),
        }
    }

    /// The number as an integer, if it is one.
    pub fn to_integer(&self) -> mlua::Result<Option<BigInt>> {
        if self.scale <= 0 {
            return self.unscaled_at(0).map(Some);
        }
        // A number with more trailing zeros than it may have digits is zero.
        if i64::from(self.scale) > MAX_DIGITS + i64::from(u32::MAX >> 20) {
            return Ok((self.unscaled == BigInt::from(0)).then(|| BigInt::from(0)));
        }
        let divisor = power_of_ten(self.scale.unsigned_abs());
        let quotient = &self.unscaled / &divisor;
        Ok((&quotient * divisor == self.unscaled).then_some(quotient))
    }

    pub fn to_f64(&self) -> f64 {
        format!("{}e{}", self.unscaled, -i64::from(self.scale)).parse().unwrap_or(f64::NAN)
    }

    /// The digits, as CQL writes the number.
    pub fn text(&self) -> String {
        if !self.is_decimal {
            return self.unscaled.to_string();
        }
        let value = model::types::CqlValue::Decimal { unscaled: self.unscaled.clone(), scale: self.scale };
        let bytes = value.encode(&model::CqlType::Decimal).unwrap_or_default();
        model::CqlType::Decimal.raw_text_of(&bytes)
    }

    fn compare(&self, other: &Self) -> mlua::Result<Ordering> {
        let scale = self.scale.max(other.scale);
        Ok(self.unscaled_at(scale)?.cmp(&other.unscaled_at(scale)?))
    }
}

fn power_of_ten(digits: u32) -> BigInt {
    BigInt::from(10).pow(digits)
}

/// An operand: exact, or a float.
enum Operand {
    Exact(Big),
    Float(f64),
}

impl Operand {
    fn of(lua: &Lua, value: &Value) -> mlua::Result<Self> {
        match value {
            Value::Integer(value) => Ok(Self::Exact(Big::varint(*value))),
            Value::Number(value) => Ok(Self::Float(*value)),
            Value::UserData(data) if data.is::<Big>() => Ok(Self::Exact(data.borrow::<Big>()?.clone())),
            // As Lua does, text counts as the number that it shows.
            Value::String(_) => match lua.coerce_number(value.clone())? {
                Some(number) => Ok(Self::Float(number)),
                None => Err(mlua::Error::runtime("attempt to perform arithmetic on a string value")),
            },
            other => Err(mlua::Error::runtime(format!(
                "attempt to perform arithmetic on a {} value",
                other.type_name()
            ))),
        }
    }

    fn to_f64(&self) -> f64 {
        match self {
            Self::Exact(big) => big.to_f64(),
            Self::Float(value) => *value,
        }
    }
}

#[derive(Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
}

fn calculate(lua: &Lua, operator: Operator, a: &Value, b: &Value) -> mlua::Result<Value> {
    let (a, b) = (Operand::of(lua, a)?, Operand::of(lua, b)?);
    let (Operand::Exact(x), Operand::Exact(y)) = (&a, &b) else {
        return Ok(Value::Number(in_floats(operator, a.to_f64(), b.to_f64())));
    };
    let is_decimal = x.is_decimal || y.is_decimal;
    let (unscaled, scale) = match operator {
        Operator::Multiply => match x.scale.checked_add(y.scale) {
            Some(scale) => (&x.unscaled * &y.unscaled, scale),
            None => return too_large(),
        },
        Operator::Divide => return Ok(Value::Number(x.to_f64() / y.to_f64())),
        other => {
            let scale = x.scale.max(y.scale);
            let (x, y) = (x.unscaled_at(scale)?, y.unscaled_at(scale)?);
            match other {
                Operator::Add => (x + y, scale),
                Operator::Subtract => (x - y, scale),
                _ if y == BigInt::from(0) => return Err(mlua::Error::runtime("attempt to divide by zero")),
                Operator::FloorDivide => (floor_divide(&x, &y), 0),
                _ => (&x - floor_divide(&x, &y) * &y, scale),
            }
        }
    };
    let result = Big { unscaled, scale, is_decimal }.checked()?;
    Ok(Value::UserData(lua.create_userdata(result)?))
}

fn in_floats(operator: Operator, a: f64, b: f64) -> f64 {
    match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => (a / b).floor(),
        Operator::Modulo => a - (a / b).floor() * b,
    }
}

/// Rounds towards minus infinity, as Lua's `//`.
fn floor_divide(a: &BigInt, b: &BigInt) -> BigInt {
    let zero = BigInt::from(0);
    let (quotient, rest) = (a / b, a % b);
    if rest != zero && (rest < zero) != (*b < zero) { quotient - 1 } else { quotient }
}

fn order(lua: &Lua, a: &Value, b: &Value) -> mlua::Result<Option<Ordering>> {
    match (Operand::of(lua, a)?, Operand::of(lua, b)?) {
        (Operand::Exact(a), Operand::Exact(b)) => a.compare(&b).map(Some),
        (a, b) => Ok(a.to_f64().partial_cmp(&b.to_f64())),
    }
}

impl UserData for Big {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        for (name, operator) in [
            (MetaMethod::Add, Operator::Add),
            (MetaMethod::Sub, Operator::Subtract),
            (MetaMethod::Mul, Operator::Multiply),
            (MetaMethod::Div, Operator::Divide),
            (MetaMethod::IDiv, Operator::FloorDivide),
            (MetaMethod::Mod, Operator::Modulo),
        ] {
            methods.add_meta_function(name.name(), move |lua, (a, b): (Value, Value)| {
                calculate(lua, operator, &a, &b)
            });
        }
        methods.add_meta_method(MetaMethod::Unm.name(), |_, big, _: Value| {
            Ok(Self { unscaled: -&big.unscaled, ..big.clone() })
        });
        methods.add_meta_function(MetaMethod::Eq.name(), |lua, (a, b): (Value, Value)| {
            Ok(order(lua, &a, &b)? == Some(Ordering::Equal))
        });
        methods.add_meta_function(MetaMethod::Lt.name(), |lua, (a, b): (Value, Value)| {
            Ok(order(lua, &a, &b)? == Some(Ordering::Less))
        });
        methods.add_meta_function(MetaMethod::Le.name(), |lua, (a, b): (Value, Value)| {
            Ok(matches!(order(lua, &a, &b)?, Some(Ordering::Less | Ordering::Equal)))
        });
        methods.add_meta_method(MetaMethod::ToString.name(), |_, big, ()| Ok(big.text()));
        methods.add_meta_function(MetaMethod::Concat.name(), |lua, (a, b): (Value, Value)| {
            let text = |value: &Value| match value {
                Value::UserData(data) if data.is::<Self>() => Ok(data.borrow::<Self>()?.text().into_bytes()),
                other => match lua.coerce_string(other.clone())? {
                    Some(text) => Ok(text.as_bytes().to_vec()),
                    None => Err(mlua::Error::runtime(format!(
                        "attempt to concatenate a {} value",
                        other.type_name()
                    ))),
                },
            };
            lua.create_string([text(&a)?, text(&b)?].concat())
        });
    }
}
