//! Events of kernels other than Linux, in Perfetto's own terms: a thread's new state, its new name, processes.
use super::wire::Message;
use crate::Result;
use std::borrow::Cow;

/// A thread's new state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskState<'a> {
    /// The CPU that told it; negative: none.
    pub cpu: i32,
    /// The thread's name.
    pub comm: Cow<'a, str>,
    /// The thread.
    pub tid: i64,
    /// `TaskStateEnum`.
    pub state: u64,
}

impl<'a> TaskState<'a> {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(mut message: Message<'a>) -> Result<TaskState<'a>> {
        let mut task = TaskState { cpu: -1, ..TaskState::default() };
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => task.cpu = field.i32(),
                2 => task.comm = field.text(),
                3 => task.tid = field.i64(),
                4 => task.state = field.u64(),
                _ => {}
            }
        }
        Ok(task)
    }
}

/// A thread's id and its new name.
///
/// # Errors
/// Bytes that are no fields.
pub fn task_rename(mut message: Message<'_>) -> Result<(i64, Cow<'_, str>)> {
    let (mut tid, mut comm) = (0, Cow::default());
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => tid = field.i64(),
            2 => comm = field.text(),
            _ => {}
        }
    }
    Ok((tid, comm))
}

/// A CPU and its frequency, Hz.
///
/// # Errors
/// Bytes that are no fields.
pub fn cpu_frequency(mut message: Message<'_>) -> Result<(i32, i64)> {
    let (mut cpu, mut hz) = (0, 0);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => cpu = field.i32(),
            2 => hz = field.i64(),
            _ => {}
        }
    }
    Ok((cpu, hz))
}

/// A process (`tid` 0) or a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task<'a> {
    /// The process.
    pub pid: i64,
    /// The thread.
    pub tid: i64,
    /// The parent of a process.
    pub ppid: i64,
    /// Command line, or name of the thread.
    pub name: Cow<'a, str>,
    /// The thread that runs when no other does.
    pub is_idle: bool,
}

/// Calls `each` for processes and threads.
///
/// # Errors
/// Bytes that are no fields.
pub fn tasks<'a>(mut tree: Message<'a>, mut each: impl FnMut(Task<'a>)) -> Result<()> {
    while let Some(field) = tree.next_field()? {
        let (mut task, mut parts) = (Task::default(), field.message());
        while let Some(part) = parts.next_field()? {
            match (field.number, part.number) {
                (1, 1) | (2, 2) => task.pid = part.i64(),
                (1, 2) => task.ppid = part.i64(),
                (2, 1) => task.tid = part.i64(),
                (1 | 2, 3) => task.name = part.text(),
                (2, 5) => task.is_idle = part.bool(),
                _ => {}
            }
        }
        if matches!(field.number, 1 | 2) {
            each(task);
        }
    }
    Ok(())
}
