//! Type trees -> [`Program`]s.
//!
//! Lengths and selectors are names of fields before them. Each field that holds a number is remembered with its path; a
//! name is looked for as TSDL says: from the inside out in its own structure, then in the structures that lie before it.
//!
//! The structures of a stream are compiled in the order in which they lie there: packet header, packet context, event
//! header, then for each event class its contexts and fields. What an event class adds is forgotten before the next one, since
//! one event never refers to another's fields; the numbers of the headers stay.
use super::program::{Count, Leaf, LeafKind, NONE, Op, Program};
use super::types::*;
use crate::{Error, ErrorKind, Result};
use std::rc::Rc;

/// Operations of all programs of a trace together: tens of thousands are usual.
const MAX_OPS: usize = 1 << 21;

/// A number that others may depend on.
#[derive(Clone, Debug)]
struct Target {
    scope: Scope,
    path: Vec<String>,
    slot: u32,
    /// Operation that reads it, when it is in the program that is being made.
    op: Option<usize>,
    signed: bool,
    mappings: Option<Rc<Vec<Mapping>>>,
}

/// A number that was looked for: its slot, whether it is signed, and names of its values.
type Found = (u32, bool, Option<Rc<Vec<Mapping>>>);

/// Makes programs; remembers what was in those before.
#[derive(Clone, Debug)]
pub(crate) struct Compiler {
    major: u32,
    targets: Vec<Target>,
    n_slots: u32,
    n_ops: usize,
    program: Program,
    /// Whether the place is known to be at a byte's begin.
    aligned: bool,
    scope: Scope,
    path: Vec<String>,
    loops: u32,
}

impl Compiler {
    pub fn new(major: u32) -> Compiler {
        Compiler {
            major,
            targets: Vec::new(),
            n_slots: 0,
            n_ops: 0,
            program: Program::default(),
            aligned: true,
            scope: Scope::PacketHeader,
            path: Vec::new(),
            loops: 0,
        }
    }

    pub fn n_slots(&self) -> usize {
        self.n_slots as usize
    }

    /// Operations made so far, counted against the bound.
    pub fn n_ops(&mut self) -> &mut usize {
        &mut self.n_ops
    }

    /// The program of structures that lie one after the other. Later programs may refer to their numbers.
    pub fn program(
        &mut self,
        parts: &[(Scope, Option<&Rc<Type>>)],
        aligned: bool,
    ) -> Result<Program> {
        self.program = Program::default();
        self.aligned = aligned;
        for (scope, ty) in parts {
            if let Some(ty) = ty {
                self.scope = *scope;
                self.path.clear();
                self.ty(ty)?;
            }
        }
        for target in &mut self.targets {
            target.op = None;
        }
        let mut program = std::mem::take(&mut self.program);
        if aligned {
            fix(&mut program);
        }
        Ok(program)
    }

    /// Whether what was made last ends at a byte's begin in any case.
    pub fn ends_aligned(&self) -> bool {
        self.aligned
    }

    fn error(&self, found: impl Into<String>, needed: &'static str) -> Error {
        let at = format!("CTF metadata: field `{}`", self.path.join("."));
        Error::damaged(at, 0, found.into(), needed)
    }

    fn push(&mut self, op: Op) -> Result<usize> {
        self.n_ops += 1;
        if self.n_ops > MAX_OPS {
            return Err(Error::new(
                ErrorKind::Limit,
                "CTF metadata",
                0,
                format!("more than {MAX_OPS} fields"),
                "fewer",
            ));
        }
        self.program.ops.push(op);
        Ok(self.program.ops.len() - 1)
    }

    fn leaf(&mut self, kind: LeafKind, role: Role) -> u32 {
        let strip = |name: &String| display(name, self.major).to_owned();
        let names: Vec<String> = self.path.iter().map(strip).filter(|n| !n.is_empty()).collect();
        self.program.leaves.push(Leaf {
            name: names.join("."),
            scope: self.scope,
            role,
            kind,
            repeated: self.loops > 0,
            offset: None,
        });
        (self.program.leaves.len() - 1) as u32
    }

    fn align(&mut self, align: u64) -> Result<()> {
        if align > 1 && !(align <= 8 && self.aligned) {
            self.push(Op::Align(align))?;
        }
        self.aligned |= align >= 8;
        Ok(())
    }

    fn ty(&mut self, ty: &Type) -> Result<()> {
        match ty {
            Type::Int(int) => self.int(int),
            Type::VarInt { signed, mappings, roles } => {
                self.var_int(*signed, mappings.clone(), roles)
            }
            Type::Float { bits, align, big_endian } => self.float(*bits, *align, *big_endian),
            Type::Str { unit } => {
                self.align(8)?;
                let leaf = self.leaf(LeafKind::Text(*unit), Role::None);
                self.push(Op::Str { unit: *unit, leaf })?;
                Ok(())
            }
            Type::Bytes { length, text, roles } => {
                self.align(8)?;
                let count = self.count(length)?;
                let kind = match text {
                    true => LeafKind::Text(1),
                    false => LeafKind::Bytes,
                };
                let role = self.role(roles);
                let leaf = self.leaf(kind, role);
                self.push(Op::Bytes { count, leaf })?;
                Ok(())
            }
            Type::Struct { members, .. } => {
                self.align(ty.align())?;
                for member in members {
                    self.path.push(member.name.clone());
                    self.ty(&member.ty)?;
                    self.path.pop();
                }
                Ok(())
            }
            Type::Array { element, length, .. } => {
                self.align(ty.align())?;
                let count = self.count(length)?;
                self.array(element, count)
            }
            Type::Variant { selector, choices } => self.variant(selector.as_ref(), choices),
            Type::Optional { selector, spans, ty } => {
                let (slot, signed, _) = self.find(selector)?;
                // Any but zero.
                let truth = vec![(i128::MIN, -1), (1, i128::MAX)];
                let spans = spans.clone().unwrap_or(truth);
                self.switch(slot, signed, vec![(spans, String::new(), ty.clone())], true)
            }
        }
    }

    /// An integer of variable length (LEB128), at a byte.
    fn var_int(
        &mut self,
        signed: bool,
        mappings: Option<Rc<Vec<Mapping>>>,
        roles: &[Role],
    ) -> Result<()> {
        self.align(8)?;
        let kind =
            LeafKind::Int { bits: 64, signed, big_endian: false, mappings: mappings.clone() };
        let role = self.role(roles);
        let leaf = self.leaf(kind, role);
        let save = NONE;
        let op = self.push(Op::Leb { signed, leaf, save })?;
        self.remember(op, signed, mappings);
        Ok(())
    }

    fn float(&mut self, bits: u8, align: u64, big_endian: bool) -> Result<()> {
        self.align(align)?;
        self.aligned &= bits.is_multiple_of(8);
        let leaf = self.leaf(LeafKind::Float, Role::None);
        self.push(Op::Float { bits, big_endian, leaf })?;
        Ok(())
    }

    fn int(&mut self, int: &Int) -> Result<()> {
        self.align(int.align)?;
        let role = self.role(&int.roles);
        let leaf = self.leaf(
            LeafKind::Int {
                bits: int.bits,
                signed: int.signed,
                big_endian: int.big_endian,
                mappings: int.mappings.clone(),
            },
            role,
        );
        let (signed, big_endian, save) = (int.signed, int.big_endian, NONE);
        let op = if self.aligned && matches!(int.bits, 8 | 16 | 32 | 64) && !int.reversed {
            let bytes = int.bits / 8;
            Op::Whole { bytes, signed, big_endian, leaf, save }
        } else {
            self.aligned &= int.bits.is_multiple_of(8);
            let (bits, reversed) = (int.bits, int.reversed);
            Op::Bits { bits, signed, big_endian, reversed, leaf, save }
        };
        let op = self.push(op)?;
        self.remember(op, int.signed, int.mappings.clone());
        Ok(())
    }

    /// Meaning of the current field.
    fn role(&self, roles: &[Role]) -> Role {
        if self.major >= 2 {
            // More than one is for tools that write.
            return roles.first().copied().unwrap_or_default();
        }
        let name = self.path.last().map_or("", String::as_str);
        match (self.scope, name) {
            (Scope::PacketHeader, "magic") if self.path.len() == 1 => Role::Magic,
            (Scope::PacketHeader, "uuid") => Role::Uuid,
            (Scope::PacketHeader, "stream_id") => Role::StreamClassId,
            (Scope::PacketHeader, "stream_instance_id") => Role::StreamId,
            (Scope::PacketContext, "packet_size") => Role::PacketBits,
            (Scope::PacketContext, "content_size") => Role::ContentBits,
            (Scope::PacketContext, "timestamp_begin") => Role::Stamp,
            (Scope::PacketContext, "timestamp_end") => Role::EndStamp,
            (Scope::PacketContext, "events_discarded") => Role::Discarded,
            (Scope::PacketContext, "packet_seq_num") => Role::Sequence,
            (Scope::EventHeader, "id") => Role::EventClassId,
            (Scope::EventHeader, "timestamp") => Role::Stamp,
            _ => Role::None,
        }
    }

    fn remember(&mut self, op: usize, signed: bool, mappings: Option<Rc<Vec<Mapping>>>) {
        self.targets.push(Target {
            scope: self.scope,
            path: self.path.clone(),
            slot: NONE,
            op: Some(op),
            signed,
            mappings,
        });
        // Programs to come may refer to these; there are few.
        if self.scope < Scope::CommonContext {
            let last = self.targets.len() - 1;
            self.slot(last);
        }
    }

    /// The slot of a target, which it has from now on.
    fn slot(&mut self, ix: usize) -> u32 {
        let target = &mut self.targets[ix];
        if target.slot == NONE {
            target.slot = self.n_slots;
            self.n_slots += 1;
            if let Some(op) = target.op {
                match &mut self.program.ops[op] {
                    Op::Whole { save, .. } | Op::Bits { save, .. } | Op::Leb { save, .. } => {
                        *save = target.slot;
                    }
                    _ => {}
                }
            }
        }
        target.slot
    }

    /// Forgets what events of one class hold; their slots can be used again.
    pub fn forget_events(&mut self, n_slots: usize) {
        self.targets.retain(|t| t.scope < Scope::CommonContext);
        self.n_slots = n_slots as u32;
    }

    /// The last number of that path.
    fn target(&self, scope: Scope, path: &[String]) -> Option<usize> {
        let same = |a: &[String]| {
            let strip = |name: &String| display(name, self.major).to_owned();
            a == path || a.iter().map(strip).eq(path.iter().map(strip))
        };
        self.targets.iter().rposition(|t| t.scope == scope && same(&t.path))
    }

    fn find(&mut self, location: &Location) -> Result<Found> {
        let found = match location.scope {
            Some(scope) => {
                let path: Vec<String> = location.path.iter().flatten().cloned().collect();
                self.target(scope, &path)
            }
            None => self.search(location),
        };
        let Some(ix) = found else {
            let path: Vec<&str> =
                location.path.iter().map(|p| p.as_deref().unwrap_or("..")).collect();
            return Err(self
                .error(format!("`{}`", path.join(".")), "the name of a number before this field"));
        };
        let slot = self.slot(ix);
        let target = &self.targets[ix];
        Ok((slot, target.signed, target.mappings.clone()))
    }

    fn search(&self, location: &Location) -> Option<usize> {
        let up = location.path.iter().take_while(|p| p.is_none()).count();
        let rest: Vec<String> = location.path.iter().flatten().cloned().collect();
        let around = self.path.len().saturating_sub(1 + up);
        for depth in (0..=around).rev() {
            let mut path = self.path[..depth].to_vec();
            path.extend(rest.iter().cloned());
            if let Some(ix) = self.target(self.scope, &path) {
                return Some(ix);
            }
        }
        use Scope::*;
        let scopes =
            [Payload, SpecificContext, CommonContext, EventHeader, PacketContext, PacketHeader];
        let before = scopes.into_iter().filter(|s| *s < self.scope);
        before.filter_map(|scope| self.target(scope, &rest)).next()
    }

    fn count(&mut self, length: &Length) -> Result<Count> {
        match length {
            Length::Fixed(n) => Ok(Count::Fixed(*n)),
            Length::Field(location) => {
                let (slot, signed, _) = self.find(location)?;
                if signed {
                    return Err(self.error("a signed number as length", "an unsigned one"));
                }
                Ok(Count::Slot(slot))
            }
        }
    }

    fn array(&mut self, element: &Rc<Type>, count: Count) -> Result<()> {
        let begin = self.aligned;
        let at = self.push(Op::Loop { count, end: 0 })?;
        let (leaves, targets) = (self.program.leaves.len(), self.targets.len());
        self.loops += 1;
        self.ty(element)?;
        if begin && !self.aligned {
            // Later rounds begin anywhere: the body must not count on a byte's begin.
            self.program.ops.truncate(at + 1);
            self.program.leaves.truncate(leaves);
            self.targets.truncate(targets);
            self.aligned = false;
            self.ty(element)?;
        }
        self.loops -= 1;
        self.aligned &= begin;
        let end = self.program.ops.len() as u32;
        self.program.ops[at] = Op::Loop { count, end };
        Ok(())
    }

    fn variant(&mut self, selector: Option<&Location>, choices: &[Choice]) -> Result<()> {
        let Some(selector) = selector else {
            return Err(self.error("a variant without a tag", "`variant <tag>`"));
        };
        let (slot, signed, mappings) = self.find(selector)?;
        let mut out = Vec::with_capacity(choices.len());
        for choice in choices {
            let named = |m: &&Mapping| {
                m.label == choice.name
                    || display(&m.label, self.major) == display(&choice.name, self.major)
            };
            let spans = match &choice.spans {
                Some(spans) => spans.clone(),
                None => {
                    let mapping = mappings.as_ref().and_then(|all| all.iter().find(named));
                    mapping.map(|m| m.spans.clone()).unwrap_or_default()
                }
            };
            out.push((spans, choice.name.clone(), choice.ty.clone()));
        }
        self.switch(slot, signed, out, false)
    }

    fn switch(
        &mut self,
        slot: u32,
        signed: bool,
        choices: Vec<(Vec<Span>, String, Rc<Type>)>,
        optional: bool,
    ) -> Result<()> {
        let begin = self.aligned;
        let mut end_aligned = begin || !optional;
        let at = self.push(Op::Align(1))?;
        let mut made = Vec::with_capacity(choices.len());
        for (spans, name, ty) in choices {
            let from = self.program.ops.len() as u32;
            self.aligned = begin;
            self.path.push(name);
            self.ty(&ty)?;
            self.path.pop();
            end_aligned &= self.aligned;
            made.push((spans, from, self.program.ops.len() as u32));
        }
        self.aligned = end_aligned;
        self.program.ops[at] = Op::Switch {
            slot,
            signed,
            choices: made.into_boxed_slice(),
            optional,
            end: self.program.ops.len() as u32,
        };
        Ok(())
    }
}

/// A field's name for people: TSDL writers put an underscore before names, lest they be words of the language.
fn display(name: &str, major: u32) -> &str {
    match major {
        1 => name.strip_prefix('_').unwrap_or(name),
        _ => name,
    }
}

/// Gives each leaf its place when all have one.
fn fix(program: &mut Program) {
    let mut at = 0u64;
    let mut places = Vec::with_capacity(program.leaves.len());
    for op in &program.ops {
        let (leaf, bytes) = match op {
            Op::Whole { bytes, leaf, save, .. } if *save == NONE => (*leaf, u64::from(*bytes)),
            Op::Float { bits, leaf, .. } => (*leaf, u64::from(bits / 8)),
            Op::Bytes { count: Count::Fixed(n), leaf } => (*leaf, *n),
            _ => return,
        };
        places.push((leaf, at));
        at = at.saturating_add(bytes);
    }
    let Some(fixed) = u32::try_from(at).ok().filter(|&n| n < 1 << 28) else {
        return;
    };
    program.fixed = Some(fixed);
    for (leaf, at) in places {
        program.leaves[leaf as usize].offset = Some(at as u32);
    }
}
