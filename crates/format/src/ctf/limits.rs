//! Bounds on the size of a type when its names are written out.
//!
//! `struct b { a x; a y; }` doubles `a`; forty such lines would be a type of 2^40 fields. A type beyond the bound is
//! refused where it is declared, so that everything that walks types afterwards may do so without care.
use super::types::Type;
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::rc::Rc;

/// Types inside types.
pub(crate) const MAX_DEPTH: u32 = 64;
/// Types that one type is made of, each counted as often as it stands there.
const MAX_NODES: u64 = 1 << 14;

/// Sizes of the types seen so far.
#[derive(Default)]
pub(crate) struct Limits {
    /// By address, which stays: `kept` holds them.
    sizes: HashMap<*const Type, (u32, u64)>,
    kept: Vec<Rc<Type>>,
}

impl Limits {
    fn size(&self, ty: &Rc<Type>) -> (u32, u64) {
        self.sizes.get(&Rc::as_ptr(ty)).copied().unwrap_or((1, 1))
    }

    /// The type, when it is not too large. `place`: of its declaration.
    pub fn admit(&mut self, ty: Type, place: u64) -> Result<Rc<Type>> {
        let children: Vec<&Rc<Type>> = match &ty {
            Type::Struct { members, .. } => members.iter().map(|m| &m.ty).collect(),
            Type::Array { element, .. } => vec![element],
            Type::Variant { choices, .. } => choices.iter().map(|c| &c.ty).collect(),
            Type::Optional { ty, .. } => vec![ty],
            _ => Vec::new(),
        };
        let sizes = children.into_iter().map(|child| self.size(child));
        let (depth, nodes) = sizes.fold((0, 1), |(d, n): (u32, u64), (depth, nodes)| {
            (d.max(depth), n.saturating_add(nodes))
        });
        if depth >= MAX_DEPTH || nodes > MAX_NODES {
            return Err(Error::new(
                ErrorKind::Limit,
                "CTF metadata",
                place,
                format!("a type of {nodes} fields in {} levels", depth + 1),
                format!("at most {MAX_NODES} fields in {MAX_DEPTH} levels"),
            ));
        }
        let ty = Rc::new(ty);
        self.sizes.insert(Rc::as_ptr(&ty), (depth + 1, nodes));
        self.kept.push(ty.clone());
        Ok(ty)
    }
}
