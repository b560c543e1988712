//! Logins, roles and service levels of a node that asks for passwords.
//!
//! Clients of data log in as a superuser or as `ann`, whose requests have the service level `fast`. One
//! client at a time changes the role `ben` and the level, and checks that each change is in effect when it is
//! answered: for logins on new connections, for LIST, and after restarts. A change without an answer may
//! happen until the next restart; until then nothing is known and nothing more is changed.

use std::cell::RefCell;
use std::rc::Rc;

use protocol::{CqlError, ProtocolVersion, Request, Response};
use runtime::Shard;

use super::connection::Connection;
use super::notes::Checker;
use super::schema;
use super::session::{Answered, Home, Session, Statement, With};

/// The role that the node begins with.
pub const SUPERUSER: Login = Login { role: "root", password: "root" };
const ANN: Login = Login { role: "ann", password: "one" };

/// bcrypt of "root", at the lowest cost. Hashes are constants, because salts are random.
pub const SUPERUSER_HASH: &str = "$2a$04$abcdefghijklmnopqrstuufAkr.oEPMKRzIoj4GvblEuuKtPZm.pq";

/// Passwords with their hashes.
const PASSWORDS: [(&str, &str); 2] = [
    ("one", "$2a$04$abcdefghijklmnopqrstuuuiMd1XkP3MYkehzxpPHB6m5Tr0FZSYG"),
    ("two", "$2a$04$abcdefghijklmnopqrstuuIHDRnKw4Zdb/3/EAZQMg/2vwJPJBL7u"),
];

/// A role and its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub role: &'static str,
    pub password: &'static str,
}

impl Login {
    /// The token of AUTH_RESPONSE.
    pub fn token(self) -> Vec<u8> {
        format!("\0{}\0{}", self.role, self.password).into_bytes()
    }
}

/// What the node must know of the role `ben`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ben {
    /// A place in [`PASSWORDS`].
    password: usize,
    can_login: bool,
}

/// What the node must know of the level `fast`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fast {
    shares: i32,
    is_attached: bool,
}

#[derive(Clone, Copy, Debug)]
enum Known<T> {
    Is(T),
    /// Until the next change.
    Unknown,
    /// A change may still be in progress.
    Changing,
}

impl<T: Copy> Known<T> {
    fn restarted(&mut self, loses_acknowledged: bool) {
        match self {
            Self::Is(_) if !loses_acknowledged => {}
            _ => *self = Self::Unknown,
        }
    }
}

/// See the head of this file.
pub struct Logins {
    ben: RefCell<Known<Ben>>,
    fast: RefCell<Known<Fast>>,
}

impl Logins {
    pub fn new() -> Rc<Self> {
        Rc::new(Self { ben: RefCell::new(Known::Unknown), fast: RefCell::new(Known::Unknown) })
    }

    /// The login of a client of data.
    pub fn pick(&self, session: &Session) -> Login {
        if session.chance(2, 3) { ANN } else { SUPERUSER }
    }

    /// Creates the roles and the level that do not exist; compares what a restart must have kept.
    pub async fn restarted(&self, session: &Session, loses_acknowledged: bool) {
        self.ben.borrow_mut().restarted(loses_acknowledged);
        self.fast.borrow_mut().restarted(loses_acknowledged);
        self.check_logins(session).await;
        self.check_level(session).await;
        for text in [
            format!(
                "CREATE ROLE IF NOT EXISTS ann WITH HASHED PASSWORD = '{}' AND LOGIN = true",
                PASSWORDS[0].1
            ),
            "CREATE ROLE IF NOT EXISTS ben".to_string(),
            "CREATE SERVICE LEVEL IF NOT EXISTS fast WITH shares = 500".to_string(),
        ] {
            if let Answered::Refused(error) = schema::run(session, text.clone()).await {
                session.home.notes.fail(Checker::Access, format!("{text}: {error}"));
            }
        }
    }

    /// Some changes, one after the other.
    pub async fn change(&self, session: &Session) {
        for _ in 0..1 + session.below(4) {
            if session.chance(1, 2) {
                self.change_ben(session).await;
                self.check_logins(session).await;
            } else {
                self.change_level(session).await;
                self.check_level(session).await;
            }
        }
    }

    async fn change_ben(&self, session: &Session) {
        let before = *self.ben.borrow();
        if matches!(before, Known::Changing) {
            return;
        }
        let new = Ben { password: session.below(2) as usize, can_login: session.chance(2, 3) };
        let hash = PASSWORDS[new.password].1;
        let text = format!("ALTER ROLE ben WITH HASHED PASSWORD = '{hash}' AND LOGIN = {}", new.can_login);
        *self.ben.borrow_mut() = Known::Changing;
        let answered = schema::run(session, text).await;
        *self.ben.borrow_mut() = match answered {
            Answered::Done(_) => Known::Is(new),
            Answered::Refused(_) => before,
            Answered::Unknown(_) => Known::Changing,
        };
    }

    async fn change_level(&self, session: &Session) {
        let before = *self.fast.borrow();
        if matches!(before, Known::Changing) {
            return;
        }
        let new = Fast { shares: 1 + session.below(1000) as i32, is_attached: session.chance(2, 3) };
        // Short, so that some requests end by it.
        let timeout = ["null", "2ms", "50ms", "3s"][session.below(4) as usize];
        let workload = ["null", "interactive", "batch"][session.below(3) as usize];
        let attach = if new.is_attached {
            "ATTACH SERVICE LEVEL fast TO ann"
        } else {
            "DETACH SERVICE LEVEL FROM ann"
        };
        let alter = format!(
            "ALTER SERVICE LEVEL fast WITH shares = {} AND timeout = {timeout} AND workload_type = '{workload}'",
            new.shares
        );
        *self.fast.borrow_mut() = Known::Changing;
        let mut known = Known::Is(new);
        for text in [alter, attach.to_string()] {
            match schema::run(session, text).await {
                Answered::Done(_) => {}
                Answered::Refused(_) => known = Known::Unknown,
                Answered::Unknown(_) => {
                    known = Known::Changing;
                    break;
                }
            }
        }
        *self.fast.borrow_mut() = known;
    }

    /// Each password of `ben` is accepted or refused as its last change says.
    async fn check_logins(&self, session: &Session) {
        let Known::Is(ben) = *self.ben.borrow() else { return };
        for (at, (password, _)) in PASSWORDS.iter().enumerate() {
            let is_let_in = at == ben.password && ben.can_login;
            log_in(session, Login { role: "ben", password }, is_let_in).await;
        }
        // Rarely: an unknown role takes as long as a hash at the default cost.
        if session.chance(1, 8) {
            log_in(session, Login { role: "nobody", password: "one" }, false).await;
        }
    }

    /// LIST shows the level's shares, and whether it is attached.
    async fn check_level(&self, session: &Session) {
        let Known::Is(fast) = *self.fast.borrow() else { return };
        let list =
            async |text: &str| session.run(&Statement::new(text, vec![]), &With::default()).await.rows();
        let shares = list("LIST SERVICE LEVEL fast").await.map(|rows| match &rows.rows[..] {
            [row] => row.get(3).cloned().flatten(),
            _ => None,
        });
        let attached = list("LIST ATTACHED SERVICE LEVEL OF ann").await.map(|rows| rows.rows.len());
        let is_right =
            shares.as_ref().is_none_or(|shares| *shares == Some(fast.shares.to_be_bytes().to_vec()))
                && attached.is_none_or(|rows| rows == usize::from(fast.is_attached));
        if !is_right {
            let found = format!("{fast:?}, and LIST shows shares {shares:?} and {attached:?} levels of ann");
            session.home.notes.fail(Checker::Access, found);
        }
    }
}

/// Logs in on a connection of its own. Before that, a request is refused and the connection stays open.
async fn log_in(session: &Session, login: Login, is_let_in: bool) {
    let Home { shard, notes, address, .. } = &session.home;
    let version = ProtocolVersion::ALL[session.below(3) as usize];
    let Some(connection) = Connection::connect(shard, notes, *address, version).await else { return };
    if !connection.begin(None, true).await {
        return;
    }
    if session.chance(1, 2) {
        let prepare = Request::Prepare { text: "SELECT role FROM system_auth.roles", keyspace: None };
        let answer = connection.ask("PREPARE before a login", &prepare).await;
        if !matches!(answer, None | Some(Response::Error(CqlError::Protocol(_)))) {
            notes.fail(Checker::Access, format!("a request before a login is answered with {answer:?}"));
        }
    }
    let answer =
        connection.ask("AUTH_RESPONSE", &Request::AuthResponse { token: Some(&login.token()) }).await;
    session.note(&format!("{login:?} -> {answer:?}"));
    let is_right = match answer {
        None => true,
        Some(Response::AuthSuccess { .. }) => is_let_in,
        Some(Response::Error(CqlError::BadCredentials(_))) => !is_let_in,
        Some(_) => false,
    };
    if !is_right {
        notes
            .fail(Checker::Access, format!("{login:?} is answered with {answer:?}; may log in: {is_let_in}"));
    }
    connection.close();
}

/// Gives the node its superuser, if it has none.
///
/// # Errors
/// The change failed.
pub async fn make_superuser(shard: &Shard) -> Result<(), String> {
    let change = catalog::RoleChange {
        can_login: Some(true),
        is_superuser: Some(true),
        salted_hash: Some(SUPERUSER_HASH.to_string()),
    };
    let create = move |catalog: &catalog::Catalog| {
        catalog.change_access(|access| access.create_role(SUPERUSER.role, change, true))
    };
    engine::node::change_schema(shard, create).await.map(drop).map_err(|error| error.to_string())
}
