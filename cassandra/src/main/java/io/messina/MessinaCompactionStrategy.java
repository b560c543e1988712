package io.messina;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * A compaction strategy of Messina's in Cassandra. The native library decides; Cassandra merges.
 *
 * Cassandra makes an instance for each repair state and data directory, and each instance has a strategy of its own in the library. The
 * tables of Cassandra's own secondary indexes inherit the class of their base table, but not its partitioner; they are compacted by
 * SizeTieredCompactionStrategy.
 */
abstract class MessinaCompactionStrategy extends AbstractCompactionStrategy
{
    private static final Logger logger = LoggerFactory.getLogger(MessinaCompactionStrategy.class);

    private static final int ATTEMPTS = 3;

    private final boolean hasThresholds;
    /** Compacts a table whose keys are not ordered by Murmur3; null for others. */
    private final AbstractCompactionStrategy substitute;
    private final Set<SSTableReader> sstables = new HashSet<>();
    private final List<PlannedTask> tasks = new ArrayList<>();
    private final View view;
    /** 0: there is none. */
    private long handle;
    /** The options with which the handle was made. */
    private Map<String, String> current = Map.of();
    private volatile int pending;
    private volatile long sstableBytes = Long.MAX_VALUE;

    MessinaCompactionStrategy(ColumnFamilyStore cfs, Map<String, String> options, boolean hasThresholds)
    {
        super(cfs, options);
        this.hasThresholds = hasThresholds;
        view = new View(cfs);
        substitute = cfs.getPartitioner() instanceof Murmur3Partitioner ? null : new SizeTieredCompactionStrategy(cfs, Map.of());
        if (substitute == null && NativeLibrary.problem() != null)
            logger.error("{}.{} is served, but not compacted. {}", cfs.getKeyspaceName(), cfs.getTableName(), NativeLibrary.problem());
        if (substitute == null)
            StrategyReports.register();
        synchronized (this)
        {
            try
            {
                if (isUsable())
                    open();
            }
            catch (RuntimeException e)
            {
                // Options of another release: the table is served, and each decision logs the error again.
                logger.error("{}.{} is served, but not compacted", cfs.getKeyspaceName(), cfs.getTableName(), e);
            }
        }
    }

    private boolean isUsable()
    {
        return substitute == null && NativeLibrary.problem() == null;
    }

    /** The handle of the strategy with the table's options and the thresholds that hold now: JMX can change them. */
    private long open()
    {
        Map<String, String> wanted = new HashMap<>(options);
        wanted.remove("class");
        // Cassandra itself decides whether background compactions are enabled.
        wanted.remove(COMPACTION_ENABLED);
        if (hasThresholds)
        {
            wanted.put("min_threshold", Integer.toString(cfs.getMinimumCompactionThreshold()));
            wanted.put("max_threshold", Integer.toString(cfs.getMaximumCompactionThreshold()));
        }
        if (handle != 0 && wanted.equals(current))
            return handle;
        close();
        handle = NativeLibrary.open(OptionCheck.encode(getClass(), wanted));
        current = wanted;
        long bytes = NativeLibrary.sstableBytes(handle);
        sstableBytes = bytes < 0 ? Long.MAX_VALUE : bytes;
        return handle;
    }

    private void close()
    {
        if (handle != 0)
            NativeLibrary.close(handle);
        handle = 0;
        view.reset();
    }

    private byte[] encode(long gcBefore) throws IOException
    {
        tasks.removeIf(task -> !task.isRunning());
        return view.encode(sstables, gcBefore, tasks.size());
    }

    /** A call of the library with a view. After an error the strategy is made anew. */
    private synchronized byte[] call(long gcBefore, java.util.function.BiFunction<Long, byte[], byte[]> function)
    {
        try
        {
            byte[] answer = function.apply(open(), encode(gcBefore));
            view.accepted();
            return answer;
        }
        catch (IOException | RuntimeException e)
        {
            logger.error("Messina cannot decide about compactions of {}.{}; it tries again at the next flush or compaction",
                         cfs.getKeyspaceName(), cfs.getTableName(), e);
            close();
            return null;
        }
    }

    @Override
    public AbstractCompactionTask getNextBackgroundTask(long gcBefore)
    {
        if (substitute != null)
            return substitute.getNextBackgroundTask(gcBefore);
        if (!isUsable())
            return null;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++)
        {
            Plan plan;
            List<SSTableReader> inputs;
            synchronized (this)
            {
                byte[] answer = call(gcBefore, NativeLibrary::next);
                if (answer == null)
                    return null;
                long[] jobs = new long[1];
                plan = Plan.read(answer, cfs.getPartitioner(), jobs);
                pending = (int) Math.min(jobs[0], Integer.MAX_VALUE);
                if (plan == null)
                    return null;
                inputs = inputs(plan);
            }
            AbstractCompactionTask task = begin(plan, inputs, gcBefore);
            if (task != null)
                return task;
        }
        return null;
    }

    private List<SSTableReader> inputs(Plan plan)
    {
        List<SSTableReader> inputs = new ArrayList<>();
        for (long id : plan.inputs)
            inputs.add(view.find(id));
        return inputs;
    }

    /** The task of a plan; null if an SSTable was taken by another task meanwhile. */
    private PlannedTask begin(Plan plan, Collection<SSTableReader> inputs, long gcBefore)
    {
        LifecycleTransaction transaction = cfs.getTracker().tryModify(inputs, OperationType.COMPACTION);
        if (transaction == null)
            return null;
        PlannedTask task = new PlannedTask(this, cfs, transaction, gcBefore, plan);
        synchronized (this)
        {
            tasks.add(task);
        }
        return task;
    }

    @Override
    public Collection<AbstractCompactionTask> getMaximalTask(long gcBefore, boolean splitOutput)
    {
        if (substitute != null)
            return substitute.getMaximalTask(gcBefore, splitOutput);
        if (!isUsable())
            throw new IllegalStateException(NativeLibrary.problem());
        Map<Plan, List<SSTableReader>> plans = new LinkedHashMap<>();
        synchronized (this)
        {
            byte[] answer = call(gcBefore, (strategy, bytes) -> NativeLibrary.major(strategy, bytes, splitOutput));
            if (answer == null)
                throw new IllegalStateException("Messina could not plan the compaction; the log has the reason");
            for (Plan plan : Plan.readAll(answer, cfs.getPartitioner()))
                plans.put(plan, inputs(plan));
        }
        List<AbstractCompactionTask> begun = new ArrayList<>();
        for (Map.Entry<Plan, List<SSTableReader>> plan : plans.entrySet())
        {
            PlannedTask task = begin(plan.getKey(), plan.getValue(), gcBefore);
            if (task != null)
                begun.add(task);
            else
                logger.warn("A compaction has some SSTables of {}.{}: they are left out of the major compaction", cfs.getKeyspaceName(), cfs.getTableName());
        }
        return begun.isEmpty() ? null : begun;
    }

    @Override
    public AbstractCompactionTask getUserDefinedTask(Collection<SSTableReader> inputs, long gcBefore)
    {
        if (substitute != null)
            return substitute.getUserDefinedTask(inputs, gcBefore);
        LifecycleTransaction transaction = cfs.getTracker().tryModify(inputs, OperationType.COMPACTION);
        return transaction == null ? null : rewrite(transaction, gcBefore, "requested by a user").setUserDefined(true);
    }

    /** Tasks of nodetool upgradesstables and of the like. */
    @Override
    public AbstractCompactionTask getCompactionTask(LifecycleTransaction txn, long gcBefore, long maxSSTableBytes)
    {
        return substitute != null ? substitute.getCompactionTask(txn, gcBefore, maxSSTableBytes) : rewrite(txn, gcBefore, "requested by a user");
    }

    /** A merge of given SSTables: a single one keeps its level and its run, several become one of level 0. */
    private PlannedTask rewrite(LifecycleTransaction txn, long gcBefore, String reason)
    {
        Set<SSTableReader> inputs = txn.originals();
        SSTableReader only = inputs.size() == 1 ? inputs.iterator().next() : null;
        boolean hasRuns = this instanceof IncrementalCompactionStrategy;
        UUID run = only != null ? Runs.of(only.descriptor).find(only.descriptor) : hasRuns ? UUID.randomUUID() : null;
        long bytes = hasRuns && only == null ? sstableBytes : Long.MAX_VALUE;
        return new PlannedTask(this, cfs, txn, gcBefore, new Plan(only == null ? 0 : only.getSSTableLevel(), bytes, run, reason));
    }

    /** Reports the end of a task to the library. */
    synchronized void finished(Plan plan, int level, long inputBytes, Collection<SSTableReader> outputs)
    {
        if (plan.number == 0 || handle == 0)
            return;
        long outputBytes = 0;
        SSTableReader last = null;
        for (SSTableReader output : outputs)
        {
            outputBytes += output.uncompressedLength();
            if (last == null || output.getLast().compareTo(last.getLast()) > 0)
                last = output;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes))
        {
            out.writeLong(plan.number);
            out.writeInt(level);
            out.writeLong(inputBytes);
            out.writeLong(outputBytes);
            byte[] key = last == null ? null : ByteBufferUtil.getArray(last.getLast().getKey());
            out.writeInt(key == null ? -1 : key.length);
            if (key != null)
                out.write(key);
            NativeLibrary.finished(handle, bytes.toByteArray());
        }
        catch (IOException | RuntimeException e)
        {
            logger.error("The end of a compaction of {}.{} could not be reported to Messina's strategy", cfs.getKeyspaceName(), cfs.getTableName(), e);
            close();
        }
    }

    /** What the strategy considers now, as text. */
    String explain()
    {
        if (!isUsable())
            return substitute != null ? "compacted by " + substitute.getName() : NativeLibrary.problem();
        long gcBefore = cfs.gcBefore(org.apache.cassandra.utils.FBUtilities.nowInSeconds());
        synchronized (this)
        {
            String[] text = new String[1];
            call(gcBefore, (strategy, bytes) -> {
                text[0] = NativeLibrary.explain(strategy, bytes);
                return new byte[0];
            });
            return text[0] == null ? "the strategy could not be asked; the log has the reason" : text[0];
        }
    }

    @Override
    public int getEstimatedRemainingTasks()
    {
        return substitute != null ? substitute.getEstimatedRemainingTasks() : pending;
    }

    @Override
    public long getMaxSSTableBytes()
    {
        return sstableBytes;
    }

    /** A fragment that was rewritten alone, by scrub or cleanup, stays in its run. */
    @Override
    public synchronized void replaceSSTables(Collection<SSTableReader> removed, Collection<SSTableReader> added)
    {
        if (substitute == null && removed.size() == 1 && !added.isEmpty())
        {
            SSTableReader old = removed.iterator().next();
            UUID run = Runs.of(old.descriptor).find(old.descriptor);
            List<org.apache.cassandra.io.sstable.Descriptor> heirs = new ArrayList<>();
            for (SSTableReader fresh : added)
            {
                boolean isWithin = fresh.getFirst().compareTo(old.getFirst()) >= 0 && fresh.getLast().compareTo(old.getLast()) <= 0;
                if (run != null && isWithin && Runs.of(fresh.descriptor).find(fresh.descriptor) == null)
                {
                    Runs.of(fresh.descriptor).add(fresh.descriptor, run);
                    heirs.add(fresh.descriptor);
                }
            }
            Runs.save(heirs);
        }
        super.replaceSSTables(removed, added);
    }

    @Override
    public synchronized void addSSTable(SSTableReader added)
    {
        if (substitute != null)
            substitute.addSSTable(added);
        sstables.remove(added);
        sstables.add(added);
    }

    @Override
    public synchronized void removeSSTable(SSTableReader sstable)
    {
        if (substitute != null)
            substitute.removeSSTable(sstable);
        sstables.remove(sstable);
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables()
    {
        return Set.copyOf(sstables);
    }

    @Override
    public synchronized void pause()
    {
        if (substitute != null)
            substitute.pause();
        super.pause();
    }

    @Override
    public synchronized void resume()
    {
        if (substitute != null)
            substitute.resume();
        super.resume();
    }

    @Override
    public void startup()
    {
        if (substitute != null)
            substitute.startup();
        super.startup();
    }

    @Override
    public synchronized void shutdown()
    {
        if (substitute != null)
            substitute.shutdown();
        super.shutdown();
        close();
    }
}
