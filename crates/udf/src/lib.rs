//! User-defined functions in Lua: bodies that clients wrote, run so that they cannot harm the node.
//!
//! | question | file |
//! |---|---|
//! | compiled functions, and the Lua states that run them | `program.rs` |
//! | what a body finds in its environment, and what it does not | `sandbox.rs`, `prelude.lua` |
//! | how long a call may take | `budget.rs` |
//! | string patterns, matched within the budget | `pattern.rs` |
//! | values of CQL as values of Lua, and back | `to_lua.rs`, `from_lua.rs` |
//! | varints and decimals in Lua | `big.rs` |
//!
//! The crate implements [`catalog::ScriptEngine`]. No other crate knows Lua. It has no clock and no thread of
//! its own: the clock of a time limit is an argument.
//!
//! **Guarantees:** a call ends soon after its limits of instructions and time; it allocates no more than its
//! limit of memory; it sees neither files nor the environment nor earlier calls; whatever it does, the caller
//! gets a value of the function's type or an error. Limits: the C parts of Lua are not interrupted, so every
//! function of the standard library that can run for long on small input is replaced (`prelude.lua`).

mod big;
mod budget;
mod from_lua;
mod pattern;
mod program;
mod sandbox;
#[cfg(test)]
mod tests;
mod to_lua;

use std::sync::Arc;

pub use budget::{Clock, Limits};
use catalog::{Program, ScriptEngine, UserFunction};

/// Runs functions in Lua 5.4.
pub struct LuaEngine {
    limits: Limits,
}

impl LuaEngine {
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

impl ScriptEngine for LuaEngine {
    fn compile(&self, function: &UserFunction) -> Result<Arc<dyn Program>, String> {
        if function.language != "lua" {
            return Err(format!(
                "language '{}' is not supported; write the function in Lua",
                function.language
            ));
        }
        Ok(Arc::new(program::LuaProgram::compile(function, &self.limits)?))
    }
}
