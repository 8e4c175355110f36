/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gcc, g++, gfortran -fplugin=libkasuri-annotate-gcc.so: annotates the functions and loops that the choice says
 * (choice.h). What it inserts is described in auto.h; why there and not elsewhere, in docs/design/compilers.md.
 *
 * It runs when all functions have their graph, those that OpenMP makes of a region's body included, and before they
 * are optimised: loops and functions are those of the source. Before SSA form, so that a token is a plain variable.
 */
#include "choice.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

/* Each of these needs those before it. */
/* clang-format off */
#include "gcc-plugin.h"
#include "plugin-version.h"
#include "memmodel.h"
#include "tree.h"
#include "gimple.h"
#include "basic-block.h"
#include "cfghooks.h"
#include "cfgloop.h"
#include "cgraph.h"
#include "context.h"
#include "diagnostic-core.h"
#include "dominance.h"
#include "except.h"
#include "fold-const.h"
#include "function.h"
#include "gimple-expr.h"
#include "gimple-iterator.h"
#include "stor-layout.h"
#include "stringpool.h"
#include "attribs.h"
#include "tree-cfg.h"
#include "tree-eh.h"
#include "tree-pass.h"
/* clang-format on */

/* Of libiberty, in the compiler; its header is not among those for plugins. C's compiler may be without. */
extern "C" char *cplus_demangle(const char *mangled, int options) __attribute__((weak));
#define DMGL_ANSI (1 << 1)

int plugin_is_GPL_compatible; /* MIT and Apache-2.0 are */

namespace {

kasuri::Choice choice;

/* -- what the inserted code refers to -- */

enum Decl { Gate, Begin, End, Depth, Rewind, SiteType, N_DECLS };
tree decls[N_DECLS]; /* kept by the garbage collector */

tree hidden(tree decl) {
    DECL_VISIBILITY(decl) = VISIBILITY_HIDDEN;
    DECL_VISIBILITY_SPECIFIED(decl) = 1;
    return decl;
}

/* A function of the runtime. Leaf: so that it never ends a basic block, also in functions that call setjmp(). */
tree runtime_function(Decl which, const char *name, tree type) {
    if (!decls[which]) {
        decls[which] = hidden(build_fn_decl(name, type));
        TREE_NOTHROW(decls[which]) = 1;
        DECL_ATTRIBUTES(decls[which]) = tree_cons(get_identifier("leaf"), NULL_TREE, NULL_TREE);
    }
    return decls[which];
}

/* The program may define it itself: it may include kasuri.h. */
tree gate() {
    if (!decls[Gate]) {
        if (symtab_node *known = symtab_node::get_for_asmname(get_identifier("kasuri__gate"))) {
            decls[Gate] = known->decl;
        } else {
            tree type = build_array_type_nelts(uint64_type_node, 2);
            tree decl = build_decl(BUILTINS_LOCATION, VAR_DECL, get_identifier("kasuri__gate"), type);
            DECL_EXTERNAL(decl) = 1;
            TREE_PUBLIC(decl) = 1;
            DECL_ARTIFICIAL(decl) = 1;
            decls[Gate] = hidden(decl);
        }
        TREE_ADDRESSABLE(decls[Gate]) = 1;
        TREE_USED(decls[Gate]) = 1;
    }
    return decls[Gate];
}

/* struct kasuri_auto_site, whose names nobody sees. */
tree site_type() {
    if (!decls[SiteType]) {
        tree types[] = {uint32_type_node,    uint32_type_node, const_ptr_type_node, const_ptr_type_node,
                        const_ptr_type_node, uint32_type_node, uint32_type_node};
        tree fields = NULL_TREE;
        for (tree type : types) {
            tree field = build_decl(BUILTINS_LOCATION, FIELD_DECL, NULL_TREE, type);
            DECL_CHAIN(field) = fields;
            fields = field;
        }
        decls[SiteType] = make_node(RECORD_TYPE);
        finish_builtin_struct(decls[SiteType], "kasuri_auto_site", fields, NULL_TREE);
    }
    return decls[SiteType];
}

tree text(const std::string &s) {
    return fold_convert(const_ptr_type_node, build_string_literal(static_cast<int>(s.size() + 1), s.c_str()));
}

tree make_site(const std::string &name, const std::string &file, const std::string &function, unsigned line) {
    tree zero = build_zero_cst(uint32_type_node), type = site_type();
    tree values[] = {zero, build_int_cst(uint32_type_node, line), text(name), text(file), text(function), zero, zero};
    vec<constructor_elt, va_gc> *fields = NULL;
    tree field = TYPE_FIELDS(type);
    for (tree value : values) {
        CONSTRUCTOR_APPEND_ELT(fields, field, value);
        field = DECL_CHAIN(field);
    }
    tree decl = build_decl(BUILTINS_LOCATION, VAR_DECL, create_tmp_var_name("kasuri_site"), type);
    TREE_STATIC(decl) = 1;
    TREE_ADDRESSABLE(decl) = 1;
    TREE_USED(decl) = 1;
    DECL_ARTIFICIAL(decl) = 1;
    DECL_IGNORED_P(decl) = 1;
    DECL_PRESERVE_P(decl) = 1;
    DECL_INITIAL(decl) = build_constructor(type, fields);
    TREE_STATIC(DECL_INITIAL(decl)) = 1;
    /* Exactly: the sites of a module are one array. */
    SET_DECL_ALIGN(decl, 64);
    DECL_USER_ALIGN(decl) = 1;
    set_decl_section_name(decl, "kasuri_auto_sites");
    varpool_node::finalize_decl(decl);
    varpool_node *node = varpool_node::get_create(decl);
    node->force_output = 1;
    if (!node->analyzed)
        node->analyze();
    return decl;
}

tree new_number(const char *name) {
    return create_tmp_var(uint32_type_node, name);
}

/* number = the 32-bit word of an object; atomic, as other threads and the recorder write it. */
gimple *load_word(tree number, tree object, unsigned offset) {
    tree at = build_int_cst(build_pointer_type(uint32_type_node), offset);
    tree word = build2(MEM_REF, uint32_type_node, build_fold_addr_expr(object), at);
    gcall *load = gimple_build_call(builtin_decl_explicit(BUILT_IN_ATOMIC_LOAD_4), 2, build_fold_addr_expr(word),
                                    build_int_cst(integer_type_node, MEMMODEL_RELAXED));
    gimple_call_set_lhs(load, number);
    gimple_call_set_nothrow(load, true);
    return load;
}

/* -- code on an edge -- */

/* Appends blocks to an edge, one after the other. */
class Writer {
  public:
    Writer(edge at, location_t where) : at(at), where(where) {}

    /* What is written from here on belongs to this line. */
    Writer &at_line(location_t line) {
        where = line;
        return *this;
    }

    void assign(tree to, tree value) { put(new_block(), gimple_build_assign(to, value)); }

    /* token = gate && !site.off ? kasuri_auto_begin(&site) : 0 */
    void begin(tree token, tree site) {
        assign(token, build_zero_cst(uint32_type_node));
        basic_block outer = compare_word(gate(), 8, NE_EXPR);
        basic_block inner = compare_word(site, 32, EQ_EXPR);
        tree type = build_function_type_list(uint32_type_node, ptr_type_node, NULL_TREE);
        call(runtime_function(Begin, "kasuri_auto_begin", type), {build_fold_addr_expr(site)}, token);
        join(inner);
        join(outer);
    }

    /* if (token) kasuri_auto_end(&site, token); token = 0 */
    void end(tree token, tree site) {
        basic_block test = compare(token, NE_EXPR);
        tree type = build_function_type_list(void_type_node, ptr_type_node, uint32_type_node, NULL_TREE);
        call(runtime_function(End, "kasuri_auto_end", type), {build_fold_addr_expr(site), token}, NULL_TREE);
        assign(token, build_zero_cst(uint32_type_node));
        join(test);
    }

    /* depth = gate ? kasuri_auto_depth() : 0 */
    void ask_depth(tree depth) {
        assign(depth, build_zero_cst(uint32_type_node));
        basic_block test = compare_word(gate(), 8, NE_EXPR);
        tree type = build_function_type_list(uint32_type_node, NULL_TREE);
        call(runtime_function(Depth, "kasuri_auto_depth", type), {}, depth);
        join(test);
    }

    /* kasuri_auto_rewind(the last of the depths that is not 0) */
    void rewind(const std::vector<tree> &depths) {
        tree target = new_number("kasuri_depth");
        assign(target, depths.front());
        for (size_t i = 1; i < depths.size(); i++) {
            basic_block test = compare(depths[i], NE_EXPR);
            assign(target, depths[i]);
            join(test);
        }
        tree type = build_function_type_list(void_type_node, uint32_type_node, NULL_TREE);
        call(runtime_function(Rewind, "kasuri_auto_rewind", type), {target}, NULL_TREE);
    }

  private:
    edge at;
    location_t where;

    basic_block new_block() {
        basic_block made = split_edge(at);
        at = single_succ_edge(made);
        return made;
    }

    void put(basic_block block, gimple *statement) {
        gimple_stmt_iterator end = gsi_last_bb(block);
        gimple_set_location(statement, where);
        gsi_insert_after(&end, statement, GSI_NEW_STMT);
    }

    /* What is written from here on is done if the number is (not) 0. */
    basic_block compare(tree number, tree_code code) {
        tree copy = new_number("kasuri_number");
        basic_block test = new_block();
        put(test, gimple_build_assign(copy, number));
        return branch(test, copy, code);
    }
    basic_block compare_word(tree object, unsigned offset, tree_code code) {
        tree number = new_number("kasuri_number");
        basic_block test = new_block();
        put(test, load_word(number, object, offset));
        return branch(test, number, code);
    }
    basic_block branch(basic_block test, tree number, tree_code code) {
        put(test, gimple_build_cond(code, number, build_zero_cst(uint32_type_node), NULL_TREE, NULL_TREE));
        at->flags &= ~EDGE_FALLTHRU;
        at->flags |= EDGE_TRUE_VALUE;
        at->probability = profile_probability::very_unlikely();
        return test;
    }

    /* Here both ways meet again. */
    void join(basic_block test) {
        basic_block meeting = new_block();
        edge other = make_edge(test, meeting, EDGE_FALSE_VALUE);
        other->probability = profile_probability::very_likely();
    }

    void call(tree function, const std::vector<tree> &arguments, tree result) {
        gcall *made;
        if (arguments.empty())
            made = gimple_build_call(function, 0);
        else if (arguments.size() == 1)
            made = gimple_build_call(function, 1, arguments[0]);
        else
            made = gimple_build_call(function, 2, arguments[0], arguments[1]);
        if (result)
            gimple_call_set_lhs(made, result);
        put(new_block(), made);
    }
};

/* -- one function -- */

/* First all places are found, while the graph is as the analyses know it; then code is inserted. */
class Annotator {
  public:
    Annotator(function *f, const std::string &name)
        : f(f), name(name), names(name), file(DECL_SOURCE_FILE(f->decl) ? DECL_SOURCE_FILE(f->decl) : ""),
          in_system_header(DECL_IN_SYSTEM_HEADER(f->decl)) {}

    bool run() {
        bool is_chosen = choice.function(name, in_system_header);
        if (choice.any_loop(name, in_system_header))
            find_loops();
        find_arrivals();
        if (!is_chosen && loops.empty() && arrivals.empty())
            return false;
        at_entry(is_chosen);
        for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
            find_ends(*loop);
        for (const Chosen &loop : loops)
            for (edge e : loop.entries)
                on_edge[e].begins.push_back(&loop);
        find_rewinds();
        if (is_chosen)
            find_returns();
        write();
        return true;
    }

  private:
    struct Chosen {
        loop_p loop;
        location_t where;
        tree token, site;
        std::vector<edge> entries;
        std::vector<edge> exits;
    };
    /* What is to be done at one place, in this order. */
    struct Actions {
        std::vector<tree> rewind; /* depths */
        std::vector<const Chosen *> ends;
        bool is_entry = false;
        std::vector<const Chosen *> begins;
        bool is_return = false;
    };

    function *f;
    std::string name;
    kasuri::Names names;
    std::string file;
    bool in_system_header;
    std::vector<Chosen> loops; /* outer ones before those in them */
    std::vector<basic_block> arrivals;
    tree entry_depth = NULL_TREE, own = NULL_TREE, own_site = NULL_TREE;
    /* By the index of the block, so that the output is the same each time; edges by those of both ends. */
    struct EdgeOrder {
        bool operator()(edge a, edge b) const {
            return std::make_pair(a->src->index, a->dest->index) < std::make_pair(b->src->index, b->dest->index);
        }
    };
    struct BlockOrder {
        bool operator()(basic_block a, basic_block b) const { return a->index < b->index; }
    };
    std::map<edge, Actions, EdgeOrder> on_edge;
    std::map<basic_block, Actions, BlockOrder> at_start; /* of a block, behind its labels */
    std::map<gimple *, Actions> before;                  /* a statement that leaves the function */
    std::vector<gimple *> leaving;                       /* the keys of `before`, in their order */

    void find_loops() {
        calculate_dominance_info(CDI_DOMINATORS);
        if (!loops_for_fn(f))
            return;
        if (loops_state_satisfies_p(LOOPS_NEED_FIXUP))
            fix_loop_structure(NULL);
        find_loops_in(loops_for_fn(f)->tree_root, "", 1);
    }

    void find_loops_in(loop_p outer, const std::string &parent, unsigned depth) {
        std::vector<loop_p> inner;
        for (loop_p l = outer->inner; l; l = l->next)
            inner.push_back(l);
        /* In the order of the source, so that #2 is the second one there. */
        std::sort(inner.begin(), inner.end(), [](loop_p a, loop_p b) { return a->header->index < b->header->index; });
        for (loop_p l : inner)
            find_loop(l, parent, depth);
    }

    /* gcc keeps no line of `for` or `do`: the first one of the loop's own code stands for it; where the compiler made all
     * of that, as for the chunks of OpenMP, the first one in it. */
    location_t where_is(loop_p l) {
        location_t first = UNKNOWN_LOCATION, first_own = UNKNOWN_LOCATION;
        basic_block *body = get_loop_body(l);
        for (unsigned i = 0; i < l->num_nodes; i++)
            for (gimple_stmt_iterator s = gsi_start_bb(body[i]); !gsi_end_p(s); gsi_next(&s)) {
                location_t at = gimple_location(gsi_stmt(s));
                if (is_gimple_debug(gsi_stmt(s)) || LOCATION_LOCUS(at) <= BUILTINS_LOCATION ||
                    file != LOCATION_FILE(at))
                    continue;
                keep_first(first, at);
                if (body[i]->loop_father == l)
                    keep_first(first_own, at);
            }
        free(body);
        return first_own == UNKNOWN_LOCATION ? first : first_own;
    }

    static void keep_first(location_t &first, location_t at) {
        if (first == UNKNOWN_LOCATION || LOCATION_LINE(at) < LOCATION_LINE(first))
            first = at;
    }

    void find_loop(loop_p l, const std::string &parent, unsigned depth) {
        location_t where = where_is(l);
        unsigned line = where == UNKNOWN_LOCATION ? 0 : static_cast<unsigned>(LOCATION_LINE(where));
        std::string name = names.loop(parent, line);
        if (choice.loop(this->name, in_system_header, line, depth)) {
            Chosen chosen{l, where, NULL_TREE, NULL_TREE, {}, {}};
            if (find_edges(chosen)) {
                chosen.token = new_number("kasuri_token");
                chosen.site = make_site(name, file, this->name, line);
                loops.push_back(chosen);
            }
        }
        find_loops_in(l, name, depth + 1);
    }

    /* Return: whether the loop is entered by edges that can have code on them. */
    bool find_edges(Chosen &chosen) {
        edge e;
        edge_iterator i;
        FOR_EACH_EDGE(e, i, chosen.loop->header->preds) {
            if (flow_bb_inside_loop_p(chosen.loop, e->src))
                continue;
            if (e->flags & (EDGE_ABNORMAL | EDGE_EH))
                return false;
            chosen.entries.push_back(e);
        }
        for (edge exit : get_loop_exit_edges(chosen.loop))
            chosen.exits.push_back(exit);
        return true;
    }

    static bool calls_twice_returning(basic_block block) {
        gimple_stmt_iterator s = gsi_start_nondebug_after_labels_bb(block);
        return !gsi_end_p(s) && is_gimple_call(gsi_stmt(s)) && (gimple_call_flags(gsi_stmt(s)) & ECF_RETURNS_TWICE);
    }

    static bool is_dispatcher(basic_block block) {
        gimple_stmt_iterator s = gsi_start_nondebug_after_labels_bb(block);
        return !gsi_end_p(s) && gimple_call_internal_p(gsi_stmt(s), IFN_ABNORMAL_DISPATCHER);
    }

    /* An edge of exceptions or of a computed goto cannot have code; the block it leads to can. Where that one begins
     * with setjmp(), what follows rewinds. */
    void find_ends(const Chosen &loop) {
        for (edge e : loop.exits) {
            if (!(e->flags & (EDGE_ABNORMAL | EDGE_EH)))
                on_edge[e].ends.push_back(&loop);
            else if (!is_dispatcher(e->dest) && !calls_twice_returning(e->dest)) {
                std::vector<const Chosen *> &ends = at_start[e->dest].ends;
                if (std::find(ends.begin(), ends.end(), &loop) == ends.end())
                    ends.push_back(&loop);
            }
        }
    }

    static bool is_landing_pad(basic_block block) {
        edge e;
        edge_iterator i;
        FOR_EACH_EDGE(e, i, block->preds)
        if (e->flags & EDGE_EH)
            return true;
        return false;
    }

    void find_arrivals() {
        basic_block block;
        FOR_EACH_BB_FN(block, f)
        if (is_landing_pad(block) || calls_twice_returning(block))
            arrivals.push_back(block);
    }

    /* Variables are 0 at entry: also those of loops that are left to blocks which other ways lead to. */
    void at_entry(bool is_chosen) {
        if (!arrivals.empty())
            entry_depth = new_number("kasuri_depth");
        if (is_chosen) {
            own = new_number("kasuri_token");
            own_site = make_site(name, file, name, static_cast<unsigned>(DECL_SOURCE_LINE(f->decl)));
        }
        on_edge[single_succ_edge(ENTRY_BLOCK_PTR_FOR_FN(f))].is_entry = true;
    }

    void find_rewinds() {
        for (basic_block block : arrivals) {
            std::vector<tree> depths{entry_depth};
            if (own)
                depths.push_back(own);
            for (const Chosen &loop : loops)
                if (flow_bb_inside_loop_p(loop.loop, block))
                    depths.push_back(loop.token);
            if (!calls_twice_returning(block))
                at_start[block].rewind = depths;
            else if (edge next = find_fallthru_edge(block->succs))
                on_edge[next].rewind = depths;
        }
    }

    void find_returns() {
        basic_block block;
        FOR_EACH_BB_FN(block, f) {
            gimple_stmt_iterator last = gsi_last_nondebug_bb(block);
            if (gsi_end_p(last))
                continue;
            gimple *statement = gsi_stmt(last);
            bool leaves = gimple_code(statement) == GIMPLE_RETURN ||
                          (gimple_code(statement) == GIMPLE_RESX && !EDGE_COUNT(block->succs));
            if (leaves) {
                before[statement].is_return = true;
                leaving.push_back(statement);
            }
        }
    }

    void act(edge at, const Actions &actions) {
        Writer write(at, DECL_SOURCE_LOCATION(f->decl));
        if (!actions.rewind.empty())
            write.rewind(actions.rewind);
        for (const Chosen *loop : actions.ends)
            write.at_line(loop->where).end(loop->token, loop->site);
        if (actions.is_entry) {
            for (const Chosen &loop : loops)
                write.assign(loop.token, build_zero_cst(uint32_type_node));
            if (entry_depth)
                write.ask_depth(entry_depth);
            if (own)
                write.begin(own, own_site);
        }
        for (const Chosen *loop : actions.begins)
            write.at_line(loop->where).begin(loop->token, loop->site);
        if (actions.is_return)
            write.end(own, own_site);
    }

    /* The edge before a statement: its block is split there. */
    static edge edge_before(gimple *statement) {
        gimple_stmt_iterator s = gsi_for_stmt(statement);
        gsi_prev(&s);
        basic_block block = gimple_bb(statement);
        if (gsi_end_p(s) || gimple_code(gsi_stmt(s)) == GIMPLE_LABEL)
            return split_block_after_labels(block);
        return split_block(block, gsi_stmt(s));
    }

    void write() {
        /* Splitting a block moves its edges to the new half, and splitting an edge leaves others as they are: so all
         * that was found stays good. Their order would change with the indices, hence copies. */
        std::vector<std::pair<edge, Actions>> edges(on_edge.begin(), on_edge.end());
        std::vector<std::pair<basic_block, Actions>> starts(at_start.begin(), at_start.end());
        for (gimple *statement : leaving)
            act(edge_before(statement), before[statement]);
        for (auto &start : starts)
            act(split_block_after_labels(start.first), start.second);
        for (auto &e : edges)
            act(e.first, e.second);
        free_dominance_info(CDI_DOMINATORS);
        free_dominance_info(CDI_POST_DOMINATORS);
        if (loops_for_fn(f))
            loops_state_set(LOOPS_NEED_FIXUP);
    }
};

std::string demangled(const std::string &symbol) {
    char *text = cplus_demangle ? cplus_demangle(symbol.c_str(), DMGL_ANSI) : nullptr;
    std::string name = text ? text : symbol;
    free(text);
    return name;
}

std::string name_of(tree function) {
    std::string symbol = IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(function));
    bool is_mangled = symbol.compare(0, 2, "_Z") == 0 || symbol.find("_MOD_") != std::string::npos;
    if (!is_mangled && DECL_NAME(function))
        symbol = IDENTIFIER_POINTER(DECL_NAME(function));
    /* What OpenMP makes of a Fortran program's regions, by the program's name. */
    if (symbol.compare(0, 7, "MAIN__.") == 0)
        if (cgraph_node *program = cgraph_node::get_for_asmname(get_identifier("MAIN__")))
            symbol = IDENTIFIER_POINTER(DECL_NAME(program->decl)) + symbol.substr(6);
    return kasuri::readable(symbol, demangled);
}

bool calls_itself_as_part(function *f) {
    cgraph_node *node = cgraph_node::get(f->decl);
    for (cgraph_edge *call = node ? node->callees : NULL; call; call = call->next_callee)
        if (call->callee->definition && DECL_ASSEMBLER_NAME_SET_P(call->callee->decl) &&
            kasuri::calls_itself_as_part(IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(f->decl)),
                                         IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(call->callee->decl))))
            return true;
    return false;
}

bool may_be_annotated(function *f, const std::string &name) {
    /* Not what the compiler itself runs at the start and the end. */
    if (DECL_ARTIFICIAL(f->decl) && (DECL_STATIC_CONSTRUCTOR(f->decl) || DECL_STATIC_DESTRUCTOR(f->decl)))
        return false;
    if (kasuri::is_compilers_own(IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(f->decl))))
        return false;
    tree attributes = DECL_ATTRIBUTES(f->decl);
    return !DECL_EXTERNAL(f->decl) && !f->coroutine_component && !lookup_attribute("naked", attributes) &&
           !lookup_attribute("no_instrument_function", attributes) && name.compare(0, 6, "kasuri") != 0 &&
           !calls_itself_as_part(f);
}

const pass_data pass_of_annotator = {
    GIMPLE_PASS, "kasuri_annotate", OPTGROUP_NONE, TV_NONE, PROP_cfg, 0, 0, 0, 0,
};

class AnnotatePass : public gimple_opt_pass {
  public:
    explicit AnnotatePass(gcc::context *context) : gimple_opt_pass(pass_of_annotator, context) {}
    unsigned int execute(function *f) final override {
        std::string name = name_of(f->decl);
        if (may_be_annotated(f, name))
            Annotator(f, name).run();
        return 0;
    }
};

const ggc_root_tab roots[] = {{decls, N_DECLS, sizeof decls[0], &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
                              LAST_GGC_ROOT_TAB};

} // namespace

int plugin_init(plugin_name_args *info, plugin_gcc_version *version) {
    if (!plugin_default_version_check(version, &gcc_version)) {
        bool is_version = !strcmp(gcc_version.basever, version->basever);
        error("kasuri: this plugin is for another %s: build it again for this one",
              is_version ? "build of this version of gcc" : "version of gcc");
        inform(UNKNOWN_LOCATION, "the plugin is for gcc %s %s, %s", gcc_version.basever, gcc_version.datestamp,
               gcc_version.configuration_arguments);
        inform(UNKNOWN_LOCATION, "this is gcc %s %s, %s", version->basever, version->datestamp,
               version->configuration_arguments);
        return 1;
    }
    const char *path = getenv("KASURI_ANNOTATE");
    std::string wrong = choice.load(path ? path : "");
    if (!wrong.empty()) {
        error("kasuri: %s", wrong.c_str());
        return 1;
    }
    register_pass_info pass = {new AnnotatePass(g), "ssa", 1, PASS_POS_INSERT_BEFORE};
    register_callback(info->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &pass);
    register_callback(info->base_name, PLUGIN_REGISTER_GGC_ROOTS, NULL, const_cast<ggc_root_tab *>(roots));
    return 0;
}
