package io.messina;

import java.util.Map;

import org.apache.cassandra.db.ColumnFamilyStore;

/** Windows of time, with the rules of Messina. */
public class TimeWindowCompactionStrategy extends MessinaCompactionStrategy
{
    public TimeWindowCompactionStrategy(ColumnFamilyStore cfs, Map<String, String> options)
    {
        super(cfs, options, true);
    }

    public static Map<String, String> validateOptions(Map<String, String> options)
    {
        return OptionCheck.validate(TimeWindowCompactionStrategy.class, true, options);
    }
}
