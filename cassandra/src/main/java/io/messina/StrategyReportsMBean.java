package io.messina;

/** What operators can ask over JMX, as `io.messina:type=Compaction`. */
public interface StrategyReportsMBean
{
    /** The version of Messina's native library; why there is none. */
    String getVersion();

    /** What the strategies of a table consider now, and why they take or reject it. */
    String explain(String keyspace, String table);
}
