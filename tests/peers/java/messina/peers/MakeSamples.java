package messina.peers;

import java.util.List;

import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.service.QueryState;

/**
 * Writes SSTables the way a node does: the statements go through Cassandra's executor into its memtables, and a flush writes them out.
 * A bulk writer would have been simpler, but it takes one kind of statement a file, and so never mixes rows with deletions.
 *
 * The clock is fixed, so expiry and deletion times are the same in every run; give each statement its USING TIMESTAMP.
 * Beside CQL a file may say `FLUSH`, which starts a new SSTable.
 */
final class MakeSamples
{
    /** 2023-11-14T22:13:20Z, what every statement takes for the present. */
    private static final int NOW_S = 1_700_000_000;

    private MakeSamples()
    {
    }

    static void write(List<String> statements) throws Exception
    {
        ReadBack.openKeyspaces();
        ClientState client = ClientState.forInternalCalls();
        for (String cql : statements)
        {
            if (cql.equals("FLUSH"))
            {
                flush();
                continue;
            }
            try
            {
                CQLStatement statement = QueryProcessor.getStatement(cql, client);
                statement.executeLocally(new QueryState(client, NOW_S * 1_000_000L, NOW_S), QueryOptions.DEFAULT);
            }
            catch (Exception e)
            {
                throw new IllegalArgumentException(e.getMessage() + "\n in: " + cql, e);
            }
        }
        flush();
    }

    private static void flush()
    {
        for (Keyspace keyspace : Keyspace.nonLocalStrategy())
            for (ColumnFamilyStore store : keyspace.getColumnFamilyStores())
                store.forceBlockingFlush(ColumnFamilyStore.FlushReason.INTERNALLY_FORCED);
    }
}
