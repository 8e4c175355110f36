//! A server for one page and its parts, on loopback, for one user and a while: what `kasuri view` needs of HTTP.
//!
//! One thread takes connections, one each reads requests and answers. Everything is bounded: connections of those that have
//! not shown the token ([`STRANGERS`]; the oldest makes room for the newest, so that none can keep the user out), all
//! connections, the head of a request, and the time in which it must come. Requests are parsed by `httparse`; what may be
//! asked is in [`request`]. Nothing here reads files.
mod request;

use anyhow::{Context, bail};
use request::{HEAD_BYTES, Head, Refusal};
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Connections of which no request has had the token.
const STRANGERS: usize = 16;
/// Connections of the user's browser, which opens six at a time.
const GUESTS: usize = 48;
/// In which a request's head must be complete, counted from its connection or from its first byte.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// A connection on which nothing is asked is closed.
const IDLE_TIME: Duration = Duration::from_secs(120);
/// In which a part of an answer must be taken.
const WRITE_TIME: Duration = Duration::from_secs(20);
/// Ports that are tried for one that is free on both loopback addresses.
const TRIES: usize = 16;

/// What is served.
pub trait Site: Sync {
    /// The content type and the bytes behind `path`, if there is anything. "" is the page.
    fn get(&self, path: &str) -> Option<(&'static str, Cow<'_, [u8]>)>;
    /// The policy of the page (Content-Security-Policy).
    fn policy(&self) -> &str;
}

/// A server that listens, and serves nothing yet.
pub struct Server {
    listeners: Vec<TcpListener>,
    port: u16,
    token: String,
}

impl Server {
    /// Listens on 127.0.0.1 and ::1, at `port` or at one that is free (0), with a token of its own.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn listen(port: u16) -> anyhow::Result<Server> {
        let mut random = [0u8; 16];
        // The pool is seeded long before anybody can type a command, and so few bytes come at once.
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .context("cannot get random bytes")?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        for _ in 0..TRIES {
            let taken = match both(port) {
                Ok((listeners, port)) => {
                    return Ok(Server { listeners, port, token });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
                Err(error) => return Err(error).context("cannot listen on 127.0.0.1"),
            };
            if port != 0 {
                return Err(taken).with_context(|| {
                    format!("port {port} is taken, needed a free one; without --port one is chosen")
                });
            }
        }
        bail!("found no port that is free on both 127.0.0.1 and ::1; name one by --port")
    }

    /// The page's address.
    pub fn address(&self) -> String {
        let host = self.listeners[0].local_addr().map(|at| at.ip());
        match host {
            Ok(IpAddr::V6(_)) => format!("http://[::1]:{}/{}/", self.port, self.token),
            _ => format!("http://127.0.0.1:{}/{}/", self.port, self.token),
        }
    }

    /// Serves `site` until `stop` can be read.
    ///
    /// # Errors
    /// When waiting for connections fails.
    pub fn serve(&self, site: &impl Site, stop: &impl AsFd) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        for listener in &self.listeners {
            listener.set_nonblocking(true)?;
        }
        let open = Open::default();
        std::thread::scope(|scope| {
            let result = loop {
                let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
                fds.extend((self.listeners.iter()).map(|l| PollFd::new(l, PollFlags::IN)));
                match poll(&mut fds, None) {
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => break Err(error.into()),
                    Ok(_) if !fds[0].revents().is_empty() => break Ok(()),
                    Ok(_) => {}
                }
                for listener in &self.listeners {
                    // None is there: another listener's was. Out of descriptors: the next may do.
                    let Ok((stream, _)) = listener.accept() else {
                        continue;
                    };
                    let Some(id) = open.add(&stream) else {
                        continue;
                    };
                    let (open, token) = (&open, &self.token);
                    let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                        // Errors are those of a connection that is gone.
                        let _ = converse(stream, site, token, || open.trust(id));
                        open.remove(id);
                    });
                    if thread.is_err() {
                        open.remove(id);
                    }
                }
            };
            open.close_all();
            result
        })
    }
}

/// Listeners on both loopback addresses at the same port; on one where there is no other.
fn both(port: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let is_missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::AddrNotAvailable)
            || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
    };
    let bind = |ip: IpAddr, port| match TcpListener::bind(SocketAddr::new(ip, port)) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    };
    let four = bind(Ipv4Addr::LOCALHOST.into(), port)?;
    let port = match &four {
        Some(listener) => listener.local_addr()?.port(),
        None => port,
    };
    let six = bind(Ipv6Addr::LOCALHOST.into(), port)?;
    let listeners: Vec<TcpListener> = four.into_iter().chain(six).collect();
    let port = match listeners.first() {
        Some(listener) => listener.local_addr()?.port(),
        None => return Err(io::Error::other("this machine has no loopback address")),
    };
    Ok((listeners, port))
}

/// A connection that is open.
struct Connection {
    id: u64,
    is_trusted: bool,
    /// Closes it from outside.
    stream: TcpStream,
}

/// All of them, the oldest first.
#[derive(Default)]
struct Open(Mutex<(u64, Vec<Connection>)>);

impl Open {
    fn with<R>(&self, then: impl FnOnce(&mut u64, &mut Vec<Connection>) -> R) -> R {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let (next, all) = &mut *all;
        then(next, all)
    }

    /// Enters a connection, and closes the oldest stranger where there are too many.
    fn add(&self, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        self.with(|next, all| {
            *next += 1;
            make_room(all, false, STRANGERS);
            all.push(Connection { id: *next, is_trusted: false, stream });
            Some(*next)
        })
    }

    /// A request of the connection had the token.
    fn trust(&self, id: u64) {
        self.with(|_, all| {
            if all.iter().any(|c| c.id == id && !c.is_trusted) {
                make_room(all, true, GUESTS);
            }
            if let Some(one) = all.iter_mut().find(|c| c.id == id) {
                one.is_trusted = true;
            }
        });
    }

    fn remove(&self, id: u64) {
        self.with(|_, all| all.retain(|c| c.id != id));
    }

    fn close_all(&self) {
        self.with(|_, all| {
            for one in all.iter() {
                let _ = one.stream.shutdown(Shutdown::Both);
            }
        });
    }
}

/// Closes the oldest connection of a sort where there are `most`. Its thread sees that and ends.
fn make_room(all: &mut Vec<Connection>, is_trusted: bool, most: usize) {
    let same = all.iter().filter(|c| c.is_trusted == is_trusted).count();
    let oldest = all.iter().position(|c| c.is_trusted == is_trusted);
    if let Some(oldest) = oldest.filter(|_| same >= most) {
        let _ = all.remove(oldest).stream.shutdown(Shutdown::Both);
    }
}

/// Answers the requests of a connection until it ends.
fn converse(
    mut stream: TcpStream,
    site: &impl Site,
    token: &str,
    trust: impl Fn(),
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIME))?;
    let mut bytes = Vec::new();
    let mut until = Instant::now() + HEAD_TIME;
    loop {
        let (len, answer) = match request::parse(&bytes, token) {
            Head::Whole(len, answer) => (len, answer),
            Head::Partial => {
                read(&mut stream, &mut bytes, until)?;
                continue;
            }
        };
        bytes.drain(..len);
        let request = match answer {
            Ok(request) => request,
            Err(refusal) => return refuse(&mut stream, refusal),
        };
        trust();
        match site.get(&request.path) {
            Some((kind, body)) => send(&mut stream, "200 OK", kind, site.policy(), &body)?,
            None => return refuse(&mut stream, Refusal::Token),
        }
        if !request.keep {
            return Ok(());
        }
        // Nothing is late until the next request has begun.
        if bytes.is_empty() {
            read(&mut stream, &mut bytes, Instant::now() + IDLE_TIME)?;
        }
        until = Instant::now() + HEAD_TIME;
    }
}

/// Appends what has come, before `until`.
fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let mut some = [0; 4096];
    let n = stream.read(&mut some)?;
    if n == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.extend_from_slice(&some[..n]);
    debug_assert!(bytes.len() <= HEAD_BYTES + some.len());
    Ok(())
}

/// The policy of what is no page.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

fn refuse(stream: &mut TcpStream, refusal: Refusal) -> io::Result<()> {
    let (status, text) = refusal.text();
    let text = format!("kasuri view: {text}\n");
    send(stream, status, "text/plain; charset=utf-8", NOTHING, text.as_bytes())?;
    // What is still on its way would reset the connection, and the answer with it.
    stream.shutdown(Shutdown::Write)?;
    let mut rest = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    for _ in 0..16 {
        if stream.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Writes an answer. Its headers keep it from being stored, framed, or read by another origin.
fn send(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    policy: &str,
    body: &[u8],
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\n\
         Content-Type: {kind}\r\n\
         Content-Length: {}\r\n\
         Content-Security-Policy: {policy}\r\n\
         Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n\
         X-Frame-Options: DENY\r\n\
         Referrer-Policy: no-referrer\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
