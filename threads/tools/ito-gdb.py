# SPDX-License-Identifier: MIT OR Apache-2.0
"""gdb: the threads of ito, in a running program or a core file.

  source threads/tools/ito-gdb.py
  ito threads          every thread: number, name, what it does (running, ready, what it waits for)
  ito bt [N|ADDRESS]   its backtrace; without an argument those of all

A suspended thread is its stack pointer. Backtraces read memory only (an unwinder hands gdb the saved registers as if they were the
caller's of the current frame), so they change nothing and work in core files of the kernel (gdb's own
`gcore` leaves out stacks: it cannot read their guards). Needs libito's debug information.
"""
import gdb
import gdb.unwinder

FREE, DONE, ENDED = 3, 2, 5
CHUNK_BYTES, CHUNK_HEADER = 1 << 16, 64
# Where registers lie above a saved stack pointer, in words, and how many words there are: src/context/*.
LAYOUTS = {"i386:x86-64": (["rip", "rbx", "rbp", "r12", "r13", "r14", "r15"], "rsp")}


def pool():
    try:
        return gdb.parse_and_eval("ito__pool")
    except gdb.error as e:
        raise gdb.GdbError("no ito here: libito is not loaded, or has no debug information") from e


def address(pointer):
    return int(pointer.cast(gdb.lookup_type("unsigned long")))


class Thread:
    def __init__(self, value, worker=None, sp=None):
        self.value, self.worker = value, worker
        self.at = int(value.address)
        self.sp = sp if sp is not None else address(value["sp"])

    def name(self):
        name = self.value["name"]
        return name.string() if address(name) else "-"

    def doing(self):
        if self.worker is not None:
            return f"running on worker {self.worker}"
        if int(self.value["state"]) in (DONE, ENDED):
            return "ended, not joined"
        kind = str(gdb.Value(int(self.value["wait_kind"])).cast(gdb.lookup_type("enum ito__wait_kind")))
        kind = kind.replace("ITO__WAIT_", "").lower()
        return "ready" if kind == "none" else f"waits: {kind} {address(self.value['wait_on']):#x}"


def workers():
    p = pool()
    return [p["workers"][i] for i in range(int(p["n_workers"]))]


def threads():
    """All threads that have not ended or are not joined; the root thread first."""
    current, in_deque = {}, {}
    for i, w in enumerate(workers()):
        current[address(w["hot"]["current"])] = i
        slot, bottom = w["base"], w["hot"]["bottom"]
        while address(slot) < address(bottom):
            if not int(slot["thread"]) & 1:
                in_deque[int(slot["thread"])] = address(slot["sp"])
            slot += 1

    def thread(value):
        at = int(value.address)
        return Thread(value, current.get(at), in_deque.get(at))

    found = []
    if int(pool()["n_workers"]):
        found.append(thread(pool()["root"]))
    kind = gdb.lookup_type("struct ito_thread")
    chunk = address(gdb.parse_and_eval("ito__descriptor_chunks"))
    while chunk:
        at = chunk + CHUNK_HEADER
        while at + kind.sizeof <= chunk + CHUNK_BYTES:
            value = gdb.Value(at).cast(kind.pointer()).dereference()
            at += kind.sizeof
            if int(value["state"]) != FREE and address(value["stack"]):
                found.append(thread(value))
        chunk = address(gdb.Value(chunk).cast(gdb.lookup_type("unsigned long").pointer()).dereference())
    return found


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Jump(gdb.unwinder.Unwinder):
    """While `sp` is set: the caller of the innermost frame is the suspended context there."""

    def __init__(self):
        super().__init__("ito")
        self.sp = None

    def __call__(self, pending):
        if self.sp is None:
            return None
        names, stack = LAYOUTS[gdb.selected_inferior().architecture().name()]
        sp, word = pending.read_register(stack), gdb.lookup_type("unsigned long")
        if int(sp) != self.innermost:
            return None
        # gdb ends where a caller's frame lies at a lower address: so this one is said to lie right below the context.
        below = gdb.Value(self.sp - 8).cast(word)
        info = pending.create_unwind_info(FrameId(below, pending.read_register(names[0])))
        for i, name in enumerate(names):
            saved = gdb.Value(self.sp + 8 * i).cast(word.pointer()).dereference()
            if i == 0:
                # gdb looks up a caller at pc - 1, the call. Ours was no call: the byte before is the jump away, where the frame is lost.
                saved = saved + 1
            info.add_saved_register(name, saved)
        info.add_saved_register(stack, gdb.Value(self.sp + 8 * len(names)).cast(word))
        return info

    def frames(self, sp):
        """Frames of the context at sp, innermost first."""
        newest = gdb.newest_frame()
        self.innermost = int(newest.read_register(LAYOUTS[newest.architecture().name()][1]))
        self.sp = sp
        past_main = gdb.parameter("backtrace past-main")
        gdb.execute("set backtrace past-main on")  # the innermost frame may be main's
        gdb.invalidate_cached_frames()
        try:
            lines, frame = [], gdb.newest_frame().older()
            while frame is not None:
                lines.append(describe(frame))
                frame = frame.older()
            return lines
        finally:
            self.sp = None
            gdb.execute("set backtrace past-main " + ("on" if past_main else "off"))
            gdb.invalidate_cached_frames()


def describe(frame):
    line = frame.find_sal()
    where = f" at {line.symtab.filename}:{line.line}" if line.symtab else ""
    return f"{frame.name() or '??'} (pc {frame.pc():#x}){where}"


jump = Jump()
gdb.unwinder.register_unwinder(None, jump, replace=True)


def kernel_thread_of(worker):
    """gdb's thread whose worker this is."""
    for t in gdb.selected_inferior().threads():
        t.switch()
        try:
            if address(gdb.parse_and_eval("ito__tls_worker")) == int(workers()[worker].address):
                return t
        except gdb.error:
            continue
    return None


def backtrace(t):
    if t.worker is not None:
        before = gdb.selected_thread()
        lines = []
        if kernel_thread_of(t.worker):
            frame = gdb.newest_frame()
            while frame is not None:
                lines.append(describe(frame))
                frame = frame.older()
        if before:
            before.switch()
        return lines
    if int(t.value["state"]) in (DONE, ENDED):
        return []
    if gdb.newest_frame().architecture().name() not in LAYOUTS:
        return ["(suspended: backtraces are for x86-64 only)"]
    return jump.frames(t.sp)


class Ito(gdb.Command):
    """Threads of ito: `ito threads`, `ito bt [N|ADDRESS]`."""

    def __init__(self):
        super().__init__("ito", gdb.COMMAND_STATUS, prefix=True)


class Threads(gdb.Command):
    """List the threads of ito."""

    def __init__(self):
        super().__init__("ito threads", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print(f"{'':>6} {'thread':<18} {'name':<16} state")
        for i, t in enumerate(threads()):
            print(f"{i:>6} {t.at:#018x} {t.name():<16} {t.doing()}")


class Backtrace(gdb.Command):
    """Backtrace of one thread of ito, by number or address, or of all."""

    def __init__(self):
        super().__init__("ito bt", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        wanted = int(gdb.parse_and_eval(argument)) if argument else None
        shown = False
        for i, t in enumerate(threads()):
            if wanted is not None and wanted not in (i, t.at):
                continue
            shown = True
            print(f"thread {i} {t.at:#x} {t.name()}: {t.doing()}")
            for n, line in enumerate(backtrace(t)):
                print(f"  #{n:<3} {line}")
        if not shown:
            raise gdb.GdbError(f"no thread of ito {argument}: see `ito threads`")


Ito()
Threads()
Backtrace()
