//! Tests the shell against a server with defined answers: the requests sent, and the text shown.

mod fake_server;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_server::{Answer, Asked, FakeServer};
use protocol::{CqlError, ProtocolVersion};
use unicode_width::UnicodeWidthStr;

use super::connection::{Credentials, Target};
use super::failure::Failure;
use super::interpreter::{Flow, Interpreter};
use super::output::{Format, Output};
use super::session::Session;

#[derive(Clone, Default)]
struct Screen(Rc<RefCell<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Desk {
    shell: Interpreter,
    out: Screen,
    errors: Screen,
}

fn target(port: u16) -> Target {
    Target {
        host: "127.0.0.1".to_string(),
        port,
        tls: None,
        credentials: None,
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(5),
    }
}

impl Desk {
    fn new(server: &FakeServer) -> Self {
        Self::with_format(server, Format::Table)
    }

    fn with_format(server: &FakeServer, format: Format) -> Self {
        Self::of(Session::open(target(server.port)).unwrap(), format)
    }

    fn of(session: Session, format: Format) -> Self {
        let (out, errors) = (Screen::default(), Screen::default());
        let output = Output::new(Box::new(out.clone()), Box::new(errors.clone()), format);
        Self { shell: Interpreter::new(session, output, None), out, errors }
    }

    fn run(&mut self, text: &str) -> Result<Flow, Failure> {
        self.shell.run_script("test.cql", text)
    }

    /// The output of the script, without any other output.
    fn shown(&mut self, text: &str) -> String {
        self.run(text).unwrap();
        self.take()
    }

    fn failure(&mut self, text: &str) -> String {
        self.run(text).unwrap_err().to_string()
    }

    fn take(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut *self.out.0.borrow_mut())).unwrap()
    }

    fn take_errors(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut *self.errors.0.borrow_mut())).unwrap()
    }
}

fn users(asked: &Asked<'_>) -> Answer {
    let columns = vec![("id", "int"), ("name", "text"), ("tags", "set<text>")];
    match asked.text {
        "SELECT * FROM users" => Answer::Rows(
            columns,
            vec![
                vec![Some("1"), Some("'Alice'"), Some("{'a', 'b'}")],
                vec![Some("20"), Some("'日本'"), None],
            ],
            None,
        ),
        "SELECT none" => Answer::Rows(columns, vec![], None),
        "SELEC 1" => {
            Answer::Error(CqlError::Syntax("line 1:0 no viable alternative at input 'SELEC'".to_string()))
        }
        "SELECT *\nFORM t" => {
            Answer::Error(CqlError::Syntax("line 2:0 mismatched input 'FORM' expecting FROM".to_string()))
        }
        "USE \"Shop\"" => Answer::SetKeyspace("Shop"),
        "LWT" => Answer::Rows(vec![("[applied]", "boolean")], vec![vec![Some("false")]], None),
        "BIG" => Answer::Warning("a partition of 2 GiB"),
        "CONSISTENCY OF IT" => Answer::Void,
        _ => Answer::Void,
    }
}

#[test]
fn login_goes_on_as_another_user() {
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::new(&server);
    let nobody = "The server asks nobody for a name (AllowAllAuthenticator): LOGIN changes nothing.\n";
    assert_eq!(desk.shown("LOGIN ann 'secret'"), nobody);
    let server = FakeServer::start_with_passwords(ProtocolVersion::V5, &["ann\0secret", "bob\0it's"], users);
    let credentials = Credentials { user: "ann".to_string(), password: "secret".to_string() };
    let target = Target { credentials: Some(credentials), ..target(server.port) };
    let mut desk = Desk::of(Session::open(target).unwrap(), Format::Table);
    desk.run("USE \"Shop\";").unwrap();
    assert_eq!(desk.shown("LOGIN bob 'it''s'"), "Logged in as bob.\n");
    assert_eq!(desk.shell.session.keyspace.as_deref(), Some("Shop"));
    // After a wrong password the session continues as before.
    assert!(desk.failure("LOGIN ann 'wrong'").contains("AuthenticationFailed"));
    assert_eq!(desk.shell.session.target().credentials.as_ref().unwrap().user, "bob");
    assert_eq!(desk.shown("INSERT INTO users;"), "");
    assert!(desk.failure("LOGIN ann").contains("LOGIN needs a password"));
}

#[test]
fn rows_are_a_table() {
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::new(&server);
    assert_eq!(
        desk.shown("SELECT * FROM users;").lines().collect::<Vec<_>>(),
        [
            "",
            " id | name  | tags",
            "----+-------+------------",
            "  1 | Alice | {'a', 'b'}",
            " 20 |  日本 |       null",
            "",
            "(2 rows)",
        ]
    );
    assert_eq!(desk.shown("SELECT none;"), "\n id | name | tags\n----+------+------\n\n(0 rows)\n");
    assert_eq!(desk.shown("LWT;"), "\n [applied]\n-----------\n     False\n\n(1 row)\n");
    assert_eq!(desk.shown("INSERT INTO users;"), "");
    assert!(
        desk.shown("EXPAND ON\nSELECT * FROM users").contains("@ Row 2\n------+------------\n id   | 20\n")
    );
}

#[test]
fn versions_are_tried_from_the_newest() {
    for newest in ProtocolVersion::ALL {
        let server = FakeServer::start(newest, users);
        let mut desk = Desk::new(&server);
        assert_eq!(desk.shell.session.protocol_version(), newest.number());
        assert!(desk.shown("LWT").contains("(1 row)"));
    }
}

#[test]
fn other_formats() {
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::with_format(&server, Format::Json);
    assert_eq!(
        desk.shown("SELECT * FROM users"),
        "{\"id\": 1, \"name\": \"Alice\", \"tags\": [\"a\", \"b\"]}\n\
         {\"id\": 20, \"name\": \"日本\", \"tags\": null}\n"
    );
    let mut desk = Desk::with_format(&server, Format::Csv);
    assert_eq!(desk.shown("SELECT * FROM users"), "id,name,tags\n1,Alice,\"{'a', 'b'}\"\n20,日本,\n");
}

#[test]
fn a_script_stops_at_the_first_error_and_shows_its_position() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let server = FakeServer::start(ProtocolVersion::V5, move |asked| {
        log.lock().unwrap().push(asked.text.to_string());
        users(asked)
    });
    let mut desk = Desk::new(&server);
    assert_eq!(
        desk.failure("-- a script\nINSERT 1;\n\n  SELEC 1; INSERT 2;"),
        "test.cql:4: SyntaxException: line 1:0 no viable alternative at input 'SELEC'\n  SELEC 1\n  ^^^^^"
    );
    assert_eq!(asked.lock().unwrap().as_slice(), ["INSERT 1", "SELEC 1"]);
    let error = desk.failure("\nSELECT *\nFORM t;");
    assert!(error.starts_with("test.cql:3: Syntax") && error.ends_with("\n  FORM t\n  ^^^^"), "{error}");
    let error = desk.failure("\nTRACING maybe\n");
    assert_eq!(error, "test.cql:2: write it as: TRACING [ON | OFF]");
    assert_eq!(desk.run("exit\nSELEC 1;").unwrap(), Flow::Exit);
}

#[test]
fn pages_are_one_result() {
    let server = FakeServer::start(ProtocolVersion::V5, |asked| {
        assert_eq!(asked.page_size_rows, Some(2));
        let columns = vec![("k", "int")];
        match asked.paging_state {
            None => Answer::Rows(columns, vec![vec![Some("1")], vec![Some("2")]], Some("second")),
            Some(b"second") => Answer::Rows(columns, vec![vec![Some("3")]], Some("third")),
            Some(_) => Answer::Rows(columns, vec![], None),
        }
    });
    let mut desk = Desk::new(&server);
    assert_eq!(desk.shown("PAGING 2"), "Paging is now on, 2 rows a page.\n");
    assert_eq!(desk.shown("SELECT k;"), "\n k\n---\n 1\n 2\n 3\n\n(3 rows)\n");
    desk.shown("EXPAND ON");
    let expanded = desk.shown("SELECT k;");
    assert!(expanded.contains("@ Row 3\n") && expanded.ends_with("\n\n(3 rows)\n"), "{expanded}");
}

#[test]
fn rows_wider_than_the_terminal_are_expanded_on_request() {
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::new(&server);
    assert_eq!(
        desk.shown("EXPAND AUTO"),
        "Expanded output is now on for rows that are wider than the terminal.\n"
    );
    let mut shown = |width| {
        desk.shell.output.width = width;
        desk.shown("SELECT * FROM users")
    };
    let table = shown(80);
    let width = table.lines().map(UnicodeWidthStr::width).max().unwrap();
    assert_eq!(shown(width), table);
    assert!(table.contains("id | name") && shown(width - 1).contains("@ Row 2\n"), "{table}");
}

#[test]
fn settings_are_printed_and_sent() {
    let server = FakeServer::start(ProtocolVersion::V4, |asked| {
        assert_eq!(asked.consistency, "LOCAL_QUORUM");
        Answer::Void
    });
    let mut desk = Desk::new(&server);
    assert_eq!(desk.shown("CONSISTENCY"), "Consistency level is ONE.\n");
    assert_eq!(desk.shown("consistency local_quorum;"), "Consistency level set to LOCAL_QUORUM.\n");
    assert_eq!(desk.shown("SERIAL CONSISTENCY"), "Serial consistency level is SERIAL.\n");
    assert_eq!(desk.shown("INSERT;"), "");
    assert_eq!(desk.shown("PAGING OFF"), "Paging is now off.\n");
    assert_eq!(desk.shown("EXPAND"), "Expanded output is off.\n");
    assert!(desk.failure("COPY t\nTO 'x';").contains("Not in any keyspace"));
    assert!(desk.failure("COPY ks.t TO x;").contains("a file in quotes, or STDOUT, found x"));
    assert!(desk.shown("HELP select").starts_with("SELECT "));
}

#[test]
fn warnings_and_use() {
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::new(&server);
    assert_eq!(desk.shown("BIG;"), "");
    assert_eq!(desk.take_errors(), "Warning: a partition of 2 GiB\n");
    desk.shown("USE \"Shop\";");
    assert_eq!(desk.shell.session.keyspace.as_deref(), Some("Shop"));
}

#[test]
fn files_are_read_and_written() {
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::new(&server);
    #[allow(clippy::disallowed_methods, reason = "a place for the test's files")]
    let dir = std::env::temp_dir().join(format!("messina-shell-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (script, captured) = (dir.join("script.cql"), dir.join("out.txt"));
    std::fs::write(&script, "LWT;\nSELEC 1;").unwrap();
    let error = desk.failure(&format!("\nSOURCE '{}'", script.display()));
    assert!(error.starts_with(&format!("{}:2: SyntaxException: ", script.display())), "{error}");
    assert!(desk.take().contains("(1 row)"));
    let said = desk.shown(&format!("CAPTURE '{}'\nLWT;\nCAPTURE OFF", captured.display()));
    assert!(!said.contains("False") && said.contains("CAPTURE OFF ends it"), "{said}");
    assert!(std::fs::read_to_string(&captured).unwrap().contains("     False\n"));
    std::fs::write(&script, format!("SOURCE '{}'", script.display())).unwrap();
    assert!(desk.failure(&format!("SOURCE '{}'", script.display())).contains("does one name itself?"));
    assert!(desk.failure("SOURCE 'nowhere.cql'").contains("cannot read nowhere.cql"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_server_that_was_restarted_is_found_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = FakeServer::start(ProtocolVersion::V5, move |asked| match asked.text {
        "USE ks" => Answer::SetKeyspace("ks"),
        "INSERT" | "SELECT 1" if counted.fetch_add(1, Ordering::SeqCst) == 0 => Answer::Close,
        _ => Answer::Void,
    });
    let mut desk = Desk::new(&server);
    desk.shown("USE ks;");
    desk.shown("SELECT 1;");
    assert!(desk.take_errors().contains("reconnected"));
    assert_eq!(desk.shell.session.keyspace.as_deref(), Some("ks"));
    assert_eq!(calls.load(Ordering::SeqCst), 2, "a read is sent again");

    calls.store(0, Ordering::SeqCst);
    let error = desk.failure("INSERT;");
    assert!(error.contains("it is unknown whether the statement took effect"), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a write is not");
    assert_eq!(desk.shown("INSERT;"), "");
}

#[test]
fn an_answer_that_is_late_is_not_the_next_one() {
    let server = FakeServer::start(ProtocolVersion::V5, |asked| match asked.text {
        "SLOW" => Answer::Silence,
        other => users(&Asked { text: other, ..asked.clone() }),
    });
    let mut target = target(server.port);
    target.request_timeout = Duration::from_millis(100);
    let mut session = Session::open(target).unwrap();
    assert!(matches!(session.query("SLOW", None), Err(Failure::Timeout { .. })));
    assert!(session.query("LWT", None).is_ok());
}

#[test]
fn errors_of_connections_state_the_next_step() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let failure = Session::open(target(free)).err().unwrap().to_string();
    assert_eq!(failure, format!("no server listens on 127.0.0.1:{free}: start one with: messina"));
}

#[test]
fn names_are_read_from_the_schema_tables() {
    let server = FakeServer::start(ProtocolVersion::V5, |asked| {
        let text = asked.text;
        let rows = |columns: &[&'static str], row: &[&'static str]| {
            Answer::Rows(
                columns.iter().map(|name| (*name, "text")).collect(),
                vec![row.iter().map(|value| Some(*value)).collect()],
                None,
            )
        };
        if text.contains("system_virtual_schema") {
            return Answer::Error(CqlError::Invalid("unknown keyspace".to_string()));
        }
        match text.rsplit('.').next() {
            Some("keyspaces") => rows(&["keyspace_name"], &["'ks'"]),
            Some("tables") => rows(&["keyspace_name", "table_name"], &["'ks'", "'t'"]),
            Some("columns") => rows(
                &["keyspace_name", "table_name", "column_name", "kind"],
                &["'ks'", "'t'", "'k'", "'partition_key'"],
            ),
            Some("types") => rows(&["keyspace_name", "type_name"], &["'ks'", "'u'"]),
            _ => Answer::Created,
        }
    });
    let mut desk = Desk::new(&server);
    desk.shell.refresh_names();
    let inside = &desk.shell.names.keyspaces["ks"];
    assert_eq!(inside.tables["t"][0].kind, "partition_key");
    assert_eq!(inside.types, ["u"]);
    assert!(!desk.shell.session.take_schema_changed());
    desk.shown("CREATE TABLE t;");
    assert!(desk.shell.session.take_schema_changed());
}

#[test]
fn a_missing_trace_is_reported() {
    let server = FakeServer::start(ProtocolVersion::V5, |asked| match asked.text.contains("system_traces") {
        true => Answer::Error(CqlError::Invalid("no system_traces".to_string())),
        false => Answer::Void,
    });
    let mut desk = Desk::new(&server);
    let id = "62c36092-82a1-3a00-93d1-46196ee77204";
    assert!(desk.shown(&format!("SHOW SESSION {id}")).contains("keeps no traces"));
    assert!(desk.failure("SHOW SESSION x").contains("UUID"));
    assert!(
        desk.shown("TRACING ON\nINSERT;").ends_with("The server has stored no trace of this statement.\n")
    );
}

#[test]
fn a_pipe_is_read_in_chunks() {
    struct Chunks(Vec<&'static str>);
    impl io::Read for Chunks {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let chunk = self.0.remove(0);
            into[..chunk.len()].copy_from_slice(chunk.as_bytes());
            Ok(chunk.len())
        }
    }
    let server = FakeServer::start(ProtocolVersion::V5, users);
    let mut desk = Desk::new(&server);
    super::run_stdin(&mut desk.shell, Chunks(vec!["LW", "T;\nSEL", "ECT none; LW", "T"])).unwrap();
    let shown = desk.take();
    assert_eq!(shown.matches("(1 row)").count(), 2, "{shown}");
    assert_eq!(shown.matches("(0 rows)").count(), 1);
    let failure = super::run_stdin(&mut desk.shell, Chunks(vec!["\n\nSELEC 1;\n"])).unwrap_err();
    assert!(failure.to_string().starts_with("<stdin>:3: "), "{failure}");
}

#[test]
fn lines_for_other_programs_get_a_hint_and_do_not_wait() {
    for (line, expect) in [
        ("\\d\n", "DESCRIBE TABLES lists tables"),
        ("\\dt users\n", "DESCRIBE TABLES lists tables"),
        ("nodetool status\n", "messina nodetool status"),
        ("messina nodetool flush\n", "type this in a terminal"),
        ("cqlsh 127.0.0.1\n", "type this in a terminal"),
    ] {
        let mut input = crate::input::InputBuffer::default();
        input.push(line);
        let piece = input.next().unwrap_or_else(|| panic!("{line:?} waits for more"));
        assert!(piece.is_command && input.pending().trim().is_empty(), "{line:?}");
        let error = crate::command::parse(&piece.text).expect_err("a hint");
        assert!(error.contains(expect), "{line:?}: {error}");
    }
}
