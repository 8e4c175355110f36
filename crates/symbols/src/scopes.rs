//! Names of C++ functions with the classes and name spaces that they are in.
//!
//! A function that no other file sees (in a name space without a name, of a class in a function) has no name for linkers, only its bare one.
//! What it is in is told by the place of its declaration in the tree of its unit. That tree has no way up, so it is read from
//! its beginning, once for all addresses of a unit that follow each other.
use gimli::{AttributeValue, DwLang, DwTag, Reader, ReaderOffset, UnitOffset, UnitRef};

/// Steps from a call to the declaration of its function.
const STEPS_MAX: usize = 16;
/// Scopes around a function, and of a unit, that count; most bytes of a name with them.
const DEPTH_MAX: usize = 32;
const SCOPES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 4096;

/// What functions are in.
struct Scope<R> {
    /// Where it is in its unit, and where what follows it begins.
    begin: u64,
    end: u64,
    /// What it is in itself.
    outer: Option<usize>,
    name: Option<R>,
    tag: DwTag,
}

/// The scopes of one unit, in the order of their beginnings.
pub(crate) struct Scopes<R: Reader> {
    unit: u64,
    scopes: Vec<Scope<R>>,
}

/// Whether functions of this language may have a bare name that is not all of it.
pub(crate) fn has_scopes(language: Option<DwLang>, name: &str) -> bool {
    const CPP: [DwLang; 6] = [
        gimli::DW_LANG_C_plus_plus,
        gimli::DW_LANG_C_plus_plus_03,
        gimli::DW_LANG_C_plus_plus_11,
        gimli::DW_LANG_C_plus_plus_14,
        gimli::DW_LANG_C_plus_plus_17,
        gimli::DW_LANG_C_plus_plus_20,
    ];
    !name.starts_with("_Z") && language.is_some_and(|language| CPP.contains(&language))
}

impl<R: Reader> Scopes<R> {
    /// What is around the declaration of the function of a call, as it stands before its name: `a::B::`. `kept`: the scopes of the last unit that was
    /// asked for. What cannot be read is left out.
    pub fn around(
        kept: &mut Option<Scopes<R>>,
        unit: UnitRef<'_, R>,
        call: UnitOffset<R::Offset>,
    ) -> String {
        let Some(declaration) = declaration(unit, call) else {
            return String::new();
        };
        let key = match unit.header.offset() {
            gimli::UnitSectionOffset(offset) => offset.into_u64(),
        };
        if kept.as_ref().is_none_or(|scopes| scopes.unit != key) {
            let scopes = read(unit).unwrap_or_default();
            *kept = Some(Scopes { unit: key, scopes });
        }
        let place = declaration.0.into_u64();
        kept.as_ref().map_or_else(String::new, |s| s.before(place))
    }

    fn before(&self, place: u64) -> String {
        let mut names = Vec::new();
        let after = self.scopes.partition_point(|scope| scope.begin < place);
        let mut at = after.checked_sub(1);
        while let Some(ix) = at {
            let scope = &self.scopes[ix];
            at = scope.outer;
            if place >= scope.end || names.len() == DEPTH_MAX {
                continue;
            }
            let name = scope.name.as_ref().and_then(|n| n.to_string_lossy().ok());
            match name {
                Some(name) => names.push(name.into_owned()),
                None if scope.tag == gimli::DW_TAG_namespace => {
                    names.push("(anonymous namespace)".to_owned());
                }
                None => {}
            }
        }
        let mut text = String::new();
        for name in names.iter().rev() {
            text += name;
            text += "::";
        }
        match text.len() <= NAME_BYTES_MAX {
            true => text,
            false => String::new(),
        }
    }
}

/// The declaration that the function of a call was made from.
fn declaration<R: Reader>(
    unit: UnitRef<'_, R>,
    call: UnitOffset<R::Offset>,
) -> Option<UnitOffset<R::Offset>> {
    let mut at = call;
    for _ in 0..STEPS_MAX {
        let mut entries = unit.entries_raw(Some(at)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let mut from = None;
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            if let gimli::DW_AT_abstract_origin | gimli::DW_AT_specification = attribute.name() {
                // Of another unit, after optimisation of the whole program: its scopes are not looked for.
                let AttributeValue::UnitRef(offset) = attribute.value() else {
                    return None;
                };
                from = Some(offset);
            }
        }
        match from {
            Some(offset) => at = offset,
            None => return Some(at),
        }
    }
    None
}

/// All scopes of a unit.
fn read<R: Reader>(unit: UnitRef<'_, R>) -> Option<Vec<Scope<R>>> {
    let mut scopes: Vec<Scope<R>> = Vec::new();
    // Those that the entry is in, with their depths.
    let mut open: Vec<(isize, usize)> = Vec::new();
    let mut entries = unit.entries_raw(None).ok()?;
    while !entries.is_empty() {
        let (begin, depth) = (entries.next_offset().0.into_u64(), entries.next_depth());
        while let Some((_, ix)) = open.pop_if(|(of_scope, _)| *of_scope >= depth) {
            scopes[ix].end = begin;
        }
        let Some(abbreviation) = entries.read_abbreviation().ok()? else {
            continue;
        };
        if !is_scope(abbreviation.tag()) || scopes.len() >= SCOPES_MAX {
            entries.skip_attributes(abbreviation.attributes()).ok()?;
            continue;
        }
        let mut name = None;
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            if attribute.name() == gimli::DW_AT_name {
                name = unit.attr_string(attribute.value()).ok();
            }
        }
        let outer = open.last().map(|(_, ix)| *ix);
        open.push((depth, scopes.len()));
        scopes.push(Scope { begin, end: u64::MAX, outer, name, tag: abbreviation.tag() });
    }
    Some(scopes)
}

fn is_scope(tag: DwTag) -> bool {
    const SCOPES: [DwTag; 5] = [
        gimli::DW_TAG_namespace,
        gimli::DW_TAG_class_type,
        gimli::DW_TAG_structure_type,
        gimli::DW_TAG_union_type,
        gimli::DW_TAG_subprogram,
    ];
    SCOPES.contains(&tag)
}
