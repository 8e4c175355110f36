//! `kasuri view` from outside: what the user's browser gets, and what others on the machine and other pages do not.
use crate::sample;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest that a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of its own for each test, with a recording.
fn scratch(name: &str) -> (PathBuf, String) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("view-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("run.kasuri");
    std::fs::write(&path, sample::recording()).unwrap();
    (dir, path.into_os_string().into_string().unwrap())
}

/// A server that runs until it is dropped.
struct Viewing {
    child: Child,
    address: String,
}

impl Viewing {
    fn start(args: &[&str], path: Option<&Path>) -> Viewing {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
        command.arg("view").args(args).stdout(Stdio::piped());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim_end().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Viewing { child, address }
    }

    fn of(name: &str) -> Viewing {
        let (_, file) = scratch(name);
        Viewing::start(&[&file], None)
    }

    fn port(&self) -> u16 {
        let rest = &self.address["http://127.0.0.1:".len()..];
        rest.split_once('/').unwrap().0.parse().unwrap()
    }

    /// "/TOKEN/".
    fn root(&self) -> &str {
        &self.address[self.address.rfind(":").unwrap() + 1 + self.port().to_string().len()..]
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads all that comes back until the server closes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may refuse before it has taken all.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let host = format!("Host: 127.0.0.1:{}\r\n", self.port());
        self.raw(
            format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n").as_bytes(),
        )
    }

    fn status(&self, path: &str, headers: &str) -> String {
        self.get(path, headers).split(' ').nth(1).unwrap_or("none").to_owned()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_and_its_parts_are_served_until_ctrl_c() {
    let mut viewing = Viewing::of("served");
    let root = viewing.root().to_owned();
    let page = viewing.get(&root, "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page:.200}");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    for line in [
        "Content-Security-Policy: default-src 'none'; script-src 'sha256-",
        "; connect-src 'self'; frame-ancestors 'none'\r\n",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        "Cross-Origin-Opener-Policy: same-origin",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(!head.contains("Access-Control"), "{head}");
    assert!(body.contains("kasuri-served"));
    let index = viewing.get(&format!("{root}0/index"), "");
    let (_, json) = index.split_once("\r\n\r\n").unwrap();
    let index: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(index["info"]["slices"], sample::SLICES);
    assert!(viewing.get(&format!("{root}0/block/0"), "").starts_with("HTTP/1.1 200"));
    // Several requests on one connection.
    let one = format!("GET {root}0/index HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let last = one.replace("localhost\r\n", "localhost\r\nConnection: close\r\n");
    let answers = viewing.raw(format!("{one}{one}{last}").as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
    viewing.signal(rustix::process::Signal::INT);
    assert_eq!(viewing.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(("127.0.0.1", viewing.port())).is_err());
}

#[test]
fn who_lacks_the_token_or_comes_from_elsewhere_gets_nothing() {
    let viewing = Viewing::of("strangers");
    let root = viewing.root().to_owned();
    let port = viewing.port();
    assert_eq!(viewing.status(&root, ""), "200");
    let flipped = match root.as_bytes()[1] {
        b'0' => format!("/1{}", &root[2..]),
        _ => format!("/0{}", &root[2..]),
    };
    for path in [
        "/",
        &flipped,
        &root[..root.len() - 1],
        &format!("{root}../../etc/passwd"),
        &format!("{root}0/../../../etc/passwd"),
        &format!("{root}%2e%2e/etc/passwd"),
        &format!("{root}0"),
        &format!("{root}0/"),
        &format!("{root}0/block/"),
        &format!("{root}0/block/99999"),
        &format!("{root}0/block/-1"),
        &format!("{root}0/block/+0"),
        &format!("{root}1/index"),
        &format!("{root}99999999999999999999/index"),
    ] {
        let answer = viewing.get(path, "");
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
        assert!(!answer.contains("sample") && !answer.contains("root:"), "{answer}");
    }
    let index = format!("{root}0/index");
    let evil = format!("GET {root} HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n");
    assert!(viewing.raw(evil.as_bytes()).starts_with("HTTP/1.1 403"));
    for headers in ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(viewing.status(&index, headers), "403", "{headers}");
    }
    let own = format!("Origin: http://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(viewing.status(&index, &own), "200");
}

#[test]
fn hostile_requests_are_refused_and_harm_nobody() {
    let viewing = Viewing::of("hostile");
    let root = viewing.root().to_owned();
    let huge = format!("X-Long: {}\r\n", "x".repeat(1 << 20));
    assert_eq!(viewing.status(&root, &huge), "431");
    let many: String = (0..5000).map(|i| format!("X-{i}: y\r\n")).collect();
    assert_eq!(viewing.status(&root, &many), "431");
    let post = format!("POST {root} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n");
    assert!(viewing.raw(post.as_bytes()).starts_with("HTTP/1.1 405"));
    for garbage in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..], b"\0\0\0\0", b"GET\r\n\r\n"] {
        assert!(viewing.raw(garbage).starts_with("HTTP/1.1 400"), "{garbage:?}");
    }
    // Two hundred connections that never finish a request: the oldest make room, so the user's own is answered.
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = viewing.connect();
            let _ = stream.write_all(b"GET /x HTTP/1.1\r\nX-Slow: ");
            stream
        })
        .collect();
    assert_eq!(viewing.status(&root, ""), "200");
    for mut stream in slow {
        // None is answered, and each is closed, the last ones after some seconds.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
    assert_eq!(viewing.status(&root, ""), "200");
}

#[test]
fn a_user_who_is_connected_is_not_pushed_out_by_strangers() {
    let viewing = Viewing::of("guest");
    let request = format!("GET {}0/index HTTP/1.1\r\nHost: localhost\r\n\r\n", viewing.root());
    let mut guest = viewing.connect();
    let mut ask = || {
        guest.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(&mut guest);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(n) = line.strip_prefix("Content-Length: ") {
                length = n.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        length
    };
    assert!(ask() > 100);
    let strangers: Vec<TcpStream> = (0..100).map(|_| viewing.connect()).collect();
    assert!(ask() > 100);
    drop(strangers);
}

#[test]
fn the_server_listens_on_loopback_only() {
    let viewing = Viewing::of("loopback");
    let suffix = format!(":{:04X}", viewing.port());
    let mut own = 0;
    for (table, loopback) in
        [("/proc/net/tcp", "0100007F"), ("/proc/net/tcp6", "00000000000000000000000001000000")]
    {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        for line in table.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next().unwrap(), fields.nth(1).unwrap());
            if let Some(address) = local.strip_suffix(&suffix).filter(|_| state == "0A") {
                assert_eq!(address, loopback);
                own += 1;
            }
        }
    }
    assert!((1..=2).contains(&own), "{own} listeners");
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_is_read() {
    let viewing = Viewing::of("taken");
    let port = viewing.port().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(["view", "--port", &port, "no.kasuri"])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains(&format!("port {port} is taken")), "{message}");
}

#[test]
fn the_browser_gets_the_token_where_no_other_user_can_read_it() {
    let (dir, file) = scratch("open");
    let opener = dir.join("xdg-open");
    let seen = dir.join("seen");
    let script = format!(
        "#!/bin/sh\n/bin/stat -c '%a' \"$1\" > {0}\n/bin/echo \"$@\" >> {0}\n/bin/cat \"$1\" >> {0}\n",
        seen.display()
    );
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut viewing = Viewing::start(&["--open", &file], Some(&dir));
    // The address is printed before the browser is started; a whole answer shows that the server serves, after that.
    assert_eq!(viewing.status(viewing.root(), ""), "200");
    let text = std::fs::read_to_string(&seen).unwrap();
    let (mode, rest) = text.split_once('\n').unwrap();
    let (arguments, content) = rest.split_once('\n').unwrap();
    assert_eq!(mode, "600");
    assert!(!arguments.contains("http"), "{arguments}");
    assert!(content.contains(&format!("url={}", viewing.address)), "{content}");
    viewing.signal(rustix::process::Signal::TERM);
    assert_eq!(viewing.child.wait().unwrap().code(), Some(0));
    assert!(!Path::new(arguments.trim()).exists(), "{arguments}");
}
