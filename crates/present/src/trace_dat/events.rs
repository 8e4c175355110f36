//! Event types of the exported file: their format files, and their bytes. Ids are the file's own; ftrace/print has the
//! kernel's, which readers know by heart.
use crate::label;
use crate::sched_events::PRIORITY;
use kasuri_model::{ThreadIx, Trace};

const PRINT: u16 = 5;
const SWITCH: u16 = 320;
const WAKING: u16 = 321;
const WAKEUP_NEW: u16 = 322;
const MIGRATE: u16 = 323;

/// `common_flags`: inside an interrupt.
const HARDIRQ: u8 = 0x08;
/// Where the fields of a type begin: after those that all have.
const COMMON: usize = 8;

const COMMON_FIELDS: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

/// A type's fields: declaration, bytes, whether signed.
type Fields = &'static [(&'static str, usize, bool)];

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
    let mut out = format(
        "print",
        PRINT,
        &[("unsigned long ip", 8, false)],
        r#""%s", REC->buf"#,
    );
    let fields = "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\nprint fmt";
    out = out.replacen("\nprint fmt", fields, 1);
    out
}

/// Format files of the scheduler's events.
pub fn sched_formats() -> [String; 4] {
    [
        format("sched_switch", SWITCH, SWITCH_FIELDS, SWITCH_PRINT),
        format("sched_waking", WAKING, WAKING_FIELDS, WAKING_PRINT),
        format("sched_wakeup_new", WAKEUP_NEW, WAKING_FIELDS, WAKING_PRINT),
        format("sched_migrate_task", MIGRATE, MIGRATE_FIELDS, MIGRATE_PRINT),
    ]
}

/// Who a thread is for the kernel: its id, and its name as 15 bytes and a NUL. None: CPU `cpu`'s idle thread.
#[derive(Clone, Copy)]
pub struct Task {
    pub tid: i32,
    comm: [u8; 16],
}

impl Task {
    pub fn of(trace: &Trace, thread: ThreadIx, cpu: u16) -> Task {
        let idle = || (0, format!("swapper/{cpu}").into());
        let named = |t: &kasuri_model::Thread| (t.tid, label::thread(trace, thread));
        let (tid, name): (i32, std::borrow::Cow<'_, str>) =
            trace.threads.get(thread.ix()).map_or_else(idle, named);
        let mut comm = [0; 16];
        let mut n = name.len().min(15);
        while !name.is_char_boundary(n) {
            n -= 1;
        }
        comm[..n].copy_from_slice(&name.as_bytes()[..n]);
        Task { tid, comm }
    }
}

/// One event's bytes, built again and again in the same room.
#[derive(Default)]
pub struct Bytes {
    bytes: Vec<u8>,
}

impl Bytes {
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

    fn task(&mut self, task: Task) -> &mut Bytes {
        self.bytes.extend_from_slice(&task.comm);
        self.int(task.tid).int(PRIORITY)
    }

    pub fn switch(&mut self, prev: Task, prev_state: i64, next: Task) -> &[u8] {
        self.start(SWITCH, 0, prev.tid)
            .task(prev)
            .long(prev_state)
            .task(next);
        &self.bytes
    }

    /// `waker`: none for an interrupt, raised while `context` ran.
    pub fn waking(
        &mut self,
        waker: Option<i32>,
        context: i32,
        wakee: Task,
        cpu: u16,
        new: bool,
    ) -> &[u8] {
        let id = if new { WAKEUP_NEW } else { WAKING };
        let flags = if waker.is_none() { HARDIRQ } else { 0 };
        self.start(id, flags, waker.unwrap_or(context))
            .task(wakee)
            .int(cpu.into());
        &self.bytes
    }

    pub fn migrate(&mut self, context: i32, task: Task, from: u16, to: u16) -> &[u8] {
        self.start(MIGRATE, 0, context)
            .task(task)
            .int(from.into())
            .int(to.into());
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
