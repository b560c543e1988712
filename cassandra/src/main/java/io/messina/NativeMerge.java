package io.messina;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.UUID;

import com.google.common.util.concurrent.RateLimiter;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.compaction.ActiveCompactionsTracker;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.CompactionTask;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.compress.ZstdCompressor;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.CompactionParams;
import org.apache.cassandra.schema.CompressionParams;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.concurrent.Refs;

/**
 * One merge by the native library. The files are tracked by the transaction before the library writes them, and opened and committed as
 * Cassandra's own outputs are.
 */
final class NativeMerge
{
    /** Set to true to merge natively; Cassandra merges otherwise. */
    static final String PROPERTY = "messina.native_merges";

    /** How far the library may read ahead of the rate limit, in bytes before compression. */
    private static final long AHEAD_BYTES = 16 << 20;
    private static final int WAIT_MAX_MS = 20;
    private static final int COLUMN_INDEX_BYTES_DEFAULT = 64 << 10;

    /** The file of an output for the transaction, before it exists. */
    private static final class Placeholder extends SSTable
    {
        private static final class PlaceholderBuilder extends SSTable.Builder<Placeholder, PlaceholderBuilder>
        {
            PlaceholderBuilder(Descriptor descriptor)
            {
                super(descriptor);
            }
        }

        Placeholder(Descriptor descriptor, ColumnFamilyStore cfs)
        {
            super(new PlaceholderBuilder(descriptor).setTableMetadataRef(cfs.metadata).setComponents(Set.of(SSTableFormat.Components.DATA)), cfs);
        }

        @Override
        public DecoratedKey getFirst()
        {
            throw new UnsupportedOperationException();
        }

        @Override
        public DecoratedKey getLast()
        {
            throw new UnsupportedOperationException();
        }

        @Override
        public AbstractBounds<Token> getBounds()
        {
            throw new UnsupportedOperationException();
        }
    }

    /** What `nodetool compactionstats` and stop requests see. */
    private final class Progress extends CompactionInfo.Holder
    {
        volatile long completed;

        @Override
        public CompactionInfo getCompactionInfo()
        {
            return new CompactionInfo(cfs.metadata(), OperationType.COMPACTION, completed, plainBytes, storedBytes, transaction.opId(),
                                      new ArrayList<>(inputs), directory.path());
        }

        @Override
        public boolean isGlobal()
        {
            return false;
        }
    }

    private final ColumnFamilyStore cfs;
    private final LifecycleTransaction transaction;
    private final Plan plan;
    private final Set<SSTableReader> inputs;
    private final Set<SSTableReader> expired;
    private final long gcBefore;
    private final ActiveCompactionsTracker active;
    private final File directory;
    private final long plainBytes;
    private final long storedBytes;
    private final List<Placeholder> outputs = new ArrayList<>();

    private long partitions;
    private long rows;
    private long[] counts = new long[0];

    NativeMerge(ColumnFamilyStore cfs, LifecycleTransaction transaction, Plan plan, Set<SSTableReader> inputs, Set<SSTableReader> expired,
                long gcBefore, ActiveCompactionsTracker active)
    {
        this.cfs = cfs;
        this.transaction = transaction;
        this.plan = plan;
        this.inputs = inputs;
        this.expired = expired;
        this.gcBefore = gcBefore;
        this.active = active;
        directory = inputs.iterator().next().descriptor.directory;
        long plain = 0;
        long stored = 0;
        for (SSTableReader input : inputs)
        {
            plain += input.uncompressedLength();
            stored += input.onDiskLength();
        }
        plainBytes = plain;
        storedBytes = stored;
    }

    /** Why Cassandra must merge; null if the library can. */
    static String obstacle(ColumnFamilyStore cfs, Set<SSTableReader> inputs)
    {
        TableMetadata table = cfs.metadata();
        if (inputs.isEmpty())
            return "there is nothing to merge";
        if (table.isCounter() || table.isCompactTable() || table.isView())
            return "the table is a counter table, a compact table or a view";
        if (!cfs.indexManager.listIndexes().isEmpty())
            return "the table has indexes";
        CompactionParams params = cfs.getCompactionStrategyManager().getCompactionParams();
        if (params.tombstoneOption() != CompactionParams.TombstoneOption.NONE)
            return "the table has provide_overlapping_tombstones";
        if (DatabaseDescriptor.isSnapshotBeforeCompaction())
            return "snapshot_before_compaction is set";
        if (cfs.getDirectories().getWriteableLocations().length > 1)
            return "the node has several data directories";
        if (!cfs.newSSTableDescriptor(inputs.iterator().next().descriptor.directory).version.toString().equals("nb"))
            return "the node writes SSTables of another version than nb";
        for (SSTableReader input : inputs)
            if (input.isMarkedSuspect() || !input.descriptor.directory.equals(inputs.iterator().next().descriptor.directory))
                return "an SSTable is suspect, or in another directory";
        CompressionParams compression = table.params.compression;
        if (compression.isEnabled() && "high".equals(compression.getOtherOptions().get("lz4_compressor_type")))
            return "the table has the high level of LZ4";
        return null;
    }

    /**
     * Merges and commits.
     *
     * @return the outputs
     * @throws CompactionInterruptedException the merge was stopped
     * @throws RuntimeException the merge failed; nothing was changed, and Cassandra can merge
     */
    Collection<SSTableReader> run()
    {
        List<SSTableReader> opened = new ArrayList<>();
        List<Descriptor> written = new ArrayList<>();
        boolean isCommitted = false;
        Progress progress = new Progress();
        active.beginCompaction(progress);
        // Before the SSTables, so that data of a flush in between are in one of the two.
        long memtableMinTimestamp = memtableMinTimestamp();
        try (Refs<SSTableReader> refs = Refs.ref(inputs);
             Refs<SSTableReader> overlapping = cfs.getAndReferenceOverlappingLiveSSTables(inputs))
        {
            if (!cfs.getCompactionStrategyManager().isActive())
                throw new CompactionInterruptedException(progress.getCompactionInfo());
            track();
            DataInputStream result = new DataInputStream(new ByteArrayInputStream(merge(request(overlapping, memtableMinTimestamp), progress)));
            boolean[] isUsed = new boolean[outputs.size()];
            for (int count = result.readInt(); count > 0; count--)
            {
                int index = result.readInt();
                int part = result.readInt();
                Descriptor descriptor = outputs.get(index).descriptor;
                isUsed[index] = true;
                written.add(descriptor);
                UUID run = part < plan.pieces.size() ? plan.pieces.get(part).run : plan.run;
                if (run != null)
                    Runs.of(descriptor).add(descriptor, run);
            }
            readCounts(result);
            TimeUUID pendingRepair = CompactionTask.getPendingRepair(inputs);
            for (Descriptor descriptor : written)
            {
                if (pendingRepair != null)
                    descriptor.getMetadataSerializer().mutateRepairMetadata(descriptor, CompactionTask.getMinRepairedAt(inputs), pendingRepair,
                                                                            CompactionTask.getIsTransient(inputs));
                opened.add(SSTableReader.open(cfs, descriptor, null, cfs.metadata));
            }
            for (int index = 0; index < isUsed.length; index++)
                if (!isUsed[index])
                    transaction.untrackNew(outputs.get(index));
            Runs.save(written);
            expired.forEach(transaction::obsolete);
            transaction.update(opened, false);
            transaction.obsoleteOriginals();
            transaction.prepareToCommit();
            isCommitted = true;
            transaction.commit();
            return opened;
        }
        catch (IOException e)
        {
            throw new RuntimeException(e);
        }
        finally
        {
            active.finishCompaction(progress);
            if (!isCommitted)
                undo(opened, written);
        }
    }

    long partitions()
    {
        return partitions;
    }

    long rows()
    {
        return rows;
    }

    /** The number of partitions merged from one SSTable, from two, and so on. */
    long[] counts()
    {
        return counts;
    }

    long storedBytes()
    {
        return storedBytes;
    }

    /** Reserves as many names as the outputs may need. An output ends when it has its size, or at one of the plan's ends. */
    private void track()
    {
        long count = 2 + 2 * (plainBytes / plan.maxBytes) + plan.tokens.size() + plan.pieces.size();
        for (long index = 0; index < count; index++)
        {
            Placeholder output = new Placeholder(cfs.newSSTableDescriptor(directory), cfs);
            transaction.trackNew(output);
            outputs.add(output);
        }
    }

    private void undo(List<SSTableReader> opened, List<Descriptor> written)
    {
        for (SSTableReader reader : opened)
            reader.selfRef().release();
        Runs.forget(written);
        for (Placeholder output : outputs)
        {
            String data = output.descriptor.fileFor(SSTableFormat.Components.DATA).name();
            String prefix = data.substring(0, data.length() - SSTableFormat.Components.DATA.name().length());
            File[] files = directory.tryList((dir, name) -> name.startsWith(prefix));
            if (files != null)
                for (File file : files)
                    file.deleteIfExists();
            try
            {
                transaction.untrackNew(output);
            }
            catch (RuntimeException | AssertionError e)
            {
                // An unused name was given back already.
            }
        }
    }

    /** Waits for the library, within the rate limit, and passes stop requests on. */
    private byte[] merge(byte[] request, Progress progress)
    {
        RateLimiter limiter = CompactionManager.instance.getRateLimiter();
        double ratio = plainBytes == 0 ? 1.0 : (double) storedBytes / plainBytes;
        long handle = NativeLibrary.mergeStart(request);
        boolean isFinished = false;
        try
        {
            long read = 0;
            int wait = 1;
            while (true)
            {
                long now = NativeLibrary.mergeProgress(handle, read + AHEAD_BYTES);
                if (now < 0)
                    break;
                if (progress.isStopRequested())
                {
                    NativeLibrary.mergeStop(handle);
                    throw new CompactionInterruptedException(progress.getCompactionInfo());
                }
                if (now > read)
                {
                    limiter.acquire((int) Math.max(1, Math.min(Integer.MAX_VALUE, (now - read) * ratio)));
                    read = now;
                    progress.completed = Math.min(now, plainBytes);
                }
                Thread.sleep(wait);
                wait = Math.min(wait * 2, WAIT_MAX_MS);
            }
            isFinished = true;
            return NativeLibrary.mergeFinish(handle);
        }
        catch (InterruptedException e)
        {
            Thread.currentThread().interrupt();
            throw new CompactionInterruptedException(progress.getCompactionInfo());
        }
        finally
        {
            if (!isFinished)
                stop(handle);
        }
    }

    private static void stop(long handle)
    {
        NativeLibrary.mergeStop(handle);
        try
        {
            NativeLibrary.mergeFinish(handle);
        }
        catch (RuntimeException e)
        {
            // It was stopped: that is the error.
        }
    }

    private void readCounts(DataInputStream result) throws IOException
    {
        partitions = result.readLong();
        rows = result.readLong();
        int count = result.readInt();
        counts = new long[inputs.size()];
        for (; count > 0; count--)
        {
            int merged = result.readInt();
            counts[Math.min(Math.max(merged, 1), counts.length) - 1] += result.readLong();
        }
    }

    /** The smallest timestamp in the memtables, also those being flushed; Long.MAX_VALUE if they are empty. */
    private long memtableMinTimestamp()
    {
        long least = Long.MAX_VALUE;
        for (Memtable memtable : cfs.getTracker().getView().getAllMemtables())
            if (!memtable.isClean())
                least = Math.min(least, memtable.getMinTimestamp());
        return least;
    }

    private byte[] request(Collection<SSTableReader> overlapping, long memtableMinTimestamp) throws IOException
    {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        TableMetadata table = cfs.metadata();
        writeColumns(out, table);
        writeCompression(out, table.params.compression);
        out.writeDouble(table.params.bloomFilterFpChance);
        out.writeInt(table.params.minIndexInterval);
        out.writeInt(table.params.maxIndexInterval);
        out.writeInt(DatabaseDescriptor.getColumnIndexSize(COLUMN_INDEX_BYTES_DEFAULT));
        write(out, directory.absolutePath());
        out.writeInt(inputs.size());
        for (SSTableReader input : inputs)
            write(out, input.descriptor);
        out.writeInt(outputs.size());
        for (Placeholder output : outputs)
            write(out, output.descriptor);
        out.writeInt(overlapping.size());
        for (SSTableReader other : overlapping)
        {
            write(out, other.descriptor);
            write(out, other.getFirst().getKey());
            write(out, other.getLast().getKey());
            out.writeLong(other.getMinTimestamp());
        }
        out.writeBoolean(memtableMinTimestamp != Long.MAX_VALUE);
        out.writeLong(memtableMinTimestamp);
        boolean purges = !cfs.getNeverPurgeTombstones() && !org.apache.cassandra.config.CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.getBoolean()
                         && (!cfs.getCompactionStrategyManager().onlyPurgeRepairedTombstones() || inputs.stream().allMatch(SSTableReader::isRepaired));
        out.writeLong(purges ? gcBefore : 0);
        out.writeLong(FBUtilities.nowInSeconds());
        out.writeInt(plan.level);
        out.writeLong(CompactionTask.getMinRepairedAt(inputs));
        UUID host = StorageService.instance.getLocalHostUUID();
        out.writeLong(host.getMostSignificantBits());
        out.writeLong(host.getLeastSignificantBits());
        out.writeLong(plan.maxBytes);
        writeEnds(out);
        return bytes.toByteArray();
    }

    private void writeEnds(DataOutputStream out) throws IOException
    {
        out.writeInt(plan.tokens.size() + plan.pieces.size());
        for (Token token : plan.tokens)
        {
            out.writeBoolean(true);
            out.writeInt(-1);
            out.writeLong(((LongToken) token).getLongValue());
        }
        for (Plan.Piece piece : plan.pieces)
        {
            out.writeBoolean(piece.isAfter);
            if (piece.key != null)
            {
                write(out, piece.key.getKey());
            }
            else
            {
                out.writeInt(-1);
                out.writeLong(((LongToken) piece.token).getLongValue());
            }
        }
    }

    private static void writeColumns(DataOutputStream out, TableMetadata table) throws IOException
    {
        write(out, table.keyspace);
        write(out, table.name);
        for (List<ColumnMetadata> keys : List.of(table.partitionKeyColumns(), table.clusteringColumns()))
        {
            out.writeInt(keys.size());
            for (ColumnMetadata key : keys)
            {
                write(out, key.name.toString());
                write(out, key.type);
            }
        }
        List<ColumnMetadata> columns = new ArrayList<>();
        table.regularAndStaticColumns().forEach(columns::add);
        out.writeInt(columns.size());
        for (ColumnMetadata column : columns)
        {
            out.writeBoolean(column.isStatic());
            write(out, column.name.toString());
            write(out, column.type);
        }
        out.writeInt(table.droppedColumns.size());
        for (DroppedColumn dropped : table.droppedColumns.values())
        {
            out.writeBoolean(dropped.column.isStatic());
            write(out, dropped.column.name.toString());
            write(out, dropped.column.type);
            out.writeLong(dropped.droppedTime);
        }
    }

    private static void writeCompression(DataOutputStream out, CompressionParams compression) throws IOException
    {
        if (!compression.isEnabled())
        {
            out.writeInt(-1);
            return;
        }
        write(out, compression.getSstableCompressor().getClass().getSimpleName());
        out.writeInt(compression.chunkLength());
        out.writeInt(compression.maxCompressedLength());
        String level = compression.getOtherOptions().get(ZstdCompressor.COMPRESSION_LEVEL_OPTION_NAME);
        out.writeLong(level == null ? ZstdCompressor.DEFAULT_COMPRESSION_LEVEL : Integer.parseInt(level));
    }

    private static void write(DataOutputStream out, AbstractType<?> type) throws IOException
    {
        write(out, type.toString());
    }

    private static void write(DataOutputStream out, Descriptor descriptor) throws IOException
    {
        write(out, descriptor.fileFor(SSTableFormat.Components.DATA).name());
    }

    private static void write(DataOutputStream out, String text) throws IOException
    {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static void write(DataOutputStream out, ByteBuffer value) throws IOException
    {
        byte[] bytes = ByteBufferUtil.getArray(value);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
