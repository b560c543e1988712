//! The functions that the Java class `io.messina.NativeLibrary` declares.
//!
//! A panic or an error becomes a `RuntimeException`, whose text Java logs. A strategy is behind a [`Mutex`];
//! after a panic in it the mutex is poisoned, every later call fails, and Java makes a new strategy.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jni::EnvUnowned;
use jni::errors::ThrowRuntimeExAndDefault;
use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jboolean, jint, jlong};

use crate::CALLS_VERSION;
use crate::decisions::{DecisionError, Decisions};
use crate::merge::request::MergeRequest;
use crate::merge::running;
use crate::option_check;

/// Why a call failed.
#[derive(Debug)]
enum CallError {
    Jni(jni::errors::Error),
    Text(String),
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Jni(error) => error.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CallError {}

impl From<jni::errors::Error> for CallError {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jni(error)
    }
}

impl From<DecisionError> for CallError {
    fn from(error: DecisionError) -> Self {
        Self::Text(error.to_string())
    }
}

/// A strategy, used by one thread at a time.
struct Guarded(Decisions);

// SAFETY: `Decisions` is not `Send` because of the `Rc`s of key sketches. All clones of these `Rc`s are in
// the same `Decisions`: a view that is made of them is dropped before the call returns, and no call returns
// one. The mutex around `Guarded` admits one thread at a time and orders their accesses.
unsafe impl Send for Guarded {}

/// The strategies by the handle that Java has.
#[derive(Default)]
struct Strategies {
    by_handle: BTreeMap<i64, Arc<Mutex<Guarded>>>,
    last: i64,
}

static STRATEGIES: LazyLock<Mutex<Strategies>> = LazyLock::new(Mutex::default);

fn strategy(handle: i64) -> Result<Arc<Mutex<Guarded>>, CallError> {
    let strategies = STRATEGIES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = strategies.by_handle.get(&handle).cloned();
    found.ok_or_else(|| CallError::Text(format!("there is no strategy {handle}")))
}

fn with<T>(
    handle: i64,
    call: impl FnOnce(&mut Decisions) -> Result<T, DecisionError>,
) -> Result<T, CallError> {
    let strategy = strategy(handle)?;
    let Ok(mut guarded) = strategy.lock() else {
        return Err(CallError::Text("an earlier decision of the strategy panicked".to_string()));
    };
    Ok(call(&mut guarded.0)?)
}

/// [`CALLS_VERSION`].
// SAFETY: the name is that of a Java method, which no other symbol has.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_callsVersion(_: EnvUnowned<'_>, _: JClass<'_>) -> jint {
    CALLS_VERSION
}

/// The version of Messina.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_version<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
) -> JString<'a> {
    let answer =
        env.with_env(|env| -> Result<_, CallError> { Ok(env.new_string(env!("CARGO_PKG_VERSION"))?) });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// The error of the options; null if they are good.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_checkOptions<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    options: JByteArray<'a>,
) -> JString<'a> {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let bytes = env.convert_byte_array(&options)?;
        let options =
            option_check::read_options(&bytes).map_err(|error| CallError::Text(error.to_string()))?;
        match option_check::check(&options) {
            Ok(()) => Ok(JString::default()),
            Err(error) => Ok(env.new_string(error.to_string())?),
        }
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// A handle of a new strategy.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_open<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    options: JByteArray<'a>,
) -> jlong {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let bytes = env.convert_byte_array(&options)?;
        let options =
            option_check::read_options(&bytes).map_err(|error| CallError::Text(error.to_string()))?;
        let decisions = Decisions::new(&options).map_err(|error| CallError::Text(error.to_string()))?;
        let mut strategies = STRATEGIES.lock().unwrap_or_else(PoisonError::into_inner);
        strategies.last += 1;
        let handle = strategies.last;
        strategies.by_handle.insert(handle, Arc::new(Mutex::new(Guarded(decisions))));
        Ok(handle)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// Forgets a strategy. An unknown handle is ignored.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_close<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
) {
    let answer = env.with_env(|_| -> Result<_, CallError> {
        let removed = STRATEGIES.lock().unwrap_or_else(PoisonError::into_inner).by_handle.remove(&handle);
        drop(removed);
        Ok(())
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`Decisions::next`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_next<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
    view: JByteArray<'a>,
) -> JByteArray<'a> {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let view = env.convert_byte_array(&view)?;
        let plan = with(handle, |decisions| decisions.next(&view))?;
        Ok(env.byte_array_from_slice(&plan)?)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`Decisions::major`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_major<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
    view: JByteArray<'a>,
    split: jboolean,
) -> JByteArray<'a> {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let view = env.convert_byte_array(&view)?;
        let plans = with(handle, |decisions| decisions.major(&view, split))?;
        Ok(env.byte_array_from_slice(&plans)?)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`Decisions::explain`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_explain<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
    view: JByteArray<'a>,
) -> JString<'a> {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let view = env.convert_byte_array(&view)?;
        Ok(env.new_string(with(handle, |decisions| decisions.explain(&view))?)?)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`Decisions::finished`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_finished<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
    report: JByteArray<'a>,
) {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let report = env.convert_byte_array(&report)?;
        with(handle, |decisions| decisions.finished(&report))
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`Decisions::sstable_bytes`]; -1: any size.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_sstableBytes<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
) -> jlong {
    let answer = env.with_env(|_| -> Result<_, CallError> {
        let bytes = with(handle, |decisions| Ok(decisions.sstable_bytes()))?;
        Ok(bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)))
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// Starts a merge; see [`running::start`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_mergeStart<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    request: JByteArray<'a>,
) -> jlong {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let bytes = env.convert_byte_array(&request)?;
        let request = MergeRequest::read(&bytes).map_err(|error| CallError::Text(error.to_string()))?;
        running::start(request).map_err(CallError::Text)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`running::progress`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_mergeProgress<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
    allowed_bytes: jlong,
) -> jlong {
    let answer = env.with_env(|_| -> Result<_, CallError> {
        let allowed_bytes = u64::try_from(allowed_bytes).unwrap_or(0);
        running::progress(handle, allowed_bytes).map_err(CallError::Text)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`running::stop`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_mergeStop<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
) {
    let answer = env.with_env(|_| -> Result<_, CallError> {
        running::stop(handle);
        Ok(())
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}

/// See [`running::finish`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_messina_NativeLibrary_mergeFinish<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    handle: jlong,
) -> JByteArray<'a> {
    let answer = env.with_env(|env| -> Result<_, CallError> {
        let merged = running::finish(handle).map_err(CallError::Text)?;
        Ok(env.byte_array_from_slice(&merged)?)
    });
    answer.resolve::<ThrowRuntimeExAndDefault>()
}
