package messina.peers;

import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.marshal.IntegerType;
import org.apache.cassandra.db.marshal.TypeParser;
import org.apache.cassandra.io.tries.Walker;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.apache.cassandra.utils.bytecomparable.ByteSourceInverse;

/**
 * Prints how Cassandra encodes clustering values for its tries: a line each of type, value and encoding, the last two in hexadecimal.
 *
 * The argument is a file of lines "TYPE VALUE..." with values in hexadecimal and "-" for no bytes. Numbers of any length are added here,
 * from a fixed seed.
 */
public final class ByteComparableSamples
{
    private ByteComparableSamples()
    {
    }

    public static void main(String[] args) throws Exception
    {
        DatabaseDescriptor.toolInitialization();
        PrintStream out = System.out;
        Path file = Paths.get(args[0]);
        for (String line : Files.readAllLines(file, StandardCharsets.UTF_8))
        {
            String[] words = line.split(" ");
            AbstractType<?> type = TypeParser.parse("org.apache.cassandra.db.marshal." + words[0]);
            for (int i = 1; i < words.length; i++)
                print(out, type, words[i].equals("-") ? ByteBufferUtil.EMPTY_BYTE_BUFFER : ByteBufferUtil.hexToBytes(words[i]));
        }
        Random random = new Random(1);
        List<BigInteger> numbers = new ArrayList<>();
        for (int bits : new int[]{ 0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 63, 64, 65, 127, 500, 1016, 1023, 1024, 1032, 2047, 2048, 3000 })
        {
            numbers.add(BigInteger.ONE.shiftLeft(bits));
            numbers.add(BigInteger.ONE.shiftLeft(bits).negate());
            numbers.add(BigInteger.ONE.shiftLeft(bits).subtract(BigInteger.ONE));
            numbers.add(new BigInteger(bits + 1, random).negate());
            numbers.add(new BigInteger(bits + 1, random));
        }
        for (BigInteger number : numbers)
            print(out, IntegerType.instance, IntegerType.instance.decompose(number));
        int[] scales = { 0, 1, 2, 3, -1, -2, -3, 7, -7, 100, -100, 255, 256, -256, -508, -509, -510, -511, -512, -513, 508, 509, 510, 511, 512, 513, 514, 515, 65535, -65536, 1_000_000, -1_000_001, 2_000_000_000, Integer.MAX_VALUE, Integer.MIN_VALUE };
        for (int round = 0; round < 200; round++)
        {
            BigInteger number = round < 60 ? numbers.get(round) : BigInteger.valueOf(random.nextInt(2_000_000) - 1_000_000);
            print(out, DecimalType.instance, DecimalType.instance.decompose(new BigDecimal(number, scales[round % scales.length])));
        }
        out.flush();
    }

    private static void print(PrintStream out, AbstractType<?> type, ByteBuffer value)
    {
        ByteSource source = new ClusteringComparator(type).asByteComparable(Clustering.make(value)).asComparableBytes(Walker.BYTE_COMPARABLE_VERSION);
        String encoded = ByteBufferUtil.bytesToHex(ByteBuffer.wrap(ByteSourceInverse.readBytes(source)));
        String name = type.toString().replace("org.apache.cassandra.db.marshal.", "");
        out.println(name + " " + (value.hasRemaining() ? ByteBufferUtil.bytesToHex(value) : "-") + " " + encoded);
    }
}
