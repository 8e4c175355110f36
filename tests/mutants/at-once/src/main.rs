//! `at-once MUTANTS.json ROOT [WITHOUT]`: writes all mutants of a crate into its source, each behind a switch.
//!
//! cargo-mutants builds the crate and everything above it once per mutant. This builds once: `a + b` becomes
//! `if on(7) { a - b } else if on(8) { a * b } else { a + b }`, with both operands evaluated once, and the environment variable `KASURI_MUTANT=7`
//! says which mutant is on. MUTANTS.json is what `cargo mutants --list --json` prints, WITHOUT a file of numbers of mutants to leave out (those that
//! do not compile). The numbers of the mutants that were placed go to standard output.
//!
//! Left out, and so never placed: `const fn` and constants, `let` chains whose `&&` would become `||`.
use proc_macro2::{LineColumn, Span};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Stmt, parse_quote};

/// What decides in a mutated crate whether a mutant is on.
const SWITCH: &str = include_str!("switch.rs");

struct Mutant {
    number: u32,
    /// The new operator, value of the function, or guard.
    replacement: String,
}

type Place = (&'static str, usize, usize);

/// Places the mutants of one file.
struct Placer {
    at: HashMap<Place, Vec<Mutant>>,
    placed: Vec<u32>,
}

fn genre(name: &str) -> &'static str {
    match name {
        "FnValue" => "value",
        "BinaryOperator" => "binary",
        "UnaryOperator" => "unary",
        "MatchArm" => "arm",
        "MatchArmGuard" => "guard",
        "StructField" => "field",
        other => panic!("a kind of mutant that is not known: {other}"),
    }
}

fn on(number: u32) -> Expr {
    parse_quote!(crate::mutant_switch::on(#number))
}

/// Whether `let` binds in this condition, which then can't be moved.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(b) => binds(&b.left) || binds(&b.right),
        Expr::Paren(p) => binds(&p.expr),
        _ => false,
    }
}

impl Placer {
    fn take(&mut self, genre: &'static str, span: Span) -> Vec<Mutant> {
        let LineColumn { line, column } = span.start();
        self.at
            .remove(&(genre, line, column + 1))
            .unwrap_or_default()
    }

    fn place(&mut self, mutant: &Mutant) -> Expr {
        self.placed.push(mutant.number);
        on(mutant.number)
    }

    fn binary(&mut self, e: &syn::ExprBinary, mutants: &[Mutant]) -> Option<Expr> {
        use syn::BinOp::*;
        let (left, right, op) = (&e.left, &e.right, e.op);
        let logical = matches!(op, And(_) | Or(_));
        if logical && binds(left) || binds(right) {
            return None;
        }
        let compares = matches!(op, Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_));
        let assigns = matches!(
            op,
            AddAssign(_)
                | SubAssign(_)
                | MulAssign(_)
                | DivAssign(_)
                | RemAssign(_)
                | BitXorAssign(_)
                | BitAndAssign(_)
                | BitOrAssign(_)
                | ShlAssign(_)
                | ShrAssign(_)
        );
        let apply = |op: syn::BinOp| -> Expr {
            if compares {
                parse_quote!(*mutant_l #op *mutant_r)
            } else if assigns {
                parse_quote!(#left #op mutant_r)
            } else {
                parse_quote!(mutant_l #op mutant_r)
            }
        };
        let mut chain = apply(op);
        for mutant in mutants {
            let on = self.place(mutant);
            if logical {
                // `a && b` is `if a { b } else { a }`, `a || b` is `if !a { b } else { a }`.
                let and = matches!(op, And(_));
                return Some(
                    parse_quote!((match #left { mutant_l => if mutant_l == (#and != #on) { (#right) } else { mutant_l } })),
                );
            }
            let other = apply(syn::parse_str(&mutant.replacement).expect("an operator"));
            chain = parse_quote!(if #on { #other } else { #chain });
        }
        Some(if compares {
            parse_quote!((match (&(#left), &(#right)) { (mutant_l, mutant_r) => #chain }))
        } else if assigns {
            parse_quote!((match #right { mutant_r => #chain }))
        } else {
            parse_quote!((match (#left, #right) { (mutant_l, mutant_r) => #chain }))
        })
    }

    fn body(&mut self, constant: bool, block: &mut Block) {
        let mutants = match block.stmts.first() {
            Some(first) => self.take("value", first.span()),
            None => Vec::new(),
        };
        if constant {
            return;
        }
        visit_mut::visit_block_mut(self, block);
        let returns: Vec<Stmt> = mutants
            .iter()
            .map(|mutant| {
                let on = self.place(mutant);
                let value: Expr = syn::parse_str(&mutant.replacement).expect("an expression");
                parse_quote!(if #on { return #value; })
            })
            .collect();
        block.stmts.splice(0..0, returns);
    }
}

impl VisitMut for Placer {
    fn visit_item_const_mut(&mut self, _: &mut syn::ItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut syn::ItemStatic) {}
    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_trait_item_const_mut(&mut self, _: &mut syn::TraitItemConst) {}
    fn visit_item_enum_mut(&mut self, _: &mut syn::ItemEnum) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_pat_mut(&mut self, _: &mut syn::Pat) {}
    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}

    fn visit_item_fn_mut(&mut self, f: &mut syn::ItemFn) {
        self.body(f.sig.constness.is_some(), &mut f.block);
    }

    fn visit_impl_item_fn_mut(&mut self, f: &mut syn::ImplItemFn) {
        self.body(f.sig.constness.is_some(), &mut f.block);
    }

    fn visit_trait_item_fn_mut(&mut self, f: &mut syn::TraitItemFn) {
        if let Some(block) = &mut f.default {
            self.body(f.sig.constness.is_some(), block);
        }
    }

    fn visit_expr_repeat_mut(&mut self, e: &mut syn::ExprRepeat) {
        self.visit_expr_mut(&mut e.expr);
    }

    fn visit_expr_match_mut(&mut self, e: &mut syn::ExprMatch) {
        let takes_all = |pattern: &syn::Pat| match pattern {
            syn::Pat::Wild(_) => true,
            // `None` is written as a binding would be.
            syn::Pat::Ident(bound) => !bound.ident.to_string().starts_with(char::is_uppercase),
            _ => false,
        };
        // An arm behind a switch counts for nothing where the compiler looks whether all values have one.
        if !(e.arms.iter()).any(|arm| arm.guard.is_none() && takes_all(&arm.pat)) {
            for arm in &e.arms {
                self.take("arm", arm.span());
            }
        }
        visit_mut::visit_expr_match_mut(self, e);
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        let deleted = self.take("arm", arm.span());
        let guards = match &arm.guard {
            Some((_, guard)) => self.take("guard", guard.span()),
            None => Vec::new(),
        };
        visit_mut::visit_arm_mut(self, arm);
        if let Some((_, guard)) = &mut arm.guard {
            for mutant in &guards {
                let on = self.place(mutant);
                **guard = match mutant.replacement.as_str() {
                    "true" => parse_quote!((#on || #guard)),
                    "false" => parse_quote!((!#on && #guard)),
                    other => panic!("a guard that is replaced with {other}"),
                };
            }
        }
        for mutant in &deleted {
            let on = self.place(mutant);
            let guard: Expr = match &arm.guard {
                Some((_, guard)) => parse_quote!(!#on && #guard),
                None => parse_quote!(!#on),
            };
            arm.guard = Some((Default::default(), Box::new(guard)));
        }
    }

    fn visit_expr_struct_mut(&mut self, e: &mut syn::ExprStruct) {
        let deleted: Vec<Vec<Mutant>> = e
            .fields
            .iter()
            .map(|field| self.take("field", field.span()))
            .collect();
        visit_mut::visit_expr_struct_mut(self, e);
        let Some(rest) = e.rest.clone() else { return };
        let path = e.path.clone();
        for (field, mutants) in e.fields.iter_mut().zip(deleted) {
            for mutant in &mutants {
                let on = self.place(mutant);
                let (member, value) = (&field.member, &field.expr);
                let tokens = quote::quote!((if #on { let mutant_rest: #path = #rest; mutant_rest.#member } else { (#value) }));
                field.expr =
                    syn::parse2(tokens.clone()).unwrap_or_else(|e| panic!("{e}: {tokens}"));
                field.colon_token = Some(Default::default());
            }
        }
    }

    fn visit_expr_mut(&mut self, e: &mut Expr) {
        let mutants = match &*e {
            Expr::Binary(b) => self.take("binary", b.op.span()),
            Expr::Unary(u) => self.take("unary", u.op.span()),
            _ => Vec::new(),
        };
        visit_mut::visit_expr_mut(self, e);
        if mutants.is_empty() {
            return;
        }
        match &*e {
            Expr::Binary(b) => {
                if let Some(new) = self.binary(b, &mutants) {
                    *e = new;
                }
            }
            Expr::Unary(u) => {
                let (op, inner) = (u.op, &u.expr);
                let on = self.place(&mutants[0]);
                *e = parse_quote!((match #inner { mutant_x => if #on { mutant_x } else { #op mutant_x } }));
            }
            _ => {}
        }
    }
}

/// Where the crate of a source file begins.
fn crate_root(file: &Path) -> &Path {
    let src = file
        .ancestors()
        .find(|a| a.ends_with("src"))
        .expect("a file of a crate's src/");
    src
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mutants: Vec<serde_json::Value> = serde_json::from_str(&read(&args[0])).expect("JSON");
    let root = Path::new(&args[1]);
    let without: HashSet<u32> = args
        .get(2)
        .map(|path| {
            read(path)
                .split_whitespace()
                .map(|n| n.parse().expect("a number"))
                .collect()
        })
        .unwrap_or_default();
    let mut files: HashMap<String, HashMap<Place, Vec<Mutant>>> = HashMap::new();
    for m in &mutants {
        let number = m["number"].as_u64().expect("`run` numbers them") as u32;
        if without.contains(&number) {
            continue;
        }
        let start = &m["span"]["start"];
        let coordinate = |name: &str| start[name].as_u64().expect("a number") as usize;
        files
            .entry(m["file"].as_str().expect("a path").to_owned())
            .or_default()
            .entry((
                genre(m["genre"].as_str().expect("a name")),
                coordinate("line"),
                coordinate("column"),
            ))
            .or_default()
            .push(Mutant {
                number,
                replacement: m["replacement"].as_str().expect("a text").to_owned(),
            });
    }
    let mut crates = HashSet::new();
    for (name, at) in files {
        let path = root.join(&name);
        let mut file = syn::parse_file(&read(path.to_str().expect("UTF-8"))).expect("Rust");
        let mut placer = Placer {
            at,
            placed: Vec::new(),
        };
        placer.visit_file_mut(&mut file);
        for number in &placer.placed {
            println!("{number}");
        }
        std::fs::write(&path, prettyplease::unparse(&file)).expect("written");
        crates.insert(crate_root(&path).to_owned());
    }
    for src in crates {
        std::fs::write(src.join("mutant_switch.rs"), SWITCH).expect("written");
        let lib = src.join("lib.rs");
        let text = read(lib.to_str().expect("UTF-8"));
        let mut file = syn::parse_file(&text).expect("Rust");
        file.attrs
            .push(parse_quote!(#![allow(warnings, clippy::all)]));
        file.items.push(parse_quote!(
            mod mutant_switch;
        ));
        std::fs::write(&lib, prettyplease::unparse(&file)).expect("written");
    }
}
