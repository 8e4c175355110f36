//! Call paths on a screen: `compress (xz.c:90) < worker < main`, innermost function first.
//!
//! A path has the room that its line has. Callers are left out from the outermost on, and ` < ..` stands for them.
use crate::units::{cut, file_name, percent, printable};
use kasuri_analyze::call_paths::{
    HotPath, PathFrame, frame_name, is_libc, is_of_a_library, is_pythons_own,
};
use unicode_width::UnicodeWidthStr;

/// A library's function is not cut to less than this, in columns.
const LEAST_OF_A_CALL: usize = 16;

/// A path and where its callers part: `copy (xz.c:90) < 74.8 % pack, 25.2 % unpack`.
pub fn hot_path_text(path: &HotPath, room: usize) -> String {
    const MORE: &str = ", ..";
    let mut text = path_text(&path.frames, room);
    for (at, caller) in path.callers.iter().enumerate() {
        let between = if at == 0 { " < " } else { ", " };
        let name = printable(&frame_name(&caller.frame));
        let next = format!("{between}{} {name}", percent(caller.share));
        let is_last = at + 1 == path.callers.len();
        let spare = if is_last { 0 } else { MORE.len() };
        if text.width() + next.width() + spare > room {
            return text + if at == 0 { "" } else { MORE };
        }
        text += &next;
    }
    text
}

/// `compress (xz.c:90) < worker < main` in at most `room` columns, if the innermost function alone is not wider. Between a library's
/// function and the first of the program stand no others of libraries, which pass the call on.
pub fn path_text(frames: &[PathFrame], room: usize) -> String {
    let first_own = frames.iter().position(|f| !is_library(f));
    match first_own {
        Some(own @ 2..) => path_of(&[&frames[..1], &frames[own..]].concat(), room),
        _ => path_of(frames, room),
    }
}

fn path_of(frames: &[PathFrame], room: usize) -> String {
    const MORE: &str = " < ..";
    let mut text = String::new();
    // The place of the innermost function, or where that has none of the first caller that has one. That of a program's function says
    // more than one in the source of a library or of Python.
    let has_place = |f: &PathFrame| !f.file.is_empty();
    let is_programs = |f: &PathFrame| has_place(f) && !is_library(f);
    let mut place_at = (frames.iter().position(is_programs)).or(frames.iter().position(has_place));
    for (at, frame) in frames.iter().enumerate() {
        let name = frame_name(frame);
        let mut next = name.clone();
        if place_at == Some(at) {
            place_at = None;
            next += &format!(" ({}:{})", file_name(&frame.file), frame.line);
        }
        // A recursion is one frame, and so are nameless places of one module.
        let is_same = at > 0 && {
            let inner = &frames[at - 1];
            (&inner.function, &inner.module) == (&frame.function, &frame.module)
        };
        if is_same {
            continue;
        }
        if at == 0 {
            text = printable(&next);
            // The program's own function that called a library stands in the line.
            if let Some(own) = frames.get(1).filter(|_| is_library(frame)) {
                let spare = " < ".len() + if frames.len() > 2 { MORE.len() } else { 0 };
                let left = room.saturating_sub(frame_name(own).width() + spare);
                text = cut(&text, left.max(LEAST_OF_A_CALL));
            }
            continue;
        }
        // ` < ..` must fit behind each function but the last, or the cut would itself be cut.
        let spare = if at + 1 < frames.len() { MORE.len() } else { 0 };
        let fits = |next: &String| text.width() + next.width() + spare <= room;
        // Better without its place than not at all.
        let ways = [next, name].map(|next| format!(" < {}", printable(&next)));
        let Some(next) = ways.into_iter().find(fits) else {
            return text + MORE;
        };
        text += &next;
    }
    text
}

/// A library's function, Python's interpreter's, or one that comes with Python.
fn is_library(frame: &PathFrame) -> bool {
    const OTHERS: [&str; 4] = ["libm.so", "libm-", "libpython", "python3"];
    let PathFrame { function, module, file, .. } = frame;
    is_libc(module)
        || OTHERS.iter().any(|begin| module.starts_with(begin))
        || is_of_a_library(function, module, file)
        || is_pythons_own(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> PathFrame {
        PathFrame { function: function.into(), module: "prog".into(), file: file.into(), line }
    }

    #[test]
    fn the_place_is_in_the_program_where_the_mathematics_library_has_one_too() {
        let mut path =
            [frame("__sin_fma", "/glibc/s_sin.c", 207), frame("solve", "/src/solve.c", 5)];
        path[0].module = "libm.so.6".into();
        assert_eq!(path_text(&path, 80), "__sin_fma < solve (solve.c:5)");
        assert_eq!(path_text(&path[..1], 80), "__sin_fma (s_sin.c:207)");
        assert_eq!(path_text(&path, 20), "__sin_fma < solve");
    }

    #[test]
    fn callers_that_part_have_their_shares() {
        let caller = |name: &str, share| kasuri_analyze::call_paths::Caller {
            frame: frame(name, "", 0),
            share,
            ns: 0,
        };
        let path = HotPath {
            frames: vec![frame("copy", "/src/xz.c", 90)],
            callers: vec![caller("pack", 0.748), caller("unpack", 0.252)],
            ..HotPath::default()
        };
        for (room, text) in [
            (80, "copy (xz.c:90) < 74.8 % pack, 25.2 % unpack"),
            (43, "copy (xz.c:90) < 74.8 % pack, 25.2 % unpack"),
            (42, "copy (xz.c:90) < 74.8 % pack, .."),
            (31, "copy (xz.c:90)"),
        ] {
            assert_eq!(hot_path_text(&path, room), text);
        }
    }

    #[test]
    fn the_programs_function_stands_in_the_line_of_a_library() {
        let mut path = [
            frame("runtime.mapassign_faststr_and_a_long_name", "/go/src/runtime/map.go", 9),
            frame("main.store", "/src/gop.go", 12),
            frame("main.main", "/src/gop.go", 40),
        ];
        let room = 44;
        let text = path_text(&path, room);
        assert_eq!(text, "runtime.mapas~_a_long_name < main.store < ..");
        path[0].function = "runtime.memmove".into();
        let text = path_text(&path, 60);
        assert_eq!(text, "runtime.memmove < main.store (gop.go:12) < main.main");
    }

    #[test]
    fn the_program_follows_a_library_whatever_lies_between() {
        let cpp = "/usr/include/c++/12/bits/std_mutex.h";
        let own = "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h";
        let mut path = [
            frame("__pthread_mutex_unlock_usercnt", "", 0),
            frame("__gthread_mutex_unlock", own, 779),
            frame("std::mutex::unlock()", cpp, 118),
            frame("std::lock_guard<std::mutex>::~lock_guard()", cpp, 235),
            frame("count(unsigned long)", "/src/votes.cpp", 18),
            frame("", "", 0),
        ];
        path[0].module = "libc.so.6".into();
        path[5].module = "libstdc++.so.6".into();
        let text = "pthread_mutex_unlock < count (votes.cpp:18) < [libstdc++.so.6]";
        assert_eq!(path_text(&path, 80), text);
        (path[0].function, path[0].module) = ("pthread_mutex_unlock@plt".into(), "prog".into());
        let text = "pthread_mutex_unlock@plt < count (votes.cpp:18) < ..";
        assert_eq!(path_text(&path, 52), text);
        // With libraries alone nothing is left out.
        let text = "pthread_mutex_unlock@plt < __gthread_mutex_unlock (gthr-default.h:779) < ..";
        assert_eq!(path_text(&path[..4], 80), text);
    }

    #[test]
    fn a_path_has_one_place_and_loses_outer_callers_first() {
        let path = [
            frame("write", "", 0),
            frame("flush", "/src/io.c", 88),
            frame("worker", "/src/io.c", 120),
            frame("main", "/src/main.c", 3),
        ];
        for (room, text) in [
            (80, "write < flush (io.c:88) < worker < main"),
            (39, "write < flush (io.c:88) < worker < main"),
            (38, "write < flush (io.c:88) < worker < .."),
            (30, "write < flush (io.c:88) < .."),
            (3, "write < .."),
        ] {
            assert_eq!(path_text(&path, room), text);
        }
    }

    #[test]
    fn a_recursion_is_one_frame_and_a_nameless_one_is_its_module() {
        let path =
            [frame("", "", 0), frame("fib", "", 0), frame("fib", "", 0), frame("main", "", 0)];
        assert_eq!(path_text(&path, 80), "[prog] < fib < main");
        let nameless = [frame("", "", 0), frame("", "", 0), frame("main", "", 0)];
        assert_eq!(path_text(&nameless, 80), "[prog] < main");
    }
}
