package io.messina;

import java.util.Map;

import org.apache.cassandra.db.ColumnFamilyStore;

/** Size tiers, with the rules of Messina. */
public class SizeTieredCompactionStrategy extends MessinaCompactionStrategy
{
    public SizeTieredCompactionStrategy(ColumnFamilyStore cfs, Map<String, String> options)
    {
        super(cfs, options, true);
    }

    public static Map<String, String> validateOptions(Map<String, String> options)
    {
        return OptionCheck.validate(SizeTieredCompactionStrategy.class, true, options);
    }
}
