package io.messina;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Token;

/** A plan of the native library: which SSTables are merged, and how the output is cut. */
final class Plan
{
    /** A part of the ring whose output belongs to a run. It ends before or after a key, or before or after all keys of a token. */
    static final class Piece
    {
        final Token token;
        /** Null: the piece ends at the token. */
        final DecoratedKey key;
        final boolean isAfter;
        final UUID run;

        Piece(Token token, DecoratedKey key, boolean isAfter, UUID run)
        {
            this.token = token;
            this.key = key;
            this.isAfter = isAfter;
            this.run = run;
        }

        boolean endsBefore(DecoratedKey other)
        {
            int order = key != null ? key.compareTo((PartitionPosition) other) : token.compareTo(other.getToken());
            return order < 0 || (order == 0 && !isAfter);
        }
    }

    /** The number by which the end is reported; 0: the native library has not made the plan. */
    final long number;
    final List<Long> inputs = new ArrayList<>();
    final int level;
    /** Size of an output before compression; Long.MAX_VALUE: any. */
    final long maxBytes;
    /** The run of all outputs; null: each is a run of its own. */
    final UUID run;
    /** An output ends after each of these tokens. */
    final List<Token> tokens = new ArrayList<>();
    final List<Piece> pieces = new ArrayList<>();
    final String reason;

    /** A merge that a user requested. */
    Plan(int level, long maxBytes, UUID run, String reason)
    {
        this.number = 0;
        this.level = level;
        this.maxBytes = maxBytes;
        this.run = run;
        this.reason = reason;
    }

    private Plan(DataInputStream in, IPartitioner partitioner) throws IOException
    {
        number = in.readLong();
        // The inputs, then the SSTables in which all has expired. Cassandra checks again whether these can be dropped without being read.
        for (int list = 0; list < 2; list++)
            for (int count = in.readInt(); count > 0; count--)
                inputs.add(in.readLong());
        level = in.readInt();
        long most = in.readLong();
        maxBytes = most < 0 ? Long.MAX_VALUE : most;
        boolean isRun = in.readBoolean();
        int split = in.readByte();
        switch (split)
        {
            case 0:
                break;
            case 1:
                for (int count = in.readInt(); count > 0; count--)
                    tokens.add(new LongToken(in.readLong()));
                break;
            case 2:
                // Cassandra's merge cannot divide a partition by time, so the output stays whole, as Cassandra's own strategy leaves it.
                in.readLong();
                in.readInt();
                break;
            case 3:
                for (int count = in.readInt(); count > 0; count--)
                {
                    boolean isAfter = in.readBoolean();
                    int length = in.readInt();
                    DecoratedKey key = length < 0 ? null : partitioner.decorateKey(ByteBuffer.wrap(in.readNBytes(length)));
                    Token token = key != null ? key.getToken() : new LongToken(in.readLong());
                    pieces.add(new Piece(token, key, isAfter, new UUID(in.readLong(), in.readLong())));
                }
                break;
            default:
                throw new IOException("unknown split " + split);
        }
        run = isRun && pieces.isEmpty() ? UUID.randomUUID() : null;
        in.readBoolean(); // inputs may be released early: not with Cassandra's merge
        reason = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
    }

    /** The plan of a decision; null if there is none. The pending jobs come first and are put into `pending`. */
    static Plan read(byte[] message, IPartitioner partitioner, long[] pending)
    {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(message)))
        {
            pending[0] = in.readLong();
            return in.readByte() == 0 ? null : new Plan(in, partitioner);
        }
        catch (IOException e)
        {
            throw new UncheckedIOException(e);
        }
    }

    /** The plans of a major compaction. */
    static List<Plan> readAll(byte[] message, IPartitioner partitioner)
    {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(message)))
        {
            List<Plan> plans = new ArrayList<>();
            for (int count = in.readInt(); count > 0; count--)
                plans.add(new Plan(in, partitioner));
            return plans;
        }
        catch (IOException e)
        {
            throw new UncheckedIOException(e);
        }
    }

    /** The index of the part of the ring, by tokens or pieces, in which a key is. */
    int partOf(DecoratedKey key, int from)
    {
        int part = from;
        while (part < tokens.size() && key.getToken().compareTo(tokens.get(part)) > 0)
            part++;
        while (part < pieces.size() && pieces.get(part).endsBefore(key))
            part++;
        return part;
    }
}
