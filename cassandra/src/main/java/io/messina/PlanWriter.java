package io.messina;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.UUID;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.writers.CompactionAwareWriter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;

/** Writes the output of Cassandra's merge, cut as a plan says, and records the runs of the outputs before they are committed. */
final class PlanWriter extends CompactionAwareWriter
{
    private final Plan plan;
    private final List<Descriptor> outputs = new ArrayList<>();
    private final long keysPerOutput;
    private int part;
    private Collection<SSTableReader> written = List.of();

    PlanWriter(ColumnFamilyStore cfs, Directories directories, LifecycleTransaction txn, Set<SSTableReader> inputs, Plan plan)
    {
        super(cfs, directories, txn, inputs, false);
        this.plan = plan;
        long bytes = 0;
        for (SSTableReader input : inputs)
            bytes += input.uncompressedLength();
        long outputCount = 1 + Math.max(bytes / plan.maxBytes, plan.tokens.size() + plan.pieces.size());
        keysPerOutput = Math.max(1, estimatedTotalKeys / outputCount);
    }

    @Override
    protected boolean shouldSwitchWriterInCurrentLocation(DecoratedKey key)
    {
        return sstableWriter.currentWriter().getFilePointer() >= plan.maxBytes || plan.partOf(key, part) != part;
    }

    @Override
    protected SSTableWriter sstableWriter(Directories.DataDirectory directory, DecoratedKey nextKey)
    {
        SSTableWriter writer = super.sstableWriter(directory, nextKey);
        part = plan.partOf(nextKey, part);
        UUID run = part < plan.pieces.size() ? plan.pieces.get(part).run : plan.run;
        outputs.add(writer.descriptor);
        if (run != null)
            Runs.of(writer.descriptor).add(writer.descriptor, run);
        return writer;
    }

    @Override
    protected int sstableLevel()
    {
        return plan.level;
    }

    @Override
    protected long sstableKeyCount()
    {
        return keysPerOutput;
    }

    @Override
    protected void doPrepare()
    {
        super.doPrepare();
        Runs.save(outputs);
    }

    @Override
    protected Throwable doAbort(Throwable accumulate)
    {
        Runs.forget(outputs);
        return super.doAbort(accumulate);
    }

    @Override
    public Collection<SSTableReader> finish()
    {
        written = super.finish();
        return written;
    }

    Collection<SSTableReader> written()
    {
        return written;
    }
}
