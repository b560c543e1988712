package io.messina;

import java.util.Map;

import org.apache.cassandra.db.ColumnFamilyStore;

/** Levels of SSTables that do not overlap, with the rules of Messina. */
public class LeveledCompactionStrategy extends MessinaCompactionStrategy
{
    public LeveledCompactionStrategy(ColumnFamilyStore cfs, Map<String, String> options)
    {
        super(cfs, options, true);
    }

    public static Map<String, String> validateOptions(Map<String, String> options)
    {
        return OptionCheck.validate(LeveledCompactionStrategy.class, true, options);
    }
}
