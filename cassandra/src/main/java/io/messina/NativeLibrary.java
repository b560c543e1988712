package io.messina;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.cassandra.exceptions.ConfigurationException;

/**
 * The native library of the jar (crates/ring): where it is found, how it is loaded, and its functions.
 *
 * The library is written to a file in a new directory, both with mode 0700, loaded, and removed: the process keeps it mapped. If this
 * fails, nothing else is done: {@link #problem()} has the reason, CREATE and ALTER TABLE are refused with it, and tables that exist are
 * served without compactions.
 */
final class NativeLibrary
{
    /** The version of the calls, the same as CALLS_VERSION of crates/ring/src/lib.rs. */
    static final int CALLS_VERSION = 1;

    private static final String FILE = "libmessina_ring.so";

    private static final String PROBLEM = load();

    private NativeLibrary()
    {
    }

    static native int callsVersion();

    static native String version();

    static native String checkOptions(byte[] options);

    static native long open(byte[] options);

    static native void close(long handle);

    static native byte[] next(long handle, byte[] view);

    static native byte[] major(long handle, byte[] view, boolean split);

    static native String explain(long handle, byte[] view);

    static native void finished(long handle, byte[] report);

    static native long sstableBytes(long handle);

    static native long mergeStart(byte[] request);

    static native long mergeProgress(long handle, long allowedBytes);

    static native void mergeStop(long handle);

    static native byte[] mergeFinish(long handle);

    /** Why the library cannot be used, and what to do; null if it can. */
    static String problem()
    {
        return PROBLEM;
    }

    /** Refuses a statement of a user if the library cannot be used. */
    static void require()
    {
        if (PROBLEM != null)
            throw new ConfigurationException(PROBLEM);
    }

    private static String load()
    {
        String platform = platform();
        if (platform == null)
            return String.format("Messina's compaction strategies have no native library for %s on %s; they run on Linux on amd64 and aarch64",
                                 System.getProperty("os.name"), System.getProperty("os.arch"));
        String resource = "native/" + platform + '/' + FILE;
        Path directory = null;
        Path file = null;
        try (InputStream content = NativeLibrary.class.getResourceAsStream(resource))
        {
            if (content == null)
                return String.format("Messina's compaction strategies cannot be used: the jar has no io/messina/%s; install a jar that was built for %s",
                                     resource, platform);
            directory = Files.createTempDirectory("messina-", PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            file = Files.createFile(directory.resolve(FILE), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            Files.copy(content, file, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwx------"));
            System.load(file.toString());
            int found = callsVersion();
            if (found != CALLS_VERSION)
                return String.format("Messina's compaction strategies cannot be used: the native library has call version %d, the classes have %d; "
                                     + "install one jar of one release", found, CALLS_VERSION);
            return null;
        }
        catch (UnsatisfiedLinkError | IOException | RuntimeException e)
        {
            return String.format("Messina's compaction strategies cannot be used: their native library could not be loaded (%s); it is written to "
                                 + "java.io.tmpdir, now %s, which must be writable and not mounted noexec", e, System.getProperty("java.io.tmpdir"));
        }
        finally
        {
            remove(file);
            remove(directory);
        }
    }

    private static void remove(Path path)
    {
        try
        {
            if (path != null)
                Files.deleteIfExists(path);
        }
        catch (IOException e)
        {
            // A file that stays in the directory for temporary files does no harm.
        }
    }

    /** The folder of the library in the jar; null for a platform without one. */
    private static String platform()
    {
        if (!"Linux".equals(System.getProperty("os.name")))
            return null;
        switch (System.getProperty("os.arch"))
        {
            case "amd64":
            case "x86_64":
                return "linux-x86_64";
            case "aarch64":
                return "linux-aarch64";
            default:
                return null;
        }
    }
}
