package io.messina;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableFormat;

/**
 * The runs of the SSTables in one directory of a table. Cassandra's SSTables have no place for the id of a run, so it is kept in the file
 * messina-runs.txt beside them: a line for each fragment, with the id of the SSTable and the UUID of the run.
 *
 * The file is written before the SSTables are committed, and replaced as a whole. It is a hint: an SSTable without a line is a run of its
 * own, lines of SSTables that are not there are left out at the next writing, and fragments of a run that overlap do not count as one
 * (View).
 */
final class Runs
{
    private static final Logger logger = LoggerFactory.getLogger(Runs.class);

    static final String FILE = "messina-runs.txt";

    private static final ConcurrentMap<Path, Runs> BY_DIRECTORY = new ConcurrentHashMap<>();

    private final Path directory;
    private final Map<String, UUID> bySSTable = new TreeMap<>();

    private Runs(Path directory)
    {
        this.directory = directory;
        Path file = directory.resolve(FILE);
        try
        {
            if (!Files.exists(file))
                return;
            for (String line : Files.readAllLines(file, StandardCharsets.UTF_8))
            {
                String[] fields = line.split(" ");
                if (fields.length == 2)
                    bySSTable.put(fields[0], UUID.fromString(fields[1]));
            }
        }
        catch (IOException | IllegalArgumentException e)
        {
            logger.warn("{} cannot be read ({}): each SSTable without a line counts as a run of its own", file, e.toString());
        }
    }

    static Runs of(Descriptor descriptor)
    {
        return BY_DIRECTORY.computeIfAbsent(descriptor.directory.toPath(), Runs::new);
    }

    /** The run of an SSTable; null: it is one of its own. */
    synchronized UUID find(Descriptor descriptor)
    {
        return bySSTable.get(descriptor.id.toString());
    }

    synchronized void add(Descriptor descriptor, UUID run)
    {
        bySSTable.put(descriptor.id.toString(), run);
    }

    private synchronized void remove(Descriptor descriptor)
    {
        bySSTable.remove(descriptor.id.toString());
    }

    static void forget(Collection<Descriptor> descriptors)
    {
        descriptors.forEach(descriptor -> of(descriptor).remove(descriptor));
    }

    /** Writes the files of the directories of these SSTables. */
    static void save(Collection<Descriptor> descriptors)
    {
        Set<Runs> changed = new HashSet<>();
        Descriptor any = null;
        for (Descriptor descriptor : descriptors)
        {
            changed.add(of(descriptor));
            any = descriptor;
        }
        for (Runs runs : changed)
            runs.write(any);
    }

    private synchronized void write(Descriptor any)
    {
        Path file = directory.resolve(FILE);
        Path fresh = directory.resolve(FILE + ".tmp");
        try
        {
            Set<String> present = new HashSet<>();
            try (java.util.stream.Stream<Path> files = Files.list(directory))
            {
                files.forEach(path -> {
                    String name = path.getFileName().toString();
                    if (name.endsWith('-' + SSTableFormat.Components.DATA.name()))
                        present.add(name);
                });
            }
            List<String> lines = new ArrayList<>();
            bySSTable.keySet().removeIf(id -> present.stream().noneMatch(name -> name.contains('-' + id + '-')));
            bySSTable.forEach((id, run) -> lines.add(id + ' ' + run));
            if (lines.isEmpty() && !Files.exists(file))
                return;
            Files.write(fresh, lines, StandardCharsets.UTF_8);
            try (java.nio.channels.FileChannel channel = java.nio.channels.FileChannel.open(fresh, java.nio.file.StandardOpenOption.WRITE))
            {
                channel.force(true);
            }
            Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }
        catch (IOException e)
        {
            logger.warn("{} cannot be written ({}): after a restart each fragment of a new run counts as a run of its own", file, e.toString());
        }
    }
}
