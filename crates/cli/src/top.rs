//! `kasuri top` between the kernel and the screen: what reads the events window by window, and what shows them.
use anyhow::Context;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use crossterm::{cursor, queue, style};
use kasuri_import::syscall_name;
use kasuri_live::{Live, ThreadRow, Window};
use kasuri_record::clock::monotonic_ns;
use kasuri_record::tap::{self, Keep, Tap};
use kasuri_text::table::{self, BlockedIn, TopFacts, TopSort, TopView};
use std::collections::{BTreeMap, HashMap};
use std::io::{Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks at the kernel's buffers, which hold more than that of any load but the worst.
const TICK: Duration = Duration::from_millis(100);
/// A CPU's events of this long ago have been written, whatever it was interrupted by.
const SETTLED_NS: u64 = 2_000_000;
/// Processes whose CPU limits are looked at in a window: those with most CPU time.
const LIMITED: usize = 16;
/// Threads that are looked up in /proc in a tick.
const ASKED: usize = 256;

/// Follows the machine.
pub struct Follower {
    tap: Tap,
    live: Live,
    interval: Duration,
    /// When the window that is open ends.
    due_ns: u64,
    machine: String,
    own_ns: u64,
    /// ns for which a process's cgroup had been held off when it was looked at last.
    throttled: HashMap<i32, u64>,
    /// The system calls of blocked threads as the last window ended; `None`: in none, or it may not be asked.
    waits_in: HashMap<i32, Option<i64>>,
    ended: Arc<AtomicBool>,
}

impl Follower {
    /// Opens the kernel's events.
    ///
    /// # Errors
    /// When there are none for this user.
    pub fn start(keep: Keep, interval: Duration) -> anyhow::Result<Follower> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        let tap = Tap::open(keep)?;
        let now = monotonic_ns();
        let mut live = Live::new(&tap.meta(), tap.cpus(), now)
            .context("this kernel's scheduler events are not understood")?;
        for thread in tap::threads() {
            live.learn(thread.pid, thread.tid, &thread.comm);
        }
        let machine = kasuri_record::host::host().machine;
        Ok(Follower {
            due_ns: now + interval.as_nanos() as u64,
            own_ns: process_cpu_ns(),
            throttled: HashMap::new(),
            waits_in: HashMap::new(),
            tap,
            live,
            interval,
            machine,
            ended,
        })
    }

    /// What the user should know before the first window.
    pub fn notes(&self) -> Vec<String> {
        let removed = self.tap.removed.iter();
        let removed = removed
            .map(|name| format!("removed tracing instance {name}, left by a killed recorder"));
        removed.chain(self.tap.missing().iter().cloned()).collect()
    }

    /// Whether the user asked for the end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for the end of the window. `None`: the user asked for the end first.
    ///
    /// # Errors
    /// When the kernel's events cannot be read.
    pub fn next(&mut self) -> anyhow::Result<Option<(Window, TopFacts)>> {
        loop {
            if self.has_ended() {
                return Ok(None);
            }
            std::thread::sleep(self.pause());
            if let Some(window) = self.tick()? {
                return Ok(Some(window));
            }
        }
    }

    /// Time until the next look is due.
    pub fn pause(&self) -> Duration {
        let left = (self.due_ns + SETTLED_NS).saturating_sub(monotonic_ns());
        TICK.min(Duration::from_nanos(left))
    }

    /// Reads what the kernel has written, and returns the window if it has ended.
    ///
    /// # Errors
    /// When the kernel's events cannot be read.
    pub fn tick(&mut self) -> anyhow::Result<Option<(Window, TopFacts)>> {
        let now = monotonic_ns();
        let live = &mut self.live;
        self.tap.read(|cpu, page| live.push(cpu, page))?;
        let settled = now.saturating_sub(SETTLED_NS);
        if settled < self.due_ns {
            live.advance(settled);
            return Ok(None);
        }
        live.advance(self.due_ns);
        self.look_up();
        let window = self.live.close(self.due_ns);
        // After a stop (SIGSTOP, a sleeping machine) windows do not rush past.
        let interval = self.interval.as_nanos() as u64;
        self.due_ns = (self.due_ns + interval).max(settled);
        let facts = self.facts(&window);
        Ok(Some((window, facts)))
    }

    /// Asks /proc for threads that were not there before.
    fn look_up(&mut self) {
        for tid in self.live.unknown(ASKED) {
            if let Some((pid, name)) = tap::thread(tid) {
                self.live.learn(pid, tid, &name);
            }
        }
    }

    fn facts(&mut self, window: &Window) -> TopFacts {
        let own = process_cpu_ns();
        let own_ns = own - std::mem::replace(&mut self.own_ns, own);
        TopFacts {
            own_ns,
            lost: self.tap.second(),
            clock: time_of_day(),
            blocked_in: self.blocked_in(window),
            limits: self.limits(window),
        }
    }

    /// The system calls of blocked threads, those of the processes with most CPU time first. A thread that has not run since it was
    /// asked still waits in the same; of the others so many are asked that it stays cheap.
    fn blocked_in(&mut self, window: &Window) -> BTreeMap<i32, BlockedIn> {
        let ranks = window.processes.iter().enumerate();
        let rank: HashMap<i32, usize> = ranks.map(|(ix, p)| (p.pid, ix)).collect();
        let is_blocked = |t: &&ThreadRow| t.is_blocked && !t.has_ended && t.pid != 0;
        let mut threads: Vec<_> = window.threads.iter().filter(is_blocked).collect();
        threads.sort_by_key(|t| rank.get(&t.pid));
        let before = std::mem::take(&mut self.waits_in);
        let mut found: BTreeMap<i32, (HashMap<i64, usize>, usize)> = BTreeMap::new();
        let mut asked = 0;
        for thread in threads {
            let has_run = window.gaps > 0 || thread.run_ns + thread.blocked > 0;
            let known = before.get(&thread.tid).filter(|_| !has_run).copied();
            let known = known.or_else(|| {
                asked += 1;
                (asked <= tap::MAX_ASKED).then(|| tap::waits_in(thread.pid, thread.tid))
            });
            let of = found.entry(thread.pid).or_default();
            match known {
                Some(Some(call)) => *of.0.entry(call).or_default() += 1,
                Some(None) => {}
                None => of.1 += 1,
            }
            if let Some(Some(call)) = known
                && thread.tid != thread.pid
            {
                found.entry(thread.tid).or_default().0.insert(call, 1);
            }
            self.waits_in.extend(known.map(|call| (thread.tid, call)));
        }
        let named = |(calls, not_asked): (HashMap<i64, usize>, usize)| {
            let mut calls: Vec<(i64, usize)> = calls.into_iter().collect();
            calls.sort_by_key(|&(call, n)| (std::cmp::Reverse(n), call));
            let name = |&(call, n): &(i64, usize)| (syscall_name(&self.machine, call), n);
            BlockedIn { calls: calls.iter().map(name).collect(), not_asked }
        };
        let found = found.into_iter();
        found.map(|(of, calls)| (of, named(calls))).collect()
    }

    fn limits(&mut self, window: &Window) -> Vec<(i32, f64, u64)> {
        let mut limits = Vec::new();
        let mut seen = HashMap::new();
        for process in window.processes.iter().filter(|p| p.pid != 0).take(LIMITED) {
            if let Some(now) = self.tap.throttling(process.pid) {
                let before = self.throttled.get(&process.pid).copied();
                let ns = now.throttled_ns.saturating_sub(before.unwrap_or(now.throttled_ns));
                limits.push((process.pid, now.cpus, ns));
                seen.insert(process.pid, now.throttled_ns);
            }
        }
        self.throttled = seen;
        limits
    }

    /// Saves the last seconds.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, file: &Path) -> anyhow::Result<()> {
        self.tap.save(file, &mut |_| {})?;
        Ok(())
    }
}

/// CPU time of this process, ns.
fn process_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Time of day, UTC: `17:04:59Z`.
fn time_of_day() -> String {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let second = t.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The terminal, given back as it was when dropped.
pub struct Screen {
    out: Stdout,
    view: TopView,
    last: Option<(Window, TopFacts)>,
    is_frozen: bool,
    /// The filter is being typed.
    is_typing: bool,
    said: String,
    saved: u32,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it cannot be set.
    pub fn open(view: TopView) -> anyhow::Result<Screen> {
        terminal::enable_raw_mode()?;
        let mut screen = Screen {
            out: std::io::stdout(),
            view,
            last: None,
            is_frozen: false,
            is_typing: false,
            said: String::new(),
            saved: 0,
        };
        queue!(screen.out, EnterAlternateScreen, cursor::Hide)?;
        screen.out.flush()?;
        Ok(screen)
    }

    /// Shows windows until the user quits.
    ///
    /// # Errors
    /// When the kernel's events cannot be read, or the terminal is gone.
    pub fn follow(mut self, follower: &mut Follower) -> anyhow::Result<()> {
        self.draw()?;
        while !follower.has_ended() {
            if event::poll(follower.pause())? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
                        if !self.key(key.code, ctrl, follower) {
                            break;
                        }
                    }
                    _ => {}
                }
                self.draw()?;
            }
            if let Some(window) = follower.tick()?
                && !self.is_frozen
            {
                self.last = Some(window);
                self.draw()?;
            }
        }
        Ok(())
    }

    /// Does what a key asks for; false: quit.
    fn key(&mut self, code: KeyCode, ctrl: bool, follower: &Follower) -> bool {
        if ctrl && code == KeyCode::Char('c') {
            return false;
        }
        if self.is_typing {
            match code {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.view.filter.clear();
                }
                KeyCode::Backspace => drop(self.view.filter.pop()),
                KeyCode::Char(c) if self.view.filter.len() < 64 => self.view.filter.push(c),
                _ => {}
            }
            return true;
        }
        self.said.clear();
        match code {
            KeyCode::Char('q') => return false,
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('t') => self.view.threads = !self.view.threads,
            KeyCode::Char('c') => self.view.sort = TopSort::Cpu,
            KeyCode::Char('r') => self.view.sort = TopSort::Ready,
            KeyCode::Char('o') => self.view.sort = TopSort::Others,
            KeyCode::Char('w') => self.view.sort = TopSort::Switches,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') => self.save(follower),
            _ => {}
        }
        true
    }

    fn save(&mut self, follower: &Follower) {
        let names = (self.saved + 1..).map(|n| match n {
            1 => PathBuf::from("top.kasuri"),
            n => PathBuf::from(format!("top.{n}.kasuri")),
        });
        let mut free = names.filter(|name| !name.exists());
        let Some(file) = free.next() else { return };
        self.saved += 1;
        self.said = match follower.save(&file) {
            Ok(()) => format!("saved {}: kasuri stat {}", file.display(), file.display()),
            Err(error) => table::units::printable(&format!("not saved: {error:#}")),
        };
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let (columns, rows) = terminal::size().unwrap_or((80, 24));
        self.view.width = usize::from(columns);
        let rows = usize::from(rows);
        self.view.rows = rows;
        queue!(self.out, BeginSynchronizedUpdate)?;
        let lines = match &self.last {
            Some((window, facts)) => {
                let page = table::top(window, facts, &self.view);
                let mut lines: Vec<(bool, String)> = page
                    .lines
                    .into_iter()
                    .enumerate()
                    .map(|(ix, l)| (ix == page.heading, l))
                    .collect();
                lines.truncate(rows.saturating_sub(1));
                lines
            }
            None => vec![(false, "kasuri top: the first window is being measured".to_owned())],
        };
        for (row, (is_heading, line)) in lines.iter().enumerate() {
            queue!(self.out, cursor::MoveTo(0, row as u16), Clear(ClearType::CurrentLine))?;
            if *is_heading {
                queue!(self.out, style::SetAttribute(style::Attribute::Reverse))?;
                let width = self.view.width;
                queue!(
                    self.out,
                    style::Print(format!("{line:width$}")),
                    style::SetAttribute(style::Attribute::Reset)
                )?;
            } else {
                queue!(self.out, style::Print(line))?;
            }
        }
        queue!(self.out, cursor::MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown))?;
        let foot: String = self.foot().chars().take(self.view.width).collect();
        queue!(
            self.out,
            cursor::MoveTo(0, rows.saturating_sub(1) as u16),
            style::Print(foot),
            EndSynchronizedUpdate
        )?;
        self.out.flush()?;
        Ok(())
    }

    fn foot(&self) -> String {
        if self.is_typing {
            return format!("filter: {}_", table::units::printable(&self.view.filter));
        }
        if !self.said.is_empty() {
            return self.said.clone();
        }
        let frozen = if self.is_frozen { "FROZEN  " } else { "" };
        format!("{frozen}q quit  space freeze  t threads  c r o w sort  / filter  s save")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = queue!(self.out, LeaveAlternateScreen, cursor::Show);
        let _ = self.out.flush();
        let _ = terminal::disable_raw_mode();
    }
}
