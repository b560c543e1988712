package io.messina;

import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.ActiveCompactionsTracker;
import org.apache.cassandra.db.compaction.CompactionController;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.CompactionTask;
import org.apache.cassandra.db.compaction.writers.CompactionAwareWriter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.Clock;
import org.apache.cassandra.utils.concurrent.Transactional;

/**
 * A compaction whose inputs and outputs a plan of Messina's decides. Cassandra merges; with messina.native_merges the library does, and
 * Cassandra does what the library cannot.
 */
final class PlannedTask extends CompactionTask
{
    private final MessinaCompactionStrategy strategy;
    private final Plan plan;
    private PlanWriter writer;
    private ActiveCompactionsTracker active = ActiveCompactionsTracker.NOOP;
    private Collection<SSTableReader> written;

    PlannedTask(MessinaCompactionStrategy strategy, ColumnFamilyStore cfs, LifecycleTransaction txn, long gcBefore, Plan plan)
    {
        super(cfs, txn, gcBefore);
        this.strategy = strategy;
        this.plan = plan;
    }

    boolean isRunning()
    {
        return transaction.state() == Transactional.AbstractTransactional.State.IN_PROGRESS;
    }

    @Override
    protected int executeInternal(ActiveCompactionsTracker activeCompactions)
    {
        logger.info("Messina compacts {} SSTables of {}.{} ({}): {}", transaction.originals().size(), cfs.getKeyspaceName(), cfs.getTableName(),
                    transaction.opId(), plan.reason);
        int level = Integer.MAX_VALUE;
        long inputBytes = 0;
        for (SSTableReader input : transaction.originals())
        {
            level = Math.min(level, input.getSSTableLevel());
            inputBytes += input.uncompressedLength();
        }
        active = activeCompactions == null ? ActiveCompactionsTracker.NOOP : activeCompactions;
        int count = super.executeInternal(activeCompactions);
        if (written == null && writer != null)
            written = writer.written();
        if (written != null)
            strategy.finished(plan, level, inputBytes, written);
        return count;
    }

    @Override
    protected void runMayThrow() throws Exception
    {
        if (!Boolean.getBoolean(NativeMerge.PROPERTY) || transaction.originals().isEmpty() || !mergeNatively())
            super.runMayThrow();
    }

    /** Whether the library has merged; if not, nothing was changed. */
    private boolean mergeNatively() throws Exception
    {
        Set<SSTableReader> expired;
        try (CompactionController controller = getCompactionController(transaction.originals()))
        {
            expired = new HashSet<>(controller.getFullyExpiredSSTables());
            buildCompactionCandidatesForAvailableDiskSpace(expired, transaction.opId());
        }
        Set<SSTableReader> inputs = new HashSet<>(transaction.originals());
        inputs.removeAll(expired);
        String obstacle = NativeMerge.obstacle(cfs, inputs);
        if (obstacle != null)
        {
            logger.info("Cassandra merges ({}): {}", transaction.opId(), obstacle);
            return false;
        }
        long start = Clock.Global.nanoTime();
        NativeMerge merge = new NativeMerge(cfs, transaction, plan, inputs, expired, gcBefore, active);
        try
        {
            written = merge.run();
        }
        catch (CompactionInterruptedException e)
        {
            throw e;
        }
        catch (RuntimeException e)
        {
            if (transaction.state() != Transactional.AbstractTransactional.State.IN_PROGRESS)
                throw e;
            logger.warn("Messina could not merge ({}), Cassandra does: {}", transaction.opId(), e.getMessage());
            return false;
        }
        long endBytes = SSTableReader.getTotalBytes(written);
        String counts = updateCompactionHistory(transaction.opId(), cfs.getKeyspaceName(), cfs.getTableName(), merge.counts(), merge.storedBytes(), endBytes,
                                                Map.of("compaction_type", compactionType.type));
        logger.info("Messina merged ({}) {} SSTables into {} of level {}: {} bytes to {} in {} ms, {} partitions, {} rows, partition merge counts {{}}",
                    transaction.opId(), transaction.originals().size(), written.size(), plan.level, merge.storedBytes(), endBytes,
                    (Clock.Global.nanoTime() - start) / 1_000_000, merge.partitions(), merge.rows(), counts);
        cfs.metric.compactionBytesWritten.inc(endBytes);
        return true;
    }

    @Override
    public CompactionAwareWriter getCompactionAwareWriter(ColumnFamilyStore cfs, Directories directories, LifecycleTransaction txn, Set<SSTableReader> inputs)
    {
        writer = new PlanWriter(cfs, directories, txn, inputs, plan);
        return writer;
    }

    @Override
    protected int getLevel()
    {
        return plan.level;
    }

    /** Without one of its inputs the output of a level would overlap the input in its new level. */
    @Override
    protected boolean partialCompactionsAcceptable()
    {
        return plan.level == 0 && super.partialCompactionsAcceptable();
    }
}
