//! `NullCompactionStrategy`, and every strategy with `enabled: false`: no job is started automatically.
//!
//! Jobs requested by a user are planned by the disabled strategy, and flushes have its layout.

use crate::considered::{candidate, explanation};
use crate::explain::{Attempt, Explanation, Verdict};
use crate::plan::{Finished, Layout, Plan};
use crate::reshape::Reshape;
use crate::size_tiered::SizeTiered;
use crate::strategy::Strategy;
use crate::view::{SSTableView, TableView};

/// A strategy that plans nothing: compaction is disabled, or the options are invalid.
pub struct Null {
    disabled: Option<Box<dyn Strategy>>,
}

impl Null {
    /// `NullCompactionStrategy` itself.
    pub fn new() -> Self {
        Self { disabled: None }
    }

    /// Another strategy with `enabled: false`.
    pub fn disabled(strategy: Box<dyn Strategy>) -> Self {
        Self { disabled: Some(strategy) }
    }
}

impl Default for Null {
    fn default() -> Self {
        Self::new()
    }
}

impl Strategy for Null {
    /// The name of the configured strategy.
    fn name(&self) -> &'static str {
        self.disabled.as_ref().map_or("NullCompactionStrategy", |strategy| strategy.name())
    }

    fn next(&mut self, _view: &TableView<'_>) -> Option<Plan> {
        None
    }

    fn finished(&mut self, finished: &Finished<'_>) {
        if let Some(strategy) = &mut self.disabled {
            strategy.finished(finished);
        }
    }

    fn major(&mut self, view: &TableView<'_>, split: bool) -> Vec<Plan> {
        match &mut self.disabled {
            Some(strategy) => strategy.major(view, split),
            None => SizeTiered::default().major(view, split),
        }
    }

    fn reshape(&self, view: &TableView<'_>, mode: Reshape) -> Option<Plan> {
        self.disabled.as_ref().and_then(|strategy| strategy.reshape(view, mode))
    }

    fn layout(&self, level: u32) -> Layout {
        self.disabled.as_ref().map_or_else(Layout::whole, |strategy| strategy.layout(level))
    }

    fn runs_in_parallel(&self) -> bool {
        self.disabled.as_ref().is_none_or(|strategy| strategy.runs_in_parallel())
    }

    fn level_limits(&self) -> Vec<u64> {
        self.disabled.as_ref().map_or(vec![], |strategy| strategy.level_limits())
    }

    fn explain(&self, view: &TableView<'_>) -> Explanation {
        let why = match self.disabled {
            Some(_) => "the option enabled of the strategy is false",
            None => "this strategy merges nothing by itself",
        };
        let free: Vec<&SSTableView> = view.free().collect();
        let candidates = vec![candidate(&free, Verdict::Off(why))];
        let attempts = vec![Attempt { rule: "all SSTables".into(), candidates }];
        explanation(self.name(), view, attempts, None)
    }

    fn pending(&self, _view: &TableView<'_>) -> u64 {
        0
    }

    fn backlog_bytes(&self, _view: &TableView<'_>) -> f64 {
        0.0
    }
}
