//! Functions of the operating system: whether there is a terminal, Ctrl-C during a request, reading one key.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

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
    // SAFETY: the structure contains only numbers, and the call fills it or fails.
    let columns = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        match libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) {
            0 => size.ws_col,
            _ => 0,
        }
    };
    if columns == 0 { 80 } else { usize::from(columns) }
}

/// Waits for one key, without Enter and without showing it. `None` for Ctrl-C, Ctrl-D and the end of the
/// input.
pub fn read_key() -> Option<u8> {
    let mut key = [0];
    let read = without(libc::ICANON | libc::ECHO, || io::stdin().read(&mut key));
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
    without(libc::ECHO, || io::stdin().read_line(&mut line))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_string())
}

/// Runs `work` with these local modes of the terminal switched off.
fn without<T>(modes: libc::tcflag_t, work: impl FnOnce() -> T) -> T {
    // SAFETY: the structure contains only numbers, and the call fills it or fails.
    let before = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(libc::STDIN_FILENO, &mut settings) == 0).then_some(settings)
    };
    let set = |settings: &libc::termios| {
        // SAFETY: these are settings returned by the system, possibly with some modes off.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) };
    };
    if let Some(settings) = &before {
        set(&libc::termios { c_lflag: settings.c_lflag & !modes, ..*settings });
    }
    let done = work();
    before.iter().for_each(set);
    done
}
