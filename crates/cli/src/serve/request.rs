//! One request to the page's server: who may ask, and for what.
//!
//! Anybody on this machine can connect, and so can every page that the user's browser shows: neither may learn anything. The
//! first do not know the token. The second cannot read another origin's answers, unless a name of theirs is made to lead here
//! (DNS rebinding): so the host must be this machine's own name, and who says that another page asked is refused.

/// Longest head of a request, bytes.
pub const HEAD_BYTES: usize = 16 * 1024;
/// Most header lines.
const HEADERS: usize = 64;
/// Names of this machine that a browser asks by. Any port: that of a tunnel (`ssh -L`) is another one than ours.
const HOSTS: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// What a connection's bytes say so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// The head is not complete.
    Partial,
    /// A request of this many bytes.
    Whole(usize, Result<Request, Refusal>),
}

/// A request by someone who knows the token.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The path behind the token's slash.
    pub path: String,
    /// Whether the connection stays open.
    pub keep: bool,
}

/// Why a request gets no answer. The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No HTTP.
    Bad,
    /// Too long, or too many headers.
    Large,
    /// Not GET, or with a body.
    Method,
    /// By a name that is not this machine's.
    Host,
    /// By a page of another origin.
    Origin,
    /// Without the token.
    Token,
}

impl Refusal {
    /// Status line, and what a person may read.
    pub fn text(self) -> (&'static str, &'static str) {
        match self {
            Refusal::Bad => ("400 Bad Request", "not a request"),
            Refusal::Large => ("431 Request Header Fields Too Large", "too long"),
            Refusal::Method => ("405 Method Not Allowed", "only GET, without a body"),
            Refusal::Host => ("403 Forbidden", "asked by a name that is not localhost"),
            Refusal::Origin => ("403 Forbidden", "asked by another page"),
            Refusal::Token => {
                ("404 Not Found", "not found; open the whole address that `kasuri view` printed")
            }
        }
    }
}

/// Reads the head at the beginning of `bytes`.
pub fn parse(bytes: &[u8], token: &str) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES => len,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES => return Head::Partial,
        Err(httparse::Error::TooManyHeaders) | Ok(_) => {
            return Head::Whole(bytes.len(), Err(Refusal::Large));
        }
        Err(_) => return Head::Whole(bytes.len(), Err(Refusal::Bad)),
    };
    Head::Whole(len, check(&request, token))
}

fn check(request: &httparse::Request<'_, '_>, token: &str) -> Result<Request, Refusal> {
    let header = |name: &str| {
        let mut found = (request.headers.iter()).filter(|h| h.name.eq_ignore_ascii_case(name));
        let first = found.next();
        // A header that is there twice may be read either way: by nobody then.
        match (first, found.next()) {
            (None, _) => Ok(None),
            (Some(one), None) => std::str::from_utf8(one.value)
                .map(|value| Some(value.trim()))
                .map_err(|_| Refusal::Bad),
            _ => Err(Refusal::Bad),
        }
    };
    let has_body = header("transfer-encoding")?.is_some()
        || header("content-length")?.is_some_and(|length| length != "0");
    if request.method != Some("GET") || has_body {
        return Err(Refusal::Method);
    }
    let host = header("host")?.ok_or(Refusal::Host)?;
    if !is_own(host) {
        return Err(Refusal::Host);
    }
    let path = request.path.ok_or(Refusal::Bad)?;
    let path = after_token(path, token).ok_or(Refusal::Token)?;
    let origin = header("origin")?;
    if origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Err(Refusal::Origin);
    }
    // Browsers say who asked. That a link or a file led to the page itself is fine: it was opened, not read.
    let site = header("sec-fetch-site")?.unwrap_or("none");
    let opened = path.is_empty()
        && header("sec-fetch-mode")? == Some("navigate")
        && header("sec-fetch-dest")? == Some("document");
    if !(matches!(site, "none" | "same-origin") || opened) {
        return Err(Refusal::Origin);
    }
    let keep = header("connection")?.map(str::to_ascii_lowercase);
    Ok(Request {
        path: path.to_owned(),
        keep: match request.version {
            Some(1) => keep.as_deref() != Some("close"),
            _ => keep.as_deref() == Some("keep-alive"),
        },
    })
}

/// Whether a `Host` header names this machine's loopback.
fn is_own(host: &str) -> bool {
    HOSTS.iter().any(|own| {
        let port = host.strip_prefix(own).and_then(|port| match port {
            "" => Some("80"),
            _ => port.strip_prefix(':'),
        });
        port.is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty())
    })
}

/// The part of `path` behind `/TOKEN/`. Takes the same time for every token of the right length, right or wrong.
fn after_token<'p>(path: &'p str, token: &str) -> Option<&'p str> {
    let (found, rest) = path.strip_prefix('/')?.split_once('/')?;
    let differs = (found.bytes().zip(token.bytes())).fold(0, |differs, (a, b)| differs | (a ^ b));
    (found.len() == token.len() && std::hint::black_box(differs) == 0).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn ask(path: &str, headers: &str) -> Result<String, Refusal> {
        let text = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
        match parse(text.as_bytes(), TOKEN) {
            Head::Whole(len, answer) => {
                assert!(answer.is_err() || len == text.len());
                answer.map(|request| request.path)
            }
            Head::Partial => panic!("partial: {text}"),
        }
    }

    #[test]
    fn only_who_knows_the_whole_token_gets_behind_it() {
        let host = "Host: 127.0.0.1:8000\r\n";
        let page = format!("/{TOKEN}/");
        assert_eq!(ask(&page, host), Ok(String::new()));
        assert_eq!(ask(&format!("{page}0/index"), host), Ok("0/index".into()));
        let wrong = TOKEN.replace("ff", "fe");
        for path in [
            "/",
            "/x/",
            "//",
            &format!("/{wrong}/"),
            &format!("/{}/", &TOKEN[..31]),
            &format!("/{TOKEN}0/"),
            &format!("/{TOKEN}"),
            &format!("/x/../{TOKEN}/"),
            &format!("http://127.0.0.1:8000/{TOKEN}/"),
        ] {
            assert_eq!(ask(path, host), Err(Refusal::Token), "{path}");
        }
    }

    #[test]
    fn hosts_are_names_of_loopback_only() {
        let page = format!("/{TOKEN}/");
        for host in ["127.0.0.1:1", "localhost:8000", "[::1]:8000", "localhost"] {
            assert!(ask(&page, &format!("Host: {host}\r\n")).is_ok(), "{host}");
        }
        for host in [
            "evil.example:8000",
            "127.0.0.1.evil.example",
            "localhost:",
            "localhost:80@evil.example",
            "localhostevil",
            "10.0.0.1:8000",
            "",
        ] {
            let answer = ask(&page, &format!("Host: {host}\r\n"));
            assert_eq!(answer, Err(Refusal::Host), "{host}");
        }
        assert_eq!(ask(&page, ""), Err(Refusal::Host));
        let twice = "Host: localhost\r\nHost: evil.example\r\n";
        assert_eq!(ask(&page, twice), Err(Refusal::Bad));
    }

    #[test]
    fn other_origins_get_nothing_but_may_link_to_the_page() {
        let page = format!("/{TOKEN}/");
        let index = format!("{page}0/index");
        let with = |path: &str, more: &str| ask(path, &format!("Host: localhost:1\r\n{more}"));
        assert!(with(&index, "Origin: http://localhost:1\r\n").is_ok());
        assert!(with(&index, "Sec-Fetch-Site: same-origin\r\n").is_ok());
        for origin in ["http://localhost:2", "https://localhost:1", "null", "http://evil.example"] {
            let answer = with(&index, &format!("Origin: {origin}\r\n"));
            assert_eq!(answer, Err(Refusal::Origin), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            let site = format!("Sec-Fetch-Site: {site}\r\n");
            assert_eq!(with(&index, &site), Err(Refusal::Origin));
            let opened = format!("{site}Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n");
            assert!(with(&page, &opened).is_ok());
            assert_eq!(with(&index, &opened), Err(Refusal::Origin));
            let framed = opened.replace("document", "iframe");
            assert_eq!(with(&page, &framed), Err(Refusal::Origin));
        }
    }

    #[test]
    fn bodies_other_methods_and_large_heads_are_refused() {
        let of = |text: String| match parse(text.as_bytes(), TOKEN) {
            Head::Whole(_, answer) => answer.map(|request| request.path),
            Head::Partial => panic!("partial"),
        };
        let host = "Host: localhost\r\n";
        for text in [
            format!("POST /{TOKEN}/ HTTP/1.1\r\n{host}\r\n"),
            format!("GET /{TOKEN}/ HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\n"),
            format!("GET /{TOKEN}/ HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n"),
        ] {
            assert_eq!(of(text), Err(Refusal::Method));
        }
        let long = "x".repeat(HEAD_BYTES);
        assert_eq!(of(format!("GET /{long}")), Err(Refusal::Large));
        let many: String = (0..100).map(|i| format!("X-{i}: 1\r\n")).collect();
        assert_eq!(of(format!("GET / HTTP/1.1\r\n{many}\r\n")), Err(Refusal::Large));
        assert_eq!(of("\x16\x03\x01\x02".into()), Err(Refusal::Bad));
        assert_eq!(parse(b"GET /", TOKEN), Head::Partial);
    }

    #[test]
    fn a_connection_stays_open_as_its_version_says() {
        let keep = |version: &str, more: &str| {
            let text = format!("GET /{TOKEN}/ HTTP/{version}\r\nHost: localhost\r\n{more}\r\n");
            match parse(text.as_bytes(), TOKEN) {
                Head::Whole(_, Ok(request)) => request.keep,
                other => panic!("{other:?}"),
            }
        };
        assert!(keep("1.1", ""));
        assert!(!keep("1.1", "Connection: Close\r\n"));
        assert!(!keep("1.0", ""));
    }
}
