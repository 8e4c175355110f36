//! Event types of the exported file: their format files, and their bytes.
//!
//! A reader of trace.dat parses the format file that comes with each event, the same text that tracefs shows in
//! `events/SYSTEM/EVENT/format`, and takes the fields' offsets from it. Readers look for fields by name, so names and
//! print formats follow the kernel's (include/trace/events/sched.h and task.h); fields that the model does not have are
//! left out. The ids are the file's own; only `ftrace/print` has the kernel's (TRACE_PRINT in kernel/trace/trace.h),
//! because readers take that number for granted.
//!
//! An event begins with the fields that all have: u16 type, u8 flags, u8 preemption count (0), i32 thread id.
use crate::sched_events::{PRIORITY, Record, Task, Told};

/// `common_type` of each event.
const PRINT: u16 = 5;
const SWITCH: u16 = 320;
const WAKING: u16 = 321;
const WAKEUP_NEW: u16 = 322;
const MIGRATE: u16 = 323;
const NEWTASK: u16 = 324;
const RENAME: u16 = 325;
const EXEC: u16 = 326;
const EXIT: u16 = 327;
const RECORDING: u16 = 328;
const RUN_TIME: u16 = 329;

/// Offset of a type's own fields: they follow the common ones.
const COMMON: usize = 8;

/// The common fields in a format file.
const COMMON_FIELDS: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

/// A type's fields: declaration, bytes, whether signed.
type Fields = &'static [(&'static str, usize, bool)];

/// `prev_state` is printed as letters; its bits are those of Linux 4.14 and later.
const SWITCH_FIELDS: Fields = &[
    ("char prev_comm[16]", 16, false),
    ("pid_t prev_pid", 4, true),
    ("int prev_prio", 4, true),
    ("long prev_state", 8, true),
    ("char next_comm[16]", 16, false),
    ("pid_t next_pid", 4, true),
    ("int next_prio", 4, true),
];
const SWITCH_PRINT: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }) : "R", REC->prev_state & 0x100 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#;
/// For `sched_waking` and `sched_wakeup_new`.
const WAKING_FIELDS: Fields = &[
    ("char comm[16]", 16, false),
    ("pid_t pid", 4, true),
    ("int prio", 4, true),
    ("int target_cpu", 4, true),
];
const WAKING_PRINT: &str =
    r#""comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#;
const MIGRATE_FIELDS: Fields = &[
    ("char comm[16]", 16, false),
    ("pid_t pid", 4, true),
    ("int prio", 4, true),
    ("int orig_cpu", 4, true),
    ("int dest_cpu", 4, true),
];
const MIGRATE_PRINT: &str = r#""comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", REC->comm, REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu"#;

const NEWTASK_FIELDS: Fields = &[
    ("pid_t pid", 4, true),
    ("char comm[16]", 16, false),
    ("unsigned long clone_flags", 8, false),
];
const NEWTASK_PRINT: &str =
    r#""pid=%d comm=%s clone_flags=%lx", REC->pid, REC->comm, REC->clone_flags"#;
const RENAME_FIELDS: Fields =
    &[("pid_t pid", 4, true), ("char oldcomm[16]", 16, false), ("char newcomm[16]", 16, false)];
const RENAME_PRINT: &str =
    r#""pid=%d oldcomm=%s newcomm=%s", REC->pid, REC->oldcomm, REC->newcomm"#;
const EXEC_FIELDS: Fields =
    &[("char comm[16]", 16, false), ("pid_t pid", 4, true), ("pid_t old_pid", 4, true)];
const EXEC_PRINT: &str = r#""comm=%s pid=%d old_pid=%d", REC->comm, REC->pid, REC->old_pid"#;
const EXIT_FIELDS: Fields =
    &[("char comm[16]", 16, false), ("pid_t pid", 4, true), ("int prio", 4, true)];
const EXIT_PRINT: &str = r#""comm=%s pid=%d prio=%d", REC->comm, REC->pid, REC->prio"#;
const RUN_TIME_FIELDS: Fields =
    &[("char comm[16]", 16, false), ("pid_t pid", 4, true), ("u64 runtime", 8, false)];
const RUN_TIME_PRINT: &str =
    r#""comm=%s pid=%d runtime=%Lu [ns]", REC->comm, REC->pid, REC->runtime"#;
/// Kasuri's own: when recording began and ended, on each CPU that was recorded.
const RECORDING_FIELDS: Fields = &[("int ends", 4, true)];
const RECORDING_PRINT: &str = r#""ends=%d", REC->ends"#;

/// The format file of an event type: its name and id, the common fields, its own, and how to print them. The fields
/// are packed, without the padding that the kernel's structs may have.
fn format(name: &str, id: u16, fields: Fields, print: &str) -> String {
    let mut out = format!("name: {name}\nID: {id}\nformat:\n{COMMON_FIELDS}\n");
    let mut offset = COMMON;
    for (declaration, size, signed) in fields {
        let signed = u8::from(*signed);
        out.push_str(&format!(
            "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        ));
        offset += size;
    }
    out.push_str(&format!("\nprint fmt: {print}\n"));
    out
}

/// Format file of ftrace/print.
pub fn print_format() -> String {
    let mut out = format("print", PRINT, &[("unsigned long ip", 8, false)], r#""%s", REC->buf"#);
    // The text has no fixed size, which `format` cannot express: its field is put in before the print format.
    let fields = "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\nprint fmt";
    out = out.replacen("\nprint fmt", fields, 1);
    out
}

/// Format files of the events, by `system/event`. Without migrations recorded there is no type for them: a reader
/// infers them from where threads run then.
pub fn formats(has_migrations: bool) -> Vec<(&'static str, String)> {
    let all = [
        ("sched/sched_switch", SWITCH, SWITCH_FIELDS, SWITCH_PRINT),
        ("sched/sched_waking", WAKING, WAKING_FIELDS, WAKING_PRINT),
        ("sched/sched_wakeup_new", WAKEUP_NEW, WAKING_FIELDS, WAKING_PRINT),
        (MIGRATE_NAME, MIGRATE, MIGRATE_FIELDS, MIGRATE_PRINT),
        ("sched/sched_process_exec", EXEC, EXEC_FIELDS, EXEC_PRINT),
        ("sched/sched_process_exit", EXIT, EXIT_FIELDS, EXIT_PRINT),
        ("sched/sched_stat_runtime", RUN_TIME, RUN_TIME_FIELDS, RUN_TIME_PRINT),
        ("task/task_newtask", NEWTASK, NEWTASK_FIELDS, NEWTASK_PRINT),
        ("task/task_rename", RENAME, RENAME_FIELDS, RENAME_PRINT),
        ("kasuri/recording", RECORDING, RECORDING_FIELDS, RECORDING_PRINT),
    ];
    let all = all.into_iter();
    all.filter(|(name, ..)| has_migrations || *name != MIGRATE_NAME)
        .map(|(path, id, fields, print)| {
            let name = path.split_once('/').map_or(path, |(_, name)| name);
            (path, format(name, id, fields, print))
        })
        .collect()
}

/// Named, because [`formats`] leaves it out of recordings without migrations.
const MIGRATE_NAME: &str = "sched/sched_migrate_task";

/// A name as the kernel stores it: at most 15 bytes, cut at a character, padded with NULs.
fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    let mut n = name.len().min(15);
    while !name.is_char_boundary(n) {
        n -= 1;
    }
    comm[..n].copy_from_slice(&name.as_bytes()[..n]);
    comm
}

/// One event's bytes. The buffer is used again for the next event.
#[derive(Default)]
pub struct Bytes {
    bytes: Vec<u8>,
}

impl Bytes {
    /// Begins an event with the common fields; `context` is the thread that ran.
    fn start(&mut self, id: u16, flags: u8, context: i32) -> &mut Bytes {
        self.bytes.clear();
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(&[flags, 0]);
        self.int(context)
    }

    fn int(&mut self, value: i32) -> &mut Bytes {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Bytes {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn comm(&mut self, task: &Task<'_>) -> &mut Bytes {
        self.bytes.extend_from_slice(&comm(&task.name));
        self
    }

    /// A thread as most events have it: name, id, priority.
    fn task(&mut self, task: &Task<'_>) -> &mut Bytes {
        self.comm(task).int(task.tid).int(PRIORITY)
    }

    /// A scheduler event; none where events are missing.
    pub fn event(&mut self, record: &Record<'_>) -> Option<&[u8]> {
        let id = match &record.what {
            Told::Switch { .. } => SWITCH,
            Told::Waking { is_new: true, .. } => WAKEUP_NEW,
            Told::Waking { .. } => WAKING,
            Told::Migrate { .. } => MIGRATE,
            Told::NewTask { .. } => NEWTASK,
            Told::Exec { .. } => EXEC,
            Told::Exit { .. } => EXIT,
            Told::Rename { .. } => RENAME,
            Told::RunTime { .. } => RUN_TIME,
            Told::Lost => return None,
        };
        let out = self.start(id, record.flags(), record.context);
        match &record.what {
            Told::Switch { prev, prev_state, next } => out.task(prev).long(*prev_state).task(next),
            Told::Waking { task, target_cpu, .. } => out.task(task).int(*target_cpu),
            Told::Migrate { task, from, to } => {
                out.task(task).int((*from).into()).int((*to).into())
            }
            Told::NewTask { task, clone_flags, .. } => {
                out.int(task.tid).comm(task).long(*clone_flags as i64)
            }
            Told::Exec { task, old_tid } => out.comm(task).int(task.tid).int(*old_tid),
            Told::Exit { task } => out.task(task),
            Told::Rename { task } => out.int(task.tid).comm(task).comm(task),
            Told::RunTime { task, ns } => out.comm(task).int(task.tid).long((*ns).into()),
            Told::Lost => out,
        };
        Some(&self.bytes)
    }

    /// The event that marks the begin or the end of recording on a CPU.
    pub fn recording(&mut self, ends: bool) -> &[u8] {
        self.start(RECORDING, 0, 0).int(ends.into());
        &self.bytes
    }

    /// Text as a write to trace_marker leaves it: with a newline, a NUL, padded. Cut to fit.
    pub fn print(&mut self, context: i32, text: &str) -> &[u8] {
        self.start(PRINT, 0, context).long(0);
        let mut n = text.len().min(super::pages::EVENT_MAX - 24);
        while !text.is_char_boundary(n) {
            n -= 1;
        }
        self.bytes.extend_from_slice(&text.as_bytes()[..n]);
        self.bytes.extend_from_slice(b"\n\0");
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
        &self.bytes
    }
}
