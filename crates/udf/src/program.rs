//! A compiled function, and the Lua states that run it.
//!
//! A state runs one call at a time. Idle states are kept, at most one for each call that was ever in progress
//! at the same time; a state that a call has left with an error or with much memory is thrown away.
//!
//! Arguments are local variables of the body. Those whose names are not names in Lua can be reached through
//! `...` only.

use std::sync::{Arc, Mutex, PoisonError};

use catalog::{Program, UserFunction};
use mlua::chunk::ChunkMode;
use mlua::{Function, Value, Variadic};
use model::CqlType;

use crate::budget::{Budget, Limits};
use crate::from_lua::FromLua;
use crate::sandbox::Sandbox;
use crate::to_lua::to_lua;

/// Longest body in bytes. Compiling is not interrupted.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Memory for compiling a body.
const COMPILE_BYTES: usize = 32 << 20;
/// A state that has grown by this since its beginning is not kept.
const IDLE_GROWTH_BYTES: usize = 256 << 10;

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

pub struct LuaProgram {
    /// The name in error messages.
    name: String,
    source: String,
    argument_types: Vec<CqlType>,
    returns: CqlType,
    limits: Limits,
    idle: Mutex<Vec<State>>,
}

struct State {
    sandbox: Sandbox,
    function: Function,
    budget: Arc<Budget>,
    memory_bytes: usize,
}

impl LuaProgram {
    /// # Errors
    /// The body is not Lua.
    pub fn compile(function: &UserFunction, limits: &Limits) -> Result<Self, String> {
        if function.body.len() > BODY_BYTES_MAX {
            return Err(format!("the body has more than {BODY_BYTES_MAX} bytes"));
        }
        let program = Self {
            name: function.name.clone(),
            source: format!("{}{}", locals(&function.argument_names), function.body),
            argument_types: function.argument_types.clone(),
            returns: function.returns.clone(),
            limits: limits.clone(),
            idle: Mutex::new(vec![]),
        };
        let state = program.new_state()?;
        program.put_back(state);
        Ok(program)
    }

    fn new_state(&self) -> Result<State, String> {
        let start = || {
            let budget = Arc::new(Budget::new(&self.limits));
            let sandbox = Sandbox::new(&budget)?;
            sandbox.lua.set_memory_limit(sandbox.lua.used_memory() + COMPILE_BYTES)?;
            let chunk = sandbox.lua.load(&self.source).set_mode(ChunkMode::Text);
            let function = chunk.set_name(format!("={}", self.name)).into_function()?;
            let memory_bytes = sandbox.lua.used_memory();
            Ok(State { sandbox, function, budget, memory_bytes })
        };
        start().map_err(|error: mlua::Error| text_of(&error))
    }

    fn put_back(&self, state: State) {
        if state.sandbox.lua.used_memory() <= state.memory_bytes + IDLE_GROWTH_BYTES {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        }
    }

    fn run(&self, state: &State, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, String> {
        let lua = &state.sandbox.lua;
        state.budget.begin();
        let call = || {
            lua.set_memory_limit(lua.used_memory() + self.limits.memory_bytes)?;
            let types = self.argument_types.iter();
            let values = types.zip(arguments).map(|(ty, bytes)| to_lua(lua, ty, *bytes));
            let values = values.collect::<mlua::Result<Variadic<Value>>>()?;
            state.function.set_environment(state.sandbox.environment()?)?;
            state.function.call::<Value>(values)
        };
        let result = call().map_err(|error| text_of(&error))?;
        // A body that returns by catching the error of a limit has exceeded the limit none the less.
        state.budget.check().map_err(|error| text_of(&error))?;
        FromLua { lua, bytes_left: self.limits.memory_bytes }.serialized(&self.returns, &result)
    }
}

impl Program for LuaProgram {
    fn call(&self, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let state = match idle {
            Some(state) => state,
            None => self.new_state()?,
        };
        let result = self.run(&state, arguments);
        if result.is_ok() {
            self.put_back(state);
        }
        result
    }
}

/// The declaration of the arguments, on the line on which the body begins.
fn locals(names: &[String]) -> String {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !KEYWORDS.contains(&name)
    };
    let names: Vec<&str> = names.iter().map(|name| if is_name(name) { name.as_str() } else { "_" }).collect();
    if names.is_empty() { String::new() } else { format!("local {} = ...; ", names.join(", ")) }
}

/// The message of an error, without the stack of the calls.
fn text_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return text_of(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory for the function".to_string(),
        other => other.to_string(),
    };
    let text = text.split("\nstack traceback:").next().unwrap_or_default();
    text.strip_prefix("runtime error: ").unwrap_or(text).to_string()
}
