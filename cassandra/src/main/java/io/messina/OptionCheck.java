package io.messina;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.exceptions.ConfigurationException;

/** Checks the options of a table by the table of options of the crate `compaction`. */
final class OptionCheck
{
    private OptionCheck()
    {
    }

    /**
     * What the static validateOptions of each strategy does. Cassandra calls it for CREATE and ALTER TABLE, and, when a class is loaded, to
     * find out whether it has min_threshold and max_threshold; the second call must not fail, or the node cannot start.
     *
     * @return the options that the strategy does not know
     */
    static Map<String, String> validate(Class<?> strategy, boolean hasThresholds, Map<String, String> options)
    {
        Map<String, String> thresholds = new TreeMap<>(options);
        thresholds.keySet().retainAll(java.util.Set.of("min_threshold", "max_threshold"));
        if (isQuestionOfThresholds())
            return hasThresholds ? Collections.emptyMap() : options;
        NativeLibrary.require();
        if (!(DatabaseDescriptor.getPartitioner() instanceof Murmur3Partitioner))
            throw new ConfigurationException("Messina's compaction strategies need Murmur3Partitioner, and this cluster has "
                                             + DatabaseDescriptor.getPartitioner().getClass().getSimpleName());
        if (!hasThresholds && !thresholds.isEmpty())
            return thresholds;
        String error = NativeLibrary.checkOptions(encode(strategy, options));
        if (error != null)
            throw new ConfigurationException(error);
        return Collections.emptyMap();
    }

    private static boolean isQuestionOfThresholds()
    {
        return StackWalker.getInstance().walk(frames -> frames.anyMatch(frame -> frame.getMethodName().equals("supportsThresholdParams")));
    }

    /** A class and its options as the native library reads them. */
    static byte[] encode(Class<?> strategy, Map<String, String> options)
    {
        Map<String, String> all = new TreeMap<>(options);
        all.put("class", strategy.getSimpleName());
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes))
        {
            out.writeInt(all.size());
            for (Map.Entry<String, String> option : all.entrySet())
            {
                write(out, option.getKey());
                write(out, option.getValue());
            }
        }
        catch (IOException e)
        {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    private static void write(DataOutputStream out, String text) throws IOException
    {
        byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
        out.writeInt(encoded.length);
        out.write(encoded);
    }
}
