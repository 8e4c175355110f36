//! Names of C++ and Rust functions as their programmers wrote them.
//!
//! Recordings keep the linker's names (`_ZN4work5queueE`), because two of them may have the same readable form. Code that
//! shows a name to people passes it through [`demangled`]; SQL has both (table `symbol`).
use std::borrow::Cow;

/// Longer symbols stay as they are: templates of templates are unreadable in either form, and cost the most.
const MAX_SYMBOL: usize = 4096;

/// The text with each mangled symbol in it replaced by its readable form; what does not demangle stays.
pub fn demangled(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(start) = next_symbol(text, at) {
        let symbol = &text[start..start + symbol_length(&text[start..])];
        at = start + symbol.len();
        if let Some(name) = demangle(symbol) {
            out += &text[copied..start];
            out += &name;
            copied = at;
        }
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(out + &text[copied..]),
    }
}

/// A readable name of C++ without its parameters; Go's methods (`main.(*T).Get`) stay.
pub(crate) fn without_parameters(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let mut ends = name.match_indices('(').map(|(at, _)| &name[..at]);
    let is_end = |before: &&str| !is_operator(before) && !before.ends_with('.');
    match ends.find(is_end) {
        Some(before) if !before.is_empty() => before.to_owned(),
        _ => name,
    }
}

/// Operators whose `<` and `>` begin and end no arguments of templates, longer ones first.
const ANGLED: [&str; 11] = ["<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"];

fn is_operator(before: &str) -> bool {
    let rest = before.strip_suffix("operator");
    rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// A C++ or Rust name without its parameters, its template arguments and all but the last two parts of its path.
pub fn short_name(name: &str) -> String {
    // Python's `<module>` and `work.<locals>.<lambda>` are no arguments of templates.
    if name.starts_with("py::") {
        return name.to_owned();
    }
    let name = name.replace("(anonymous namespace)::", "");
    let mut plain = String::new();
    let mut depth = 0usize;
    let mut chars = name.char_indices();
    while let Some((at, c)) = chars.next() {
        if depth == 0
            && is_operator(&plain)
            && let Some(operator) = ANGLED.iter().find(|of| name[at..].starts_with(**of))
        {
            plain += operator;
            for _ in 1..operator.len() {
                chars.next();
            }
            continue;
        }
        match c {
            '<' => depth += 1,
            // A `>` without its `<` is that of `->` or of an operator, and stays.
            '>' if depth > 0 => depth -= 1,
            // Parameters: the name is over, but for `operator()`, and for Go's methods: `sync.(*Mutex).Lock`.
            '(' if depth == 0
                && !is_operator(&plain)
                && !plain.ends_with('.')
                && !plain.is_empty()
                && !plain.ends_with("::") =>
            {
                break;
            }
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let parts: Vec<&str> = plain.trim_end().split("::").filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        // An operator such as `operator<`.
        [] => name,
        [.., a, b] => {
            // The type that a template returns stands before the path.
            let a = a.rsplit(' ').next().unwrap_or(a);
            format!("{a}::{b}")
        }
        [one] => one.to_string(),
    }
}

/// Position of the next word that begins as a mangled name does.
fn next_symbol(text: &str, from: usize) -> Option<usize> {
    let candidates = text[from..].match_indices('_').map(|(i, _)| from + i);
    candidates.into_iter().find(|&i| {
        let begins = text[i..].starts_with("_Z") || text[i..].starts_with("_R");
        begins && (i == 0 || !is_of_symbol(text.as_bytes()[i - 1]))
    })
}

fn is_of_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'@')
}

fn symbol_length(text: &str) -> usize {
    let end = text.bytes().position(|b| !is_of_symbol(b));
    end.unwrap_or(text.len())
}

fn demangle(symbol: &str) -> Option<String> {
    if symbol.len() > MAX_SYMBOL {
        return None;
    }
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        // Without the hash that tells two versions of a crate apart.
        return Some(format!("{name:#}"));
    }
    let parsed = cpp_demangle::Symbol::new(symbol).ok()?;
    parsed.demangle().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn parameters_are_left_out() {
        for (name, plain) in [
            ("work(int, char*)", "work"),
            ("(anonymous namespace)::work(int)", "work"),
            ("Less::operator()(int)", "Less::operator()"),
            ("main.(*Pool).Get", "main.(*Pool).Get"),
            ("py::<module>", "py::<module>"),
        ] {
            assert_eq!(super::without_parameters(name), plain);
        }
    }

    #[test]
    fn names_of_python_stay_whole() {
        for name in ["py::<module>", "py::Mill.sort.<locals>.<lambda>"] {
            assert_eq!(short_name(name), name);
        }
    }

    #[test]
    fn names_are_short() {
        for (name, short) in [
            ("compress", "compress"),
            ("work::Queue::push(int)", "Queue::push"),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "vector::push_back"),
            ("kasuri_model::build::sched::run", "sched::run"),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "drop"),
            ("(anonymous namespace)::run(int)", "run"),
            ("Less::operator()(int, int) const", "Less::operator()"),
            ("std::ostream::operator<<(int)", "ostream::operator<<"),
            (
                "std::basic_ostream<char>& std::operator<< <std::char_traits<char> >(char)",
                "std::operator<<",
            ),
            ("std::unique_ptr<Job>::operator->() const", "unique_ptr::operator->"),
            ("bool operator<(Key const&, Key const&)", "bool operator<"),
            ("myoperator<int>(int)", "myoperator"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("sync.(*Mutex).Unlock", "sync.(*Mutex).Unlock"),
        ] {
            assert_eq!(short_name(name), short, "{name}");
        }
    }

    use super::{demangled, short_name};
    use proptest::prelude::*;

    #[test]
    fn names_of_cpp_and_rust_are_as_written() {
        for (symbol, name) in [
            ("_ZN4work5Queue4pushEi", "work::Queue::push(int)"),
            ("_ZL5mutex", "mutex"),
            ("_ZN4work5QueueC4Ei", "work::Queue::Queue(int)"),
            ("_ZN4work5QueueD4Ev", "work::Queue::~Queue()"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
        ] {
            assert_eq!(demangled(symbol), name);
        }
    }

    #[test]
    fn names_inside_sentences_are_found_and_others_stay() {
        for (text, expected) in [
            ("lock `_ZL5mutex` (a.cc:3)", "lock `mutex` (a.cc:3)"),
            ("_ZL1a then _ZL1b+8", "a then b+8"),
            ("pthread_mutex_lock", "pthread_mutex_lock"),
            ("my_Z5thing _Zebra _R _Z", "my_Z5thing _Zebra _R _Z"),
            ("絣_ZL5mutex", "絣mutex"),
            ("", ""),
        ] {
            assert_eq!(demangled(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(_Z|_R|[A-Za-z0-9_. ]|\\PC){0,40}") {
            let shown = demangled(&text);
            prop_assert!(text.contains("_Z") || text.contains("_R") || shown == text);
        }
    }
}
