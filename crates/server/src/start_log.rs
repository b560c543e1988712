//! Logs the progress of a long start every few seconds, and notifies the service manager of it.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use engine::progress::{StartProgress, StartStage};
use log::info;

use crate::service_manager::ServiceManager;

const EVERY: Duration = Duration::from_secs(5);

/// Runs `open` on this thread while another thread logs its progress.
pub fn while_opening<T>(
    progress: Arc<StartProgress>,
    manager: &ServiceManager,
    open: impl FnOnce() -> T,
) -> T {
    let (ended, wait) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while wait.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let line = line(progress.stage(), progress.replayed());
                manager.starting(&line);
                info!(target: "engine", "{line}");
            }
        });
        let opened = open();
        drop(ended);
        opened
    })
}

fn line(stage: StartStage, (done_bytes, total_bytes): (u64, u64)) -> String {
    match stage {
        StartStage::OpeningTables => "opening tables and their SSTables".to_string(),
        StartStage::ReplayingLog => {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            format!("replaying the commit log: {:.0} of {:.0} MB", mb(done_bytes), mb(total_bytes))
        }
        StartStage::FlushingReplayed => "flushing the replayed writes".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_reports_its_progress() {
        assert_eq!(
            line(StartStage::ReplayingLog, (120_400_000, 960_000_000)),
            "replaying the commit log: 120 of 960 MB"
        );
    }
}
