import java.util.HashMap;
import java.util.Map;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.schema.CompactionParams;

/** Makes the compaction options of a table as a start does, then checks them as CREATE TABLE does; prints what came of it. */
public class OptionsOf
{
    public static void main(String[] args)
    {
        DatabaseDescriptor.toolInitialization();
        Map<String, String> options = new HashMap<>();
        options.put("class", "io.messina.IncrementalCompactionStrategy");
        options.put("sstable_size_in_mb", "100");
        CompactionParams params = CompactionParams.fromMap(options);
        System.out.println("START: loaded, min_threshold " + params.options().get("min_threshold"));
        try
        {
            params.validate();
            System.out.println("CREATE: accepted");
        }
        catch (ConfigurationException e)
        {
            System.out.println("CREATE: " + e.getMessage());
        }
        System.exit(0);
    }
}
