//! Reading for GROUP BY: rows are added to groups, and pages and limits count groups.
//!
//! A group ends where the next one starts, so one row after the group must be read. A page ends between two
//! groups and never within a group, so the paging state contains no state of a group.

use model::PartitionKey;
use protocol::CqlError;
use reader::{Page, PagePlace};

use super::execute::{READ_ROWS, Reading, Taken, key_values};
use super::paging::ResultPlace;
use super::rows::RowsBuilder;
use super::value::RowView;
use crate::coordinator::{Host, Storage};
use crate::term::Env;

impl Reading<'_, '_> {
    /// Reads until the client's page has its groups or nothing is left. Returns the place at which the next
    /// page starts.
    pub(super) async fn fill_groups<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        rows: &mut RowsBuilder<'_>,
        page_rows: Option<u64>,
        size_logged: &mut bool,
    ) -> Result<Option<ResultPlace>, CqlError> {
        let wanted = page_rows.map_or(u64::MAX, |rows| rows.max(1));
        while let Some(command) = self.command(READ_ROWS) {
            let page = coordinator.read(command).await?;
            self.read_id = page.next.as_ref().map_or(0, |next| next.read_id);
            let taken = self.take_groups(coordinator, &page, rows, wanted).await?;
            self.check_memory(coordinator, &mut rows.rows, 0, size_logged)?;
            match taken {
                Taken::Full(state) => return Ok(Some(state)),
                Taken::Done => break,
                Taken::All => {}
            }
            if !self.advance(page.next) {
                break;
            }
        }
        Ok(None)
    }

    async fn take_groups<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        page: &Page,
        rows: &mut RowsBuilder<'_>,
        wanted: u64,
    ) -> Result<Taken, CqlError> {
        let schema = self.plan.schema.clone();
        for (number, partition) in page.partitions.iter().enumerate() {
            let key_values = key_values(&schema, &partition.key)?;
            let view = RowView { partition_key: &key_values, static_row: &partition.static_row, row: None };
            self.given.enter(&partition.key);
            let alone = partition.rows.is_empty() && self.plan.restrictions.wants_static_only_partitions();
            let rows_of = partition.rows.iter().enumerate().map(|(at, row)| (at, Some(row)));
            for (at, row) in alone.then_some((0, None)).into_iter().chain(rows_of) {
                self.maybe_yield(coordinator).await;
                let view = RowView { row, ..view };
                if !self.passes(&view) {
                    continue;
                }
                if self.continues_group(&partition.key, &view, rows.env())? {
                    rows.add_to_group(&view)?;
                    continue;
                }
                // The open group ends here, whether or not this row is part of the result.
                rows.end_group()?;
                self.group = None;
                if self.remaining == 0 {
                    return Ok(Taken::Done);
                }
                if u64::from(rows.rows.count()) >= wanted
                    && let Some(state) = self.in_front_of(page, number, at)
                {
                    return Ok(Taken::Full(state));
                }
                if self.given.rows() >= self.partition_limit {
                    self.given.set_full();
                    break;
                }
                self.count();
                if let Some(grouping) = &self.plan.grouping {
                    self.group = Some((partition.key.clone(), grouping.key(&schema, &view, rows.env())?));
                }
                rows.begin_group(&view)?;
            }
        }
        Ok(Taken::All)
    }

    fn continues_group(
        &self,
        partition: &PartitionKey,
        view: &RowView<'_>,
        env: &Env<'_>,
    ) -> Result<bool, CqlError> {
        match (&self.plan.grouping, &self.group) {
            (Some(grouping), Some((key, group))) if key == partition => {
                grouping.is_in(group, &self.plan.schema, view, env)
            }
            _ => Ok(false),
        }
    }

    /// Returns the place for a page that starts with this row of a page of storage; `None` if the row is the
    /// first of the whole read.
    fn in_front_of(&self, page: &Page, partition: usize, row: usize) -> Option<ResultPlace> {
        let (at, key) = (partition, &page.partitions[partition].key);
        if let Some(before) = row.checked_sub(1) {
            return Some(self.after_row(key, before, &page.partitions[at].rows[before].key));
        }
        if let Some(before) = at.checked_sub(1) {
            return Some(self.after_partition(&page.partitions[before].key));
        }
        let Some(started) = &self.started else { return self.state() };
        let place = match &started.place {
            // The partition in which the read of storage started had no further rows.
            PagePlace::Inside(unfinished) if unfinished.key != *key => {
                PagePlace::AfterPartition(unfinished.key.clone())
            }
            place => place.clone(),
        };
        Some(self.result_place(place, started.read_id))
    }
}
