package io.messina;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.utils.MBeanWrapper;

/** The JMX bean; see the interface. */
final class StrategyReports implements StrategyReportsMBean
{
    static final String NAME = "io.messina:type=Compaction";

    private static final AtomicBoolean REGISTERED = new AtomicBoolean();

    static void register()
    {
        if (REGISTERED.compareAndSet(false, true))
            MBeanWrapper.instance.registerMBean(new StrategyReports(), NAME, MBeanWrapper.OnException.LOG);
    }

    @Override
    public String getVersion()
    {
        return NativeLibrary.problem() == null ? NativeLibrary.version() : NativeLibrary.problem();
    }

    @Override
    public String explain(String keyspace, String table)
    {
        StringBuilder text = new StringBuilder();
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(keyspace, table);
        if (cfs == null)
            return "there is no table " + keyspace + '.' + table;
        for (List<AbstractCompactionStrategy> strategies : cfs.getCompactionStrategyManager().getStrategies())
            for (AbstractCompactionStrategy strategy : strategies)
                if (strategy instanceof MessinaCompactionStrategy)
                    text.append(((MessinaCompactionStrategy) strategy).explain()).append('\n');
        return text.length() == 0 ? keyspace + '.' + table + " has no strategy of Messina's" : text.toString();
    }
}
