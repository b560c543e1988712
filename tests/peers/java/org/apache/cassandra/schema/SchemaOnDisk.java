package org.apache.cassandra.schema;

import java.util.Collection;
import java.util.List;

import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.statements.schema.AlterSchemaStatement;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.service.ClientState;

/**
 * Turns CQL definitions into flushed system_schema SSTables, so that Cassandra's offline tools find the tables on disk as they would
 * in the home of a node. It lives in Cassandra's package because the two calls it needs (definitions to mutations, and the
 * transformation of one statement) are private to it.
 */
public final class SchemaOnDisk
{
    private SchemaOnDisk()
    {
    }

    /** Applies the statements in order to an empty schema and writes the result. The descriptor must have been set up
     * as for a node: what is set up for tools has no memtables to write into. */
    public static void write(List<String> statements) throws Exception
    {
        Keyspaces before = Keyspaces.none();
        Keyspaces after = before;
        ClientState state = ClientState.forInternalCalls();
        for (String cql : statements)
        {
            try
            {
                CQLStatement statement = QueryProcessor.getStatement(cql, state);
                if (statement instanceof AlterSchemaStatement)
                    after = ((AlterSchemaStatement) statement).apply(after);
                else
                    throw new IllegalArgumentException("only statements that define something belong in a schema file");
            }
            catch (Exception e)
            {
                throw new IllegalArgumentException(e.getMessage() + "\n in: " + cql, e);
            }
        }

        // The schema tables are flushed, which asks the commit log for its position.
        CommitLog.instance.start();
        Schema.instance.loadFromDisk();
        Keyspaces.KeyspacesDiff diff = Keyspaces.diff(before, after);
        Collection<Mutation> mutations = SchemaKeyspace.convertSchemaDiffToMutations(diff, System.currentTimeMillis() * 1000);
        for (Mutation mutation : mutations)
            mutation.applyUnsafe();
        for (ColumnFamilyStore store : Keyspace.open(SchemaConstants.SCHEMA_KEYSPACE_NAME).getColumnFamilyStores())
            store.forceBlockingFlush(ColumnFamilyStore.FlushReason.INTERNALLY_FORCED);
    }
}
