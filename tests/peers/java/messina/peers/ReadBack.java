package messina.peers;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
// Which of the two packages has the listener depends on the release.
import org.apache.cassandra.io.sstable.*;
import org.apache.cassandra.io.sstable.format.*;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableMetadata;

/**
 * Reads SSTables the way a query does, as no offline tool does: by key through filter, summary and index, in both orders, and row by row
 * through the index inside wide partitions. Each way must give what the sequential scan gives. Then it holds the counts and times
 * in Statistics.db, by which a node skips or drops whole SSTables, against what the scan met.
 */
public final class ReadBack
{
    /** How many rows of a partition are fetched one by one, spread evenly. */
    private static final int PROBES = 40;

    /** How many complaints are listed of one SSTable. */
    private static final int MOST_COMPLAINTS = 10;

    /** Any time will do: nothing is purged before the merge, which is where the check ends. */
    private static final int NOW_S = 1_700_000_000;

    private final ColumnFamilyStore store;
    /** Whether no other SSTable of the table can shadow what this one holds. */
    private final boolean alone;
    private final TableMetadata metadata;
    private final SSTableReader sstable;
    private final List<String> complaints = new ArrayList<>();

    private long minTimestamp = Long.MAX_VALUE;
    private long maxTimestamp = Long.MIN_VALUE;
    private long minLocalDeletionTime = Long.MAX_VALUE;
    private long maxLocalDeletionTime = Long.MIN_VALUE;
    private long minTtl = Long.MAX_VALUE;
    private long maxTtl = Long.MIN_VALUE;
    private long rows;

    private ReadBack(ColumnFamilyStore store, SSTableReader sstable)
    {
        this.store = store;
        this.alone = store.getLiveSSTables().size() == 1;
        this.metadata = store.metadata();
        this.sstable = sstable;
    }

    /** As a tool's main: keyspace and table; prints a line per SSTable, complaints on standard error. */
    public static void main(String[] args) throws Exception
    {
        ColumnFamilyStore store = Keyspace.open(args[0]).getColumnFamilyStore(args[1]);
        Set<SSTableReader> sstables = store.getLiveSSTables();
        for (SSTableReader sstable : sstables)
        {
            ReadBack reader = new ReadBack(store, sstable);
            long partitions = reader.check();
            String name = sstable.getFilename();
            name = name.substring(name.lastIndexOf('/') + 1);
            if (reader.complaints.isEmpty())
                System.out.println("read back " + name + " " + partitions);
            for (String complaint : reader.complaints.subList(0, Math.min(MOST_COMPLAINTS, reader.complaints.size())))
                System.err.println(name + ": " + complaint);
        }
    }

    /** Opens the keyspaces of the flushed schema, and with them their SSTables, as a starting node does. */
    static void openKeyspaces()
    {
        Schema.instance.loadFromDisk();
    }

    private long check() throws Exception
    {
        long partitions = 0;
        try (ISSTableScanner scanner = sstable.getScanner())
        {
            while (scanner.hasNext())
            {
                try (UnfilteredRowIterator partition = scanner.next())
                {
                    partitions++;
                    checkPartition(partition);
                }
            }
        }
        expect("totalRows", sstable.getTotalRows(), rows);
        if (partitions > 0)
        {
            expect("minTimestamp", sstable.getMinTimestamp(), minTimestamp);
            expect("maxTimestamp", sstable.getMaxTimestamp(), maxTimestamp);
            expect("minLocalDeletionTime", sstable.getMinLocalDeletionTime(), minLocalDeletionTime);
            expect("maxLocalDeletionTime", sstable.getMaxLocalDeletionTime(), maxLocalDeletionTime);
        }
        if (minTtl <= maxTtl) // something other than deletions of rows was met
        {
            expect("minTTL", sstable.getMinTTL(), minTtl);
            expect("maxTTL", sstable.getMaxTTL(), maxTtl);
        }
        return partitions;
    }

    private void checkPartition(UnfilteredRowIterator scanned) throws Exception
    {
        DecoratedKey key = scanned.partitionKey();
        String where = metadata.partitionKeyType.getString(key.getKey());
        DeletionTime deletion = scanned.partitionLevelDeletion();
        Row staticRow = scanned.staticRow();
        List<Unfiltered> all = new ArrayList<>();
        while (scanned.hasNext())
            all.add(scanned.next());

        meet(deletion);
        meet(staticRow);
        all.forEach(this::meet);

        for (boolean reversed : new boolean[]{ false, true })
        {
            String how = where + (reversed ? ", read in reverse" : ", read forward");
            List<Unfiltered> expected = new ArrayList<>(all);
            if (reversed)
                Collections.reverse(expected);
            try (UnfilteredRowIterator read = read(key, Slices.ALL, reversed))
            {
                if (!read.partitionLevelDeletion().equals(deletion))
                    complaints.add(how + ": partition deletion " + read.partitionLevelDeletion() + ", the scan has " + deletion);
                if (!read.staticRow().equals(staticRow))
                    complaints.add(how + ": static row " + read.staticRow().toString(metadata, true) + ", the scan has " + staticRow.toString(metadata, true));
                compare(how, read, expected);
            }
            List<Row> rows = new ArrayList<>();
            for (Unfiltered unfiltered : all)
                if (unfiltered.isRow())
                    rows.add((Row) unfiltered);
            for (int i = 0; i < rows.size(); i += Math.max(1, rows.size() / PROBES))
            {
                Row row = rows.get(i);
                if (alone && !reversed && !queryFinds(key, row))
                    complaints.add(where + ": a query of " + row.clustering().toString(metadata) + " does not find the row: the node passes over the SSTable");
                Slices slices = Slices.with(metadata.comparator, Slice.make(row.clustering()));
                List<Row> found = new ArrayList<>();
                try (UnfilteredRowIterator read = read(key, slices, reversed))
                {
                    while (read.hasNext())
                    {
                        Unfiltered unfiltered = read.next();
                        if (unfiltered.isRow())
                            found.add((Row) unfiltered);
                    }
                }
                if (found.size() != 1 || !found.get(0).equals(row))
                    complaints.add(how + ": a read of " + row.clustering().toString(metadata) + " alone gives " + found.size() + " rows or another row");
            }
        }
    }

    private UnfilteredRowIterator read(DecoratedKey key, Slices slices, boolean reversed)
    {
        return sstable.rowIterator(key, slices, ColumnFilter.all(metadata), reversed, SSTableReadsListener.NOOP_LISTENER);
    }

    /** Whether the node's read path, which first leaves out SSTables by their bounds and times, gives the row. */
    private boolean queryFinds(DecoratedKey key, Row row)
    {
        Slices slices = Slices.with(metadata.comparator, Slice.make(row.clustering()));
        SinglePartitionReadCommand command = SinglePartitionReadCommand.create(metadata, NOW_S, key, slices);
        try (ReadExecutionController controller = command.executionController();
             UnfilteredRowIterator found = command.queryMemtableAndDisk(store, controller))
        {
            while (found.hasNext())
                if (row.equals(found.next()))
                    return true;
            return false;
        }
    }

    private void compare(String how, UnfilteredRowIterator read, List<Unfiltered> expected)
    {
        for (int i = 0; i < expected.size(); i++)
        {
            if (!read.hasNext())
            {
                complaints.add(how + ": ends after " + i + " of " + expected.size() + " rows and markers");
                return;
            }
            Unfiltered unfiltered = read.next();
            if (!unfiltered.equals(expected.get(i)))
            {
                complaints.add(how + ": number " + i + " is " + unfiltered.toString(metadata, true) + ", the scan has " + expected.get(i).toString(metadata, true));
                return;
            }
        }
        if (read.hasNext())
            complaints.add(how + ": goes on after the " + expected.size() + " rows and markers of the scan");
    }

    private void meet(Unfiltered unfiltered)
    {
        if (unfiltered.isRangeTombstoneMarker())
        {
            RangeTombstoneMarker marker = (RangeTombstoneMarker) unfiltered;
            if (marker.isOpen(false))
                meet(marker.openDeletionTime(false));
            if (marker.isClose(false))
                meet(marker.closeDeletionTime(false));
            return;
        }
        Row row = (Row) unfiltered;
        if (row.isEmpty())
            return;
        rows++; // Cassandra counts the static row of a partition too
        LivenessInfo liveness = row.primaryKeyLivenessInfo();
        if (!liveness.isEmpty())
            meet(liveness.timestamp(), liveness.localExpirationTime(), liveness.ttl());
        meet(row.deletion().time());
        for (ColumnData data : row)
        {
            if (data instanceof ComplexColumnData)
            {
                ComplexColumnData complex = (ComplexColumnData) data;
                meet(complex.complexDeletion());
                for (Cell<?> cell : complex)
                    meet(cell);
            }
            else
            {
                meet((Cell<?>) data);
            }
        }
    }

    private void meet(Cell<?> cell)
    {
        meet(cell.timestamp(), cell.localDeletionTime(), cell.ttl());
    }

    private void meet(DeletionTime deletion)
    {
        if (deletion.isLive())
            return;
        meetTimestamp(deletion.markedForDeleteAt());
        meetLocalDeletionTime(deletion.localDeletionTime());
    }

    private void meet(long timestamp, long localDeletionTime, long ttl)
    {
        meetTimestamp(timestamp);
        meetLocalDeletionTime(localDeletionTime);
        minTtl = Math.min(minTtl, ttl);
        maxTtl = Math.max(maxTtl, ttl);
    }

    private void meetTimestamp(long timestamp)
    {
        minTimestamp = Math.min(minTimestamp, timestamp);
        maxTimestamp = Math.max(maxTimestamp, timestamp);
    }

    private void meetLocalDeletionTime(long localDeletionTime)
    {
        minLocalDeletionTime = Math.min(minLocalDeletionTime, localDeletionTime);
        maxLocalDeletionTime = Math.max(maxLocalDeletionTime, localDeletionTime);
    }

    private void expect(String what, long stated, long met)
    {
        if (stated != met)
            complaints.add("Statistics.db says " + what + " " + stated + ", the scan met " + met);
    }
}
