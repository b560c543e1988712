package messina.peers;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.BufferedOutputStream;
import java.io.Writer;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.Permission;
import java.util.ArrayList;
import java.util.List;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.schema.SchemaOnDisk;

/**
 * Runs the main classes of Cassandra's tools one after another in one JVM, since starting one costs seconds and a run a fraction.
 *
 * The first argument is a plan, one step a line, fields parted by tabs:
 *   schema FILES...                              define the files' CQL and flush the schema tables into the configured data
 *                                                directory; this sets Cassandra up as a node, after which no tool of Cassandra runs in this JVM
 *   open                                         after schema: open the tables and their SSTables as a starting node does; then
 *                                                messina.peers.ReadBack can be run
 *   write FILE                                   after schema: execute FILE's statements and flush all tables (MakeSamples)
 *   run CLASS STDOUT-FILE STDERR-FILE ARGS...    call CLASS.main(ARGS) with its output in the two files
 * The second is the file for the results, one line a step: "exit CODE MILLISECONDS" or "threw MILLISECONDS" (the trace is in the
 * error file). A tool that calls System.exit ends its step, not the JVM. A schema or write step that fails ends the JVM with status 2.
 */
@SuppressWarnings({"removal", "deprecation"})
public final class PeerTools
{
    /** Thrown in place of leaving the JVM. An error, so that no tool's `catch (Exception e)` takes it for a failure of its own. */
    private static final class Exit extends Error
    {
        final int code;

        Exit(int code)
        {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    /** The code of the first exit of the running step, or null. A second exit, from a finally, must not hide the first. */
    private static volatile Integer firstExit;
    private static volatile boolean trapping;

    private static final class ExitTrap extends SecurityManager
    {
        @Override
        public void checkExit(int code)
        {
            if (!trapping)
                return;
            if (firstExit == null)
                firstExit = code;
            throw new Exit(firstExit);
        }

        @Override
        public void checkPermission(Permission permission)
        {
        }

        @Override
        public void checkPermission(Permission permission, Object context)
        {
        }
    }

    public static void main(String[] args) throws Exception
    {
        List<String> plan = Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8);
        System.setSecurityManager(new ExitTrap());
        try (Writer results = Files.newBufferedWriter(Paths.get(args[1]), StandardCharsets.UTF_8))
        {
            for (String line : plan)
            {
                String[] step = line.split("\t", -1);
                long start = System.nanoTime();
                String outcome = step[0].equals("run") ? run(step) : define(step);
                results.write(outcome + " " + (System.nanoTime() - start) / 1_000_000 + "\n");
                results.flush();
            }
        }
        // Cassandra leaves threads behind that would keep the JVM.
        System.exit(0);
    }

    /** The steps that prepare a home. What follows makes no sense without them, so a failure ends the JVM. */
    private static String define(String[] step) throws IOException
    {
        try
        {
            if (step[0].equals("schema"))
            {
                DatabaseDescriptor.daemonInitialization();
                List<String> statements = new ArrayList<>();
                for (int i = 1; i < step.length; i++)
                    statements.addAll(statements(Paths.get(step[i])));
                SchemaOnDisk.write(statements);
            }
            else if (step[0].equals("open"))
            {
                ReadBack.openKeyspaces();
            }
            else if (step[0].equals("write"))
            {
                MakeSamples.write(statements(Paths.get(step[1])));
            }
            else
            {
                throw new IllegalArgumentException("no such step: " + step[0]);
            }
            return "exit 0";
        }
        catch (Throwable e)
        {
            System.err.println(String.join(" ", step) + ": " + e.getMessage());
            e.printStackTrace();
            System.exit(2);
            throw new AssertionError("unreachable");
        }
    }

    private static String run(String[] step) throws IOException
    {
        String[] args = new String[step.length - 4];
        System.arraycopy(step, 4, args, 0, args.length);
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        try (PrintStream out = open(step[2]); PrintStream err = open(step[3]))
        {
            System.setOut(out);
            System.setErr(err);
            firstExit = null;
            trapping = true;
            try
            {
                Method main = Class.forName(step[1]).getMethod("main", String[].class);
                main.invoke(null, (Object) args);
                return "exit 0";
            }
            catch (InvocationTargetException wrapped)
            {
                if (firstExit != null)
                    return "exit " + firstExit;
                wrapped.getCause().printStackTrace(err);
                return "threw";
            }
            catch (Throwable e) // the class is missing or could not be initialized
            {
                e.printStackTrace(err);
                return "threw";
            }
        }
        finally
        {
            trapping = false;
            System.setOut(stdout);
            System.setErr(stderr);
        }
    }

    private static PrintStream open(String file) throws IOException
    {
        return new PrintStream(new BufferedOutputStream(new FileOutputStream(file)), false, "UTF-8");
    }

    /** The statements of a CQL file, without comments; a semicolon inside a string or a quoted name does not end one. */
    private static List<String> statements(Path file) throws IOException
    {
        String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
        List<String> statements = new ArrayList<>();
        StringBuilder current = new StringBuilder();
        for (int i = 0; i < text.length(); i++)
        {
            char c = text.charAt(i);
            if (text.startsWith("--", i) || text.startsWith("//", i))
            {
                int end = text.indexOf('\n', i);
                i = end < 0 ? text.length() : end;
                current.append('\n');
            }
            else if (text.startsWith("/*", i))
            {
                int end = text.indexOf("*/", i + 2);
                if (end < 0)
                    throw new IllegalArgumentException(file + ": a comment is not closed");
                i = end + 1;
                current.append(' ');
            }
            else if (c == '\'' || c == '"')
            {
                int end = text.indexOf(c, i + 1);
                if (end < 0)
                    throw new IllegalArgumentException(file + ": a quote is not closed");
                current.append(text, i, end + 1);
                i = end;
            }
            else if (c == ';')
            {
                add(statements, current);
            }
            else
            {
                current.append(c);
            }
        }
        add(statements, current);
        return statements;
    }

    private static void add(List<String> statements, StringBuilder current)
    {
        String statement = current.toString().trim();
        if (!statement.isEmpty())
            statements.add(statement);
        current.setLength(0);
    }
}
