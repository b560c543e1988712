package io.messina;

import java.util.Map;

import org.apache.cassandra.db.ColumnFamilyStore;

/** Density levels, with the rules of Messina. */
public class UnifiedCompactionStrategy extends MessinaCompactionStrategy
{
    public UnifiedCompactionStrategy(ColumnFamilyStore cfs, Map<String, String> options)
    {
        super(cfs, options, false);
    }

    public static Map<String, String> validateOptions(Map<String, String> options)
    {
        return OptionCheck.validate(UnifiedCompactionStrategy.class, false, options);
    }
}
