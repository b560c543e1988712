//! A Lua state without access to anything, whose instructions are counted.
//!
//! The libraries of `prelude.lua` are all that a body finds. Each call has globals of its own, which fall
//! back on the shared ones; nothing that a call can change outlives it.

use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState};

use crate::budget::{Budget, STEP};
use crate::pattern::{self, Capture, How};

/// A state, and what its calls share.
pub struct Sandbox {
    pub lua: Lua,
    /// The metatable of each call's globals.
    globals: Table,
}

impl Sandbox {
    pub fn new(budget: &Arc<Budget>) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::UTF8;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let hook = budget.clone();
        let every = HookTriggers::new().every_nth_instruction(STEP);
        lua.set_hook(every, move |_, _| hook.spend(u64::from(STEP)).map(|()| VmState::Continue))?;
        let checked = budget.clone();
        let check = lua.create_function(move |_, ()| checked.check())?;
        let scanned = budget.clone();
        let scan = lua.create_function(move |lua, arguments| scan(lua, &scanned, arguments))?;
        let expanded = budget.clone();
        let expand = lua.create_function(move |lua, arguments| expand(lua, &expanded, arguments))?;
        let shared: Table = lua
            .load(include_str!("prelude.lua"))
            .set_name("=prelude")
            .set_mode(ChunkMode::Text)
            .call((scan, expand, check))?;
        let globals = lua.create_table()?;
        globals.raw_set("__index", shared)?;
        globals.raw_set("__metatable", false)?;
        Ok(Self { lua, globals })
    }

    /// The globals of one call.
    pub fn environment(&self) -> mlua::Result<Table> {
        let environment = self.lua.create_table()?;
        environment.set_metatable(Some(self.globals.clone()))?;
        Ok(environment)
    }
}

/// `scan(subject, pattern, from, last, how)`: the next match that does not end at `last`. Returns its first
/// position, the position after it, and its captures. Positions begin at 1.
fn scan(
    lua: &Lua,
    budget: &Budget,
    (subject, pattern, from, last, how): (LuaString, LuaString, usize, usize, LuaString),
) -> mlua::Result<Variadic<Value>> {
    let how = match &*how.as_bytes() {
        b"plain" => How::PLAIN,
        b"captures" => How::CAPTURES,
        b"anchored" => How::CAPTURES.anchored(),
        b"anchored whole" => How::WHOLE.anchored(),
        _ => How::WHOLE,
    };
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let found = pattern::find(&subject, &pattern, from.saturating_sub(1), last.checked_sub(1), how, budget)?;
    let Some(found) = found else { return Ok(Variadic::new()) };
    let position = |at: usize| Value::Integer(at as i64 + 1);
    let mut out = vec![position(found.start), position(found.end)];
    for capture in found.captures {
        out.push(match capture {
            Capture::Position(at) => position(at),
            Capture::Text(range) => Value::String(lua.create_string(&subject[range])?),
        });
    }
    Ok(Variadic::from_iter(out))
}

/// `expand(replacement, whole, captures…)`: the replacement of gsub, with `%0` to `%9` replaced.
fn expand(lua: &Lua, budget: &Budget, arguments: Variadic<Value>) -> mlua::Result<LuaString> {
    let mut texts = vec![];
    for argument in arguments {
        match lua.coerce_string(argument)? {
            Some(text) => texts.push(text),
            None => return Err(mlua::Error::runtime("invalid capture")),
        }
    }
    let [replacement, rest @ ..] = &texts[..] else {
        return Err(mlua::Error::runtime("invalid replacement"));
    };
    let rest: Vec<_> = rest.iter().map(LuaString::as_bytes).collect();
    let rest: Vec<&[u8]> = rest.iter().map(|text| &**text).collect();
    lua.create_string(pattern::expand(&replacement.as_bytes(), &rest, budget)?)
}
