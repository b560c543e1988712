//! Any body in Lua is a function or is refused; any value goes in, and what comes out is a value of the
//! function's type or an error. No body runs for long.
//!
//! The name of the type ends at the first byte 0, the body at the second; the rest is the value. The
//! function takes and returns the type.

use catalog::{ScriptEngine, UserFunction};
use model::CqlType;
use udf::{Limits, LuaEngine};

pub fn examine(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut text = || std::str::from_utf8(parts.next().unwrap_or_default()).ok();
    let (Some(name), Some(body)) = (text(), text()) else { return };
    let value = parts.next();
    let Ok(ty) = CqlType::from_cql(name, &|_| None) else { return };
    let limits = Limits { instructions: 20_000, ..Limits::default() };
    let function = UserFunction::new("ks", "f", ty.clone(), "lua", body).argument("x", ty.clone());
    let Ok(program) = LuaEngine::new(limits).compile(&function) else { return };
    let value = value.filter(|value| ty.validate(value).is_ok());
    if let Ok(Some(result)) = program.call(&[value]) {
        ty.validate(&result).expect("a result is a value of the type");
    }
}
