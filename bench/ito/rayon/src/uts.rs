//! Unbalanced tree search: the trees of examples/ito/uts.c, where they are defined.
use crate::{each, sha1};

/// A tree and its published size.
pub struct Tree {
    name: &'static str,
    is_geometric: bool,
    b: f64,
    d: u32,
    q: f64,
    m: usize,
    seed: u32,
    /// Published.
    pub nodes: u64,
    /// Published.
    pub leaves: u64,
    /// Published.
    pub depth: u32,
}

#[rustfmt::skip]
const TREES: [Tree; 3] = [
    Tree { name: "T1", is_geometric: true, b: 4.0, d: 10, q: 0.0, m: 0, seed: 19, nodes: 4_130_071, leaves: 3_305_118, depth: 10 },
    Tree { name: "T3", is_geometric: false, b: 2000.0, d: 0, q: 0.124875, m: 8, seed: 42, nodes: 4_112_897, leaves: 3_599_034, depth: 1572 },
    Tree { name: "T1L", is_geometric: true, b: 4.0, d: 13, q: 0.0, m: 0, seed: 29, nodes: 102_181_082, leaves: 81_746_377, depth: 13 },
];

/// The tree of that name.
pub fn tree(name: &str) -> Option<&'static Tree> {
    TREES.iter().find(|t| t.name == name)
}

#[derive(Clone, Copy, Default)]
struct Node {
    state: [u32; 5],
    depth: u32,
    deepest: u32,
    nodes: u64,
    leaves: u64,
}

fn n_children(tree: &Tree, n: &Node) -> usize {
    let u = f64::from(n.state[4] & 0x7fff_ffff) / 2_147_483_648.0;
    if !tree.is_geometric {
        let inner = if u < tree.q { tree.m } else { 0 };
        return if n.depth == 0 { tree.b as usize } else { inner };
    }
    if n.depth >= tree.d {
        return 0;
    }
    let none = (1.0 - 1.0 / (1.0 + tree.b)).ln();
    (((1.0 - u).ln() / none).floor() as usize).min(100)
}

fn visit(tree: &Tree, n: &mut Node) {
    let children = n_children(tree, n);
    (n.nodes, n.leaves, n.deepest) = (1, u64::from(children == 0), n.depth);
    match children {
        0 => {}
        1..=8 => visit_children(tree, n, &mut [Node::default(); 8][..children]),
        _ => visit_children(tree, n, &mut vec![Node::default(); children]),
    }
}

fn visit_children(tree: &Tree, n: &mut Node, children: &mut [Node]) {
    for (i, child) in children.iter_mut().enumerate() {
        let s = n.state;
        child.state = sha1::short(&[s[0], s[1], s[2], s[3], s[4], i as u32]);
        child.depth = n.depth + 1;
    }
    each(children, &|child| visit(tree, child));
    for child in children {
        n.nodes += child.nodes;
        n.leaves += child.leaves;
        n.deepest = n.deepest.max(child.deepest);
    }
}

/// Nodes, leaves and depth, counted.
pub fn count(tree: &Tree) -> (u64, u64, u32) {
    let mut root = Node {
        state: sha1::short(&[0, 0, 0, 0, tree.seed]),
        ..Node::default()
    };
    visit(tree, &mut root);
    (root.nodes, root.leaves, root.deepest)
}
