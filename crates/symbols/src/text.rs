//! Lists of symbols in text: the kernel's (`/proc/kallsyms`), and those of JIT compilers (`/tmp/perf-PID.map`).
use kasuri_format::call_paths::Call;
use std::io::BufRead;

/// Longest line of the kernel's list: its names have at most 512 bytes.
const LINE_BYTES_MAX: usize = 4096;

/// A symbol of the kernel.
#[derive(Clone, Default)]
struct Symbol {
    start: u64,
    kind: u8,
    name: Vec<u8>,
}

/// Names kernel addresses, which are sorted. `Err`: the list has no addresses, because only root may see them; or it cannot be
/// read. It has some 200,000 lines, so it is read piece by piece, and only what may be asked for is kept.
///
/// A symbol there has a start and no end: it goes on to the next one.
pub(crate) fn kernel(
    list: &mut dyn BufRead,
    addresses: &[(u64, u32)],
) -> Result<Vec<Option<Call>>, ()> {
    // For each address, the last symbol between the address before and it.
    let mut last: Vec<Option<Symbol>> = vec![None; addresses.len()];
    let mut all_zero = true;
    let mut line = Vec::new();
    while next_line(list, &mut line)? {
        let mut words = line.splitn(3, |b| *b == b' ');
        let (Some(start), Some(&[kind]), Some(name)) =
            (words.next().and_then(hex), words.next(), words.next())
        else {
            continue;
        };
        all_zero &= start == 0;
        let at = addresses.partition_point(|(a, _)| *a < start);
        // Of several names of one address the first global one holds: `T` before `t`.
        if let Some(slot) = last.get_mut(at)
            && (slot.as_ref()).is_none_or(|old| (start, old.kind) > (old.start, kind))
        {
            let symbol = slot.get_or_insert_default();
            (symbol.start, symbol.kind) = (start, kind);
            name.clone_into(&mut symbol.name);
        }
    }
    if all_zero {
        return Err(());
    }
    let mut before: Option<Symbol> = None;
    let mut calls = Vec::with_capacity(last.len());
    for symbol in last {
        before = symbol.or(before);
        let code = before.as_ref();
        let code = code.filter(|s| is_code(s.kind));
        calls.push(code.map(|symbol| Call {
            // `name\t[module]`.
            function: String::from_utf8_lossy(&symbol.name).replace('\t', " "),
            ..Call::default()
        }));
    }
    Ok(calls)
}

/// Whether the letter in the kernel's list stands for code.
pub(crate) fn is_code(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

/// Names addresses, which are sorted, of code made at run time. Lines `START BYTES NAME`; where code was written over older
/// code, the later line holds.
pub(crate) fn jit(map: &[u8], addresses: &[(u64, u32)]) -> Vec<Option<Call>> {
    let mut found: Vec<Option<&[u8]>> = vec![None; addresses.len()];
    for line in lines(map) {
        let mut words = line.splitn(3, |b| *b == b' ');
        let (Some(start), Some(bytes), Some(name)) =
            (words.next().and_then(hex), words.next().and_then(hex), words.next())
        else {
            continue;
        };
        let end = start.saturating_add(bytes);
        let from = addresses.partition_point(|(a, _)| *a < start);
        let to = addresses.partition_point(|(a, _)| *a < end);
        if let Some(slots) = found.get_mut(from..to) {
            slots.fill(Some(name));
        }
    }
    let call = |name: &[u8]| jit_call(&String::from_utf8_lossy(name));
    found.into_iter().map(|name| name.map(call)).collect()
}

/// Takes file and line out of a name, as Python (`py::NAME:FILE`) and Node (`JS:*NAME FILE:LINE:COLUMN`) write them.
pub(crate) fn jit_call(name: &str) -> Call {
    let plain = || Call { function: name.to_owned(), ..Call::default() };
    if let Some(rest) = name.strip_prefix(kasuri_base::call_path::IN_PYTHON) {
        return match rest.rsplit_once(':') {
            Some((function, file)) if !function.is_empty() => Call {
                function: format!("{}{function}", kasuri_base::call_path::IN_PYTHON),
                file: file.to_owned(),
                line: 0,
            },
            _ => plain(),
        };
    }
    let place = || -> Option<Call> {
        let (function, place) = name.split_once(' ')?;
        let (place, column) = place.rsplit_once(':')?;
        let (file, line) = place.rsplit_once(':')?;
        column.parse::<u32>().ok()?;
        Some(Call {
            function: function.to_owned(),
            file: file.strip_prefix("file://").unwrap_or(file).to_owned(),
            line: line.parse().ok()?,
        })
    };
    place().unwrap_or_else(plain)
}

/// Reads a line without its end, cut to [`LINE_BYTES_MAX`]; `false`: there is none left.
pub(crate) fn next_line(list: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<bool, ()> {
    line.clear();
    let limit = LINE_BYTES_MAX as u64;
    let mut piece = std::io::Read::take(&mut *list, limit);
    let n = piece.read_until(b'\n', line).map_err(drop)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if n == LINE_BYTES_MAX {
        list.skip_until(b'\n').map_err(drop)?;
    }
    Ok(n > 0)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n')
}

/// A hexadecimal number of 64 bits. The library's way, by text, was a third of the time that the list of a kernel takes.
pub(crate) fn hex(word: &[u8]) -> Option<u64> {
    let word = word.strip_prefix(b"0x").unwrap_or(word);
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    word.iter().try_fold(0, |n, &byte| Some(n << 4 | u64::from((byte as char).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(calls: Vec<Option<Call>>) -> Vec<String> {
        let name = |c: Option<Call>| c.map_or_else(|| "-".to_owned(), |c| c.function);
        calls.into_iter().map(name).collect()
    }

    #[test]
    fn a_kernel_symbol_goes_on_to_the_next() {
        let list = b"1000 T first\n2000 t inner\n2000 T second\n3000 D data\nzz T no\n4000 t mod_fn\t[mod]\n";
        let addresses =
            [(0x10, 0), (0x1000, 1), (0x1fff, 2), (0x2abc, 3), (0x3001, 4), (0x5000, 5)];
        let names = functions(kernel(&mut &list[..], &addresses).unwrap());
        assert_eq!(names, ["-", "first", "first", "second", "-", "mod_fn [mod]"]);
    }

    #[test]
    fn a_line_of_any_length_is_one_line() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let list = format!("1000 T first\n2000 t {long}\n3000 T last");
        let calls = kernel(&mut list.as_bytes(), &[(0x1000, 0), (0x2000, 1), (0x3000, 2)]);
        let names = functions(calls.unwrap());
        assert_eq!((&*names[0], &*names[2]), ("first", "last"));
        assert_eq!(names[1].len(), LINE_BYTES_MAX - "2000 t ".len());
    }

    #[test]
    fn hidden_kernel_addresses_are_told_from_missing_ones() {
        let hidden = b"0000000000000000 T first\n0000000000000000 T second\n";
        assert!(kernel(&mut &hidden[..], &[(5, 0)]).is_err());
        assert!(kernel(&mut &b""[..], &[(5, 0)]).is_err());
    }

    #[test]
    fn later_code_replaces_earlier_code_at_its_address() {
        let map = b"100 100 old\n0x180 0x10 new one\nbad line\n300 0 empty\n";
        let addresses = [(0x100, 0), (0x17f, 1), (0x180, 2), (0x190, 3), (0x200, 4), (0x300, 5)];
        let names = functions(jit(map, &addresses));
        assert_eq!(names, ["old", "old", "new one", "old", "-", "-"]);
    }

    #[test]
    fn files_and_lines_are_taken_out_of_the_names_of_python_and_node() {
        let call = |name: &str| {
            let c = jit_call(name);
            (c.function, c.file, c.line)
        };
        let is = |f: &str, file: &str, line| (f.to_owned(), file.to_owned(), line);
        assert_eq!(call("py::work:/a b/x.py"), is("py::work", "/a b/x.py", 0));
        assert_eq!(call("JS:*fib file:///tmp/f.js:3:13"), is("JS:*fib", "/tmp/f.js", 3));
        assert_eq!(
            call("LazyCompile:~ node:internal/a:12:1"),
            is("LazyCompile:~", "node:internal/a", 12)
        );
        for plain in ["Builtin:ArrayMap", "Lmain;::run(I)V", "py::", "a b c", "x :1:"] {
            assert_eq!(call(plain), is(plain, "", 0));
        }
    }
}
