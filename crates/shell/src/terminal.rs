//! Functions of the operating system: whether there is a terminal, Ctrl-C during a request, reading one key.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcsetattr};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From now on Ctrl-C does not end the program. Blocking calls return instead, and [`take_interrupted`]
/// reports the interrupt.
pub fn catch_interrupts() {
    // SAFETY: the zeroed structure is valid, and its fields are set afterwards. The handler only stores to an
    // atomic, which is allowed in a signal handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_interrupt as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
}

/// Whether Ctrl-C was pressed since the last call.
pub fn take_interrupted() -> bool {
    INTERRUPTED.swap(false, Ordering::Relaxed)
}

/// Width of the terminal in columns; 80 if there is no terminal.
pub fn width_columns() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col);
    if columns == 0 { 80 } else { usize::from(columns) }
}

/// Waits for one key, without Enter and without showing it. `None` for Ctrl-C, Ctrl-D and the end of the
/// input.
pub fn read_key() -> Option<u8> {
    let mut key = [0];
    let read = without(LocalModes::ICANON | LocalModes::ECHO, || io::stdin().read(&mut key));
    let interrupted = take_interrupted();
    match read {
        Ok(1) if !interrupted && key[0] != 4 => Some(key[0]),
        _ => None,
    }
}

/// Reads a line without showing it.
///
/// # Errors
/// The line cannot be read.
pub fn read_hidden_line() -> io::Result<String> {
    let mut line = String::new();
    without(LocalModes::ECHO, || io::stdin().read_line(&mut line))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_string())
}

/// Runs `work` with these local modes of the terminal switched off.
fn without<T>(modes: LocalModes, work: impl FnOnce() -> T) -> T {
    let before = rustix::termios::tcgetattr(io::stdin()).ok();
    // If the terminal refuses the settings, its modes stay.
    let set = |settings: &Termios| {
        let _refused = tcsetattr(io::stdin(), OptionalActions::Now, settings);
    };
    if let Some(mut settings) = before.clone() {
        settings.local_modes -= modes;
        set(&settings);
    }
    let done = work();
    before.iter().for_each(set);
    done
}
