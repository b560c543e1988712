package io.messina;

import java.util.Map;

import org.apache.cassandra.db.ColumnFamilyStore;

/** Size tiers over runs of fragments: large merges need little temporary disk space once inputs are released early. */
public class IncrementalCompactionStrategy extends MessinaCompactionStrategy
{
    public IncrementalCompactionStrategy(ColumnFamilyStore cfs, Map<String, String> options)
    {
        super(cfs, options, true);
    }

    public static Map<String, String> validateOptions(Map<String, String> options)
    {
        return OptionCheck.validate(IncrementalCompactionStrategy.class, true, options);
    }
}
