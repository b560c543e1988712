package io.messina;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.metadata.CompactionMetadata;
import org.apache.cassandra.io.sstable.metadata.MetadataType;
import org.apache.cassandra.locator.Replica;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.Clock;

/**
 * Describes a table to the native library. What never changes about an SSTable is sent once; the library forgets an SSTable that a view
 * does not list. One thread at a time uses a View.
 */
final class View
{
    private static final int INSIDE = 1;
    private static final int COMPACTING = 2;
    private static final int FROZEN = 4;
    private static final int REPAIRED = 8;
    private static final int WITH_CONSTANTS = 16;

    private static final long SHARE_VALID_MS = 60_000;

    private final ColumnFamilyStore cfs;
    private Map<Descriptor, Long> ids = new HashMap<>();
    private Map<Long, SSTableReader> byId = new HashMap<>();
    /** The SSTables that the library knows. */
    private Set<Long> sent = new HashSet<>();
    private long lastId;
    private double share = 1.0;
    private long shareTime;

    View(ColumnFamilyStore cfs)
    {
        this.cfs = cfs;
    }

    /** After a failed call, or for a new handle: the library knows no SSTable. */
    void reset()
    {
        sent = new HashSet<>();
    }

    /** The library has read the last view. */
    void accepted()
    {
        sent = new HashSet<>(byId.keySet());
    }

    SSTableReader find(long id)
    {
        return byId.get(id);
    }

    /** The whole table, of which the strategy decides for `own`. */
    byte[] encode(Set<SSTableReader> own, long gcBefore, int jobsRunning) throws IOException
    {
        org.apache.cassandra.db.lifecycle.View tracked = cfs.getTracker().getView();
        List<SSTableReader> live = new ArrayList<>();
        tracked.liveSSTables().forEach(live::add);
        Map<Descriptor, Long> newIds = new HashMap<>();
        Map<Long, SSTableReader> newById = new HashMap<>();
        for (SSTableReader sstable : live)
        {
            Long id = ids.get(sstable.descriptor);
            if (id == null)
                id = ++lastId;
            newIds.put(sstable.descriptor, id);
            newById.put(id, sstable);
        }
        ids = newIds;
        byId = newById;
        Set<SSTableReader> compacting = cfs.getTracker().getCompacting();
        Map<SSTableReader, UUID> runs = runs(live, own);

        boolean purges = !cfs.getNeverPurgeTombstones();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(256 * (live.size() + 1));
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeLong(Clock.Global.currentTimeMillis() * 1000);
        out.writeLong(purges ? gcBefore : 0);
        writeMemtables(out, tracked);
        out.writeInt(jobsRunning);
        out.writeLong((long) cfs.metric.flushSizeOnDisk.get());
        out.writeDouble(ringShare());
        writeDisk(out);
        out.writeLong(ThreadLocalRandom.current().nextLong());
        out.writeInt(live.size());
        for (SSTableReader sstable : live)
        {
            long id = ids.get(sstable.descriptor);
            boolean isKnown = sent.contains(id);
            int flags = own.contains(sstable) ? INSIDE : 0;
            flags |= compacting.contains(sstable) ? COMPACTING : 0;
            flags |= sstable.isMarkedSuspect() ? FROZEN : 0;
            flags |= sstable.isRepaired() ? REPAIRED : 0;
            flags |= isKnown ? 0 : WITH_CONSTANTS;
            out.writeLong(id);
            out.writeByte(flags);
            out.writeInt(sstable.getSSTableLevel());
            out.writeDouble(purges ? sstable.getEstimatedDroppableTombstoneRatio(gcBefore) : 0.0);
            out.writeDouble(sstable.getReadMeter() == null ? Double.NaN : sstable.getReadMeter().twoHourRate());
            UUID run = runs.get(sstable);
            out.writeLong(run == null ? 0 : run.getMostSignificantBits());
            out.writeLong(run == null ? id : run.getLeastSignificantBits());
            if (!isKnown)
                writeConstants(out, sstable);
        }
        return bytes.toByteArray();
    }

    /** The runs of the strategy's SSTables. A fragment that overlaps another one of its run counts alone. */
    private static Map<SSTableReader, UUID> runs(List<SSTableReader> live, Set<SSTableReader> own)
    {
        List<SSTableReader> sorted = new ArrayList<>(live);
        sorted.removeIf(sstable -> !own.contains(sstable));
        sorted.sort(Comparator.comparing(SSTableReader::getFirst));
        Map<SSTableReader, UUID> runs = new HashMap<>();
        Map<UUID, DecoratedKey> ends = new HashMap<>();
        for (SSTableReader sstable : sorted)
        {
            UUID run = Runs.of(sstable.descriptor).find(sstable.descriptor);
            if (run == null)
                continue;
            DecoratedKey end = ends.get(run);
            if (end != null && end.compareTo(sstable.getFirst()) >= 0)
                continue;
            ends.put(run, sstable.getLast());
            runs.put(sstable, run);
        }
        return runs;
    }

    private static void writeMemtables(DataOutputStream out, org.apache.cassandra.db.lifecycle.View tracked) throws IOException
    {
        long least = Long.MAX_VALUE;
        for (Memtable memtable : tracked.getAllMemtables())
            if (!memtable.isClean())
                least = Math.min(least, memtable.getMinTimestamp());
        out.writeBoolean(least != Long.MAX_VALUE);
        out.writeLong(least);
    }

    /** The capacity of the table's data directories, and what running compactions leave free. */
    private void writeDisk(DataOutputStream out) throws IOException
    {
        long capacity = 0;
        long free = 0;
        for (Directories.DataDirectory directory : cfs.getDirectories().getWriteableLocations())
        {
            capacity += directory.location.toJavaIOFile().getTotalSpace();
            free += directory.getAvailableSpace();
        }
        for (long needed : CompactionManager.instance.active.estimatedRemainingWriteToDiskBytes().values())
            free -= needed;
        out.writeLong(capacity);
        out.writeLong(Math.max(free, 0));
    }

    /** The part of the ring of which this node has a replica. */
    private double ringShare()
    {
        long now = Clock.Global.currentTimeMillis();
        if (now - shareTime > SHARE_VALID_MS)
        {
            double sum = 0;
            for (Replica replica : StorageService.instance.getLocalReplicas(cfs.getKeyspaceName()))
            {
                Range<Token> range = replica.range();
                sum += range.left.size(range.right);
            }
            share = sum > 0 && sum <= 1 ? sum : 1.0;
            shareTime = now;
        }
        return share;
    }

    private static void writeConstants(DataOutputStream out, SSTableReader sstable) throws IOException
    {
        out.writeLong(sstable.uncompressedLength());
        out.writeLong(sstable.bytesOnDisk());
        out.writeLong(sstable.getMinTimestamp());
        out.writeLong(sstable.getMaxTimestamp());
        out.writeLong(sstable.getMaxLocalDeletionTime());
        out.writeBoolean(sstable.mayHaveTombstones());
        out.writeLong(sstable.getDataCreationTime() / 1000);
        out.writeLong(sstable.estimatedKeys());
        write(out, sstable.getFirst().getKey());
        write(out, sstable.getLast().getKey());
        byte[] sketch = sketch(sstable.descriptor);
        out.writeInt(sketch == null ? -1 : sketch.length);
        if (sketch != null)
            out.write(sketch);
    }

    /** The sketch of the keys in Statistics.db; null if there is none. */
    private static byte[] sketch(Descriptor descriptor)
    {
        try
        {
            CompactionMetadata metadata = (CompactionMetadata) descriptor.getMetadataSerializer().deserialize(descriptor, MetadataType.COMPACTION);
            return metadata == null || metadata.cardinalityEstimator == null ? null : metadata.cardinalityEstimator.getBytes();
        }
        catch (IOException e)
        {
            // The SSTable was removed meanwhile, or is damaged: the estimate of shared partitions does without it.
            return null;
        }
    }

    private static void write(DataOutputStream out, ByteBuffer key) throws IOException
    {
        byte[] bytes = ByteBufferUtil.getArray(key);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
