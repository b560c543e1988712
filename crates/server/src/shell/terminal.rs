//! What needs the operating system: whether someone sits there, Ctrl-C while an answer is awaited, one key.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From here on Ctrl-C does not end the program: calls that wait return, and [`take_interrupted`] tells.
pub fn catch_interrupts() {
    // SAFETY: the structure is zeroed, which is a valid one, before its fields are set; the handler only stores to
    // an atomic, which a signal handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_interrupt as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
}

/// Whether Ctrl-C was pressed since this was asked last.
pub fn take_interrupted() -> bool {
    INTERRUPTED.swap(false, Ordering::Relaxed)
}

/// Columns of the terminal; 80 if there is none.
pub fn width_columns() -> usize {
    // SAFETY: the structure is plain numbers, and the call fills it or fails.
    let columns = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        match libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) {
            0 => size.ws_col,
            _ => 0,
        }
    };
    if columns == 0 { 80 } else { usize::from(columns) }
}

/// Waits for one key, without Enter and without showing it. `None` for Ctrl-C, Ctrl-D and the end.
pub fn read_key() -> Option<u8> {
    let mut key = [0];
    let read = without(libc::ICANON | libc::ECHO, || io::stdin().read(&mut key));
    let interrupted = take_interrupted();
    match read {
        Ok(1) if !interrupted && key[0] != 4 => Some(key[0]),
        _ => None,
    }
}

/// Reads a line that is not shown.
///
/// # Errors
/// It cannot be read.
pub fn read_hidden_line() -> io::Result<String> {
    let mut line = String::new();
    without(libc::ECHO, || io::stdin().read_line(&mut line))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_string())
}

/// Does something while the terminal has these local modes switched off.
fn without<T>(modes: libc::tcflag_t, work: impl FnOnce() -> T) -> T {
    // SAFETY: the structure is plain numbers; the call fills it, or fails.
    let before = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(libc::STDIN_FILENO, &mut settings) == 0).then_some(settings)
    };
    let set = |settings: &libc::termios| {
        // SAFETY: settings that the system has given, perhaps with some modes off.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) };
    };
    if let Some(settings) = &before {
        set(&libc::termios { c_lflag: settings.c_lflag & !modes, ..*settings });
    }
    let done = work();
    before.iter().for_each(set);
    done
}
