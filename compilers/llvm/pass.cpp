/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clang -fpass-plugin=libkasuri-annotate-llvm.so: annotates the functions and loops that the choice says (choice.h).
 * What it inserts is described in auto.h; why there and not elsewhere, in docs/design/compilers.md.
 *
 * It runs before all optimisation: loops and functions are those of the source, and every one of their executions is
 * seen, whatever becomes of them. The calls lie before and after a loop, never in it, so the loop is optimised as it
 * would be. Tokens are variables in memory, which the next passes put into registers.
 */
#include "choice.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h") /* 22 */
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstdlib>

using namespace llvm;

namespace {

/* LLVM's 'lambda'(int), 'lambda0'(int), ... as all others call them: {lambda(int)#1}, {lambda(int)#2}, ... */
std::string with_lambdas(std::string name) {
    const std::string word = "'lambda";
    for (size_t at = 0; (at = name.find(word, at)) != std::string::npos;) {
        size_t number = at + word.size(), quote = name.find('\'', number), end = quote;
        int depth = 0;
        if (quote == std::string::npos)
            break;
        do {
            end++;
            depth += end < name.size() ? (name[end] == '(') - (name[end] == ')') : 0;
        } while (depth && end < name.size());
        if (end >= name.size() || name[end] != ')')
            break;
        std::string n = name.substr(number, quote - number);
        n = std::to_string(n.empty() ? 1 : std::strtoul(n.c_str(), nullptr, 10) + 2);
        name =
            name.substr(0, at) + "{lambda" + name.substr(quote + 1, end - quote) + "#" + n + "}" + name.substr(end + 1);
        at += word.size();
    }
    return name;
}

std::string demangled(const std::string &symbol) {
    ItaniumPartialDemangler parser;
    std::string name = symbol;
    if (!parser.partialDemangle(symbol.c_str()))
        if (char *text = parser.getFunctionName(nullptr, nullptr)) {
            name = with_lambdas(text);
            std::free(text);
        }
    return name;
}

/* A symbol of C++; any other function is called as its source does, whatever its symbol is. */
std::string source_name(const Function &f) {
    std::string symbol = GlobalValue::dropLLVMManglingEscape(f.getName()).str();
    const DISubprogram *program = f.getSubprogram();
    if (program && !program->getName().empty() && symbol.compare(0, 2, "_Z") != 0)
        symbol = program->getName().str();
    return kasuri::readable(symbol, demangled);
}

/* The names of a module's functions. What OpenMP makes of a region is .omp_outlined to clang, and with debug information two functions, one
 * that calls the other: only the inner one has a name, and that is as gcc's, PARENT._omp_fn.0. */
class FunctionNames {
  public:
    explicit FunctionNames(Module &m) {
        for (Function &f : m)
            if (!f.isDeclaration() && is_outlined(f) && !calls_outlined(f))
                name_outlined(f);
    }

    /* Empty: a function that only calls another. */
    std::string of(const Function &f) const {
        auto found = outlined.find(&f);
        if (found != outlined.end())
            return found->second;
        return is_outlined(f) ? "" : source_name(f);
    }

  private:
    std::map<const Function *, std::string> outlined;
    std::map<std::string, unsigned> counts;

    static bool is_outlined(const Function &f) { return f.getName().contains("omp_outlined"); }

    static bool calls_outlined(const Function &f) {
        for (const BasicBlock &block : f)
            for (const Instruction &i : block)
                if (auto *call = dyn_cast<CallBase>(&i))
                    if (const Function *callee = call->getCalledFunction())
                        if (is_outlined(*callee) && !callee->isDeclaration())
                            return true;
        return false;
    }

    /* The function that calls it or passes it on. */
    static const Function *parent_of(const Value &v) {
        for (const User *user : v.users()) {
            if (auto *i = dyn_cast<Instruction>(user))
                return i->getFunction();
            if (auto *constant = dyn_cast<Constant>(user))
                if (const Function *found = isa<GlobalValue>(constant) ? nullptr : parent_of(*constant))
                    return found;
        }
        return nullptr;
    }

    const std::string &name_outlined(const Function &f) {
        std::string &name = outlined[&f];
        if (!name.empty())
            return name;
        name = f.getName().str(); /* also ends a circle */
        const Function *parent = parent_of(f);
        while (parent && is_outlined(*parent) && calls_outlined(*parent))
            parent = parent_of(*parent);
        if (!parent)
            return name;
        std::string whole = is_outlined(*parent) ? name_outlined(*parent) : source_name(*parent);
        whole += "._omp_fn.";
        return name = whole + std::to_string(counts[whole]++);
    }
};

/* The plugin's own parts of a module: declarations of the runtime, the inline functions that ask the gate, the sites. */
class Runtime {
  public:
    explicit Runtime(Module &m) : m(m), c(m.getContext()), i32(Type::getInt32Ty(c)), bytes(bytes_type(c)) {}

    CallInst *begin(IRBuilder<> &b, GlobalVariable *site) { return b.CreateCall(begin_function(), {pointer(site)}); }
    void end(IRBuilder<> &b, GlobalVariable *site, Value *token) {
        b.CreateCall(end_function(), {pointer(site), token});
    }
    CallInst *depth(IRBuilder<> &b) { return b.CreateCall(depth_function(), {}); }
    void rewind(IRBuilder<> &b, Value *depth) {
        b.CreateCall(outside("kasuri_auto_rewind", FunctionType::get(Type::getVoidTy(c), {i32}, false)), {depth});
    }

    GlobalVariable *site(const std::string &name, const std::string &file, const std::string &function, unsigned line) {
        auto *type = StructType::get(i32, i32, bytes, bytes, bytes, i32, i32);
        Constant *zero = ConstantInt::get(i32, 0);
        Constant *values[] = {zero, ConstantInt::get(i32, line), text(name), text(file), text(function), zero, zero};
        auto *made = new GlobalVariable(m, type, false, GlobalValue::PrivateLinkage, ConstantStruct::get(type, values),
                                        "kasuri.site");
        made->setSection("kasuri_auto_sites");
        made->setAlignment(Align(8));
        appendToCompilerUsed(m, {made});
        return made;
    }

  private:
    Module &m;
    LLVMContext &c;
    IntegerType *i32;
    PointerType *bytes;
    std::map<std::string, Constant *> texts;

    /* Pointers have no types of what they point to since LLVM 15. */
    static PointerType *bytes_type(LLVMContext &c) {
#if LLVM_VERSION_MAJOR >= 15
        return PointerType::getUnqual(c);
#else
        return Type::getInt8PtrTy(c);
#endif
    }
    static Value *word_at(IRBuilder<> &b, Value *at) {
#if LLVM_VERSION_MAJOR >= 15
        (void)b;
        return at;
#else
        return b.CreatePointerCast(at, PointerType::getUnqual(b.getInt32Ty()));
#endif
    }

    Constant *pointer(GlobalVariable *object) {
        return ConstantExpr::getPointerCast(object, bytes);
    }

    Constant *text(const std::string &s) {
        Constant *&known = texts[s];
        if (!known) {
            auto *value = ConstantDataArray::getString(c, s);
            auto *made =
                new GlobalVariable(m, value->getType(), true, GlobalValue::PrivateLinkage, value, "kasuri.text");
            made->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
            known = pointer(made);
        }
        return known;
    }

    /* A function of the runtime, which is linked into the same module. */
    FunctionCallee outside(StringRef name, FunctionType *type) {
        FunctionCallee callee = m.getOrInsertFunction(name, type);
        if (auto *f = dyn_cast<Function>(callee.getCallee())) {
            f->setVisibility(GlobalValue::HiddenVisibility);
            f->setDSOLocal(true);
            f->addFnAttr(Attribute::NoUnwind);
            f->addFnAttr(Attribute::Cold);
        }
        return callee;
    }

    Value *load(IRBuilder<> &b, Value *from, unsigned offset) {
        Value *at = b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), from, offset);
        LoadInst *value = b.CreateAlignedLoad(i32, word_at(b, at), Align(4));
        value->setAtomic(AtomicOrdering::Monotonic);
        return value;
    }

    /* kasuri__gate.gate: at offset 8 of struct kasuri_gate. The program may define it itself: it may include kasuri.h. */
    Value *gate(IRBuilder<> &b) {
        Constant *object = m.getOrInsertGlobal("kasuri__gate", ArrayType::get(b.getInt64Ty(), 2));
        if (auto *variable = dyn_cast<GlobalVariable>(object->stripPointerCasts())) {
            variable->setVisibility(GlobalValue::HiddenVisibility);
            variable->setDSOLocal(true);
        }
        return load(b, ConstantExpr::getPointerCast(object, bytes), 8);
    }

    Function *inlined(StringRef name, FunctionType *type) {
        Function *f = Function::Create(type, GlobalValue::InternalLinkage, name, m);
        f->addFnAttr(Attribute::AlwaysInline);
        f->addFnAttr(Attribute::NoUnwind);
        return f;
    }

    void branch_if(IRBuilder<> &b, Value *number, BasicBlock *yes, BasicBlock *no) {
        b.CreateCondBr(b.CreateICmpNE(number, ConstantInt::get(i32, 0)), yes, no,
                       MDBuilder(c).createBranchWeights(1, 1000));
    }

    Function *begin_function() {
        if (Function *made = m.getFunction("kasuri.auto.begin"))
            return made;
        auto *type = FunctionType::get(i32, {bytes}, false);
        Function *f = inlined("kasuri.auto.begin", type);
        auto *entry = BasicBlock::Create(c, "entry", f), *asked = BasicBlock::Create(c, "asked", f);
        auto *on = BasicBlock::Create(c, "on", f), *none = BasicBlock::Create(c, "none", f);
        IRBuilder<> b(entry);
        branch_if(b, gate(b), asked, none);
        b.SetInsertPoint(asked);
        b.CreateCondBr(b.CreateICmpEQ(load(b, f->getArg(0), 32), ConstantInt::get(i32, 0)), on, none);
        b.SetInsertPoint(on);
        b.CreateRet(b.CreateCall(outside("kasuri_auto_begin", type), {f->getArg(0)}));
        b.SetInsertPoint(none);
        b.CreateRet(ConstantInt::get(i32, 0));
        return f;
    }

    Function *end_function() {
        if (Function *made = m.getFunction("kasuri.auto.end"))
            return made;
        auto *type = FunctionType::get(Type::getVoidTy(c), {bytes, i32}, false);
        Function *f = inlined("kasuri.auto.end", type);
        auto *entry = BasicBlock::Create(c, "entry", f), *open = BasicBlock::Create(c, "open", f);
        auto *none = BasicBlock::Create(c, "none", f);
        IRBuilder<> b(entry);
        branch_if(b, f->getArg(1), open, none);
        b.SetInsertPoint(open);
        b.CreateCall(outside("kasuri_auto_end", type), {f->getArg(0), f->getArg(1)});
        b.CreateBr(none);
        b.SetInsertPoint(none);
        b.CreateRetVoid();
        return f;
    }

    Function *depth_function() {
        if (Function *made = m.getFunction("kasuri.auto.depth"))
            return made;
        auto *type = FunctionType::get(i32, false);
        Function *f = inlined("kasuri.auto.depth", type);
        auto *entry = BasicBlock::Create(c, "entry", f), *asked = BasicBlock::Create(c, "asked", f);
        auto *none = BasicBlock::Create(c, "none", f);
        IRBuilder<> b(entry);
        branch_if(b, gate(b), asked, none);
        b.SetInsertPoint(asked);
        b.CreateRet(b.CreateCall(outside("kasuri_auto_depth", type), {}));
        b.SetInsertPoint(none);
        b.CreateRet(ConstantInt::get(i32, 0));
        return f;
    }
};

/* Annotates one function. First all places are found, while the graph is as the analyses know it; then code is
 * inserted, which splits no block: the calls are inlined later. */
class Annotator {
  public:
    Annotator(Function &f, const std::string &name, Runtime &runtime, const kasuri::Choice &choice)
        : f(f), runtime(runtime), choice(choice), name(name), names(name), i32(Type::getInt32Ty(f.getContext())) {
        if (DISubprogram *program = f.getSubprogram()) {
            file = program->getFilename().str();
            line = program->getLine();
            in_system_header = file.compare(0, 5, "/usr/") == 0;
        }
    }

    bool run() {
        bool is_chosen = choice.function(name, in_system_header);
        bool has_loops = choice.any_loop(name, in_system_header);
        if (has_loops)
            find_loops();
        find_arrivals();
        if (!is_chosen && loops.empty() && arrivals.empty())
            return false;
        Instruction *first = &*f.getEntryBlock().getFirstInsertionPt();
        while (isa<AllocaInst>(first))
            first = first->getNextNode();
        if (!arrivals.empty())
            entry_depth = token_at(first);
        if (is_chosen)
            own = token_at(first);
        for (Chosen &chosen : loops)
            chosen.token = token_at(first);
        at_entry(first);
        for (Chosen &chosen : loops)
            chosen.site = runtime.site(chosen.name, file, name, chosen.line);
        /* Inner loops first: where one edge leaves several, the slices end from the inside. Begins after all ends: a
         * block may be the exit of one loop and the way into the next. */
        for (auto chosen = loops.rbegin(); chosen != loops.rend(); ++chosen)
            end_loop(*chosen);
        for (Chosen &chosen : loops)
            begin_loop(chosen);
        for (const Arrival &arrival : arrivals)
            rewind(arrival);
        if (own)
            end_function();
        return true;
    }

  private:
    struct Chosen {
        const Loop *loop;
        std::string name;
        DebugLoc at;
        unsigned line;
        Instruction *before;
        SmallVector<BasicBlock *, 4> exits;
        AllocaInst *token;
        GlobalVariable *site;
    };
    /* A place where control arrives from below: @loops are those that go on there, by number, innermost last. */
    struct Arrival {
        Instruction *at;
        std::vector<size_t> loops;
    };

    Function &f;
    Runtime &runtime;
    const kasuri::Choice &choice;
    std::string name;
    kasuri::Names names;
    IntegerType *i32;
    std::string file;
    unsigned line = 0;
    bool in_system_header = false;
    DominatorTree tree;
    LoopInfo info;
    std::vector<Chosen> loops; /* outer ones before those in them */
    std::vector<Arrival> arrivals;
    AllocaInst *entry_depth = nullptr, *own = nullptr;
    GlobalVariable *own_site = nullptr;

    void find_loops() {
        tree.recalculate(f);
        info.analyze(tree);
        /* In the order of the source, so that #2 is the second one there. */
        std::vector<Loop *> outermost(info.rbegin(), info.rend());
        for (Loop *l : outermost)
            simplifyLoop(l, &tree, &info, nullptr, nullptr, nullptr, false);
        for (Loop *l : outermost)
            find_loop(l, "", 1);
    }

    static unsigned line_of(const Loop *l, DebugLoc &at) {
        at = l->getStartLoc();
        for (Instruction &i : *l->getHeader())
            if (!at && i.getDebugLoc() && i.getDebugLoc().getLine())
                at = i.getDebugLoc();
        return at ? at.getLine() : 0;
    }

    void find_loop(Loop *l, const std::string &parent, unsigned depth) {
        DebugLoc at;
        unsigned line = line_of(l, at);
        std::string name = names.loop(parent, line);
        if (choice.loop(this->name, in_system_header, line, depth) && l->getLoopPreheader()) {
            Chosen chosen{l, name, at, line, l->getLoopPreheader()->getTerminator(), {}, nullptr, nullptr};
            l->getUniqueExitBlocks(chosen.exits);
            loops.push_back(chosen);
        }
        for (auto inner = l->rbegin(); inner != l->rend(); ++inner)
            find_loop(*inner, name, depth + 1);
    }

    void find_arrivals() {
        for (BasicBlock &block : f) {
            if (block.isLandingPad())
                add_arrival(block, &*block.getFirstInsertionPt());
            for (Instruction &i : block)
                if (auto *call = dyn_cast<CallInst>(&i))
                    if (call->hasFnAttr(Attribute::ReturnsTwice))
                        add_arrival(block, call->getNextNode());
        }
    }

    void add_arrival(BasicBlock &block, Instruction *at) {
        Arrival arrival{at, {}};
        for (size_t i = 0; i < loops.size(); i++)
            if (loops[i].loop->contains(&block))
                arrival.loops.push_back(i);
        arrivals.push_back(arrival);
    }

    AllocaInst *token_at(Instruction *first) {
        /* Before all code of the function, also of allocas that come after `first`. */
        IRBuilder<> before(&*f.getEntryBlock().getFirstInsertionPt()), b(first);
        AllocaInst *made = before.CreateAlloca(i32, nullptr, "kasuri.token");
        b.CreateStore(ConstantInt::get(i32, 0), made);
        return made;
    }

    /* Code at an instruction belongs to the line of the loop or function. */
    DebugLoc location(const DebugLoc &at) {
        DISubprogram *program = f.getSubprogram();
        if (at || !program)
            return at;
        return DILocation::get(f.getContext(), line, 0, program);
    }

    void at_entry(Instruction *first) {
        IRBuilder<> b(first);
        b.SetCurrentDebugLocation(location(DebugLoc()));
        if (entry_depth)
            b.CreateStore(runtime.depth(b), entry_depth);
        if (!own)
            return;
        own_site = runtime.site(name, file, name, line);
        b.CreateStore(runtime.begin(b, own_site), own);
    }

    void begin_loop(Chosen &chosen) {
        IRBuilder<> b(chosen.before);
        b.SetCurrentDebugLocation(location(chosen.at));
        b.CreateStore(runtime.begin(b, chosen.site), chosen.token);
    }

    void end(Instruction *before, GlobalVariable *site, AllocaInst *token, const DebugLoc &at) {
        IRBuilder<> b(before);
        b.SetCurrentDebugLocation(location(at));
        runtime.end(b, site, b.CreateLoad(i32, token));
        b.CreateStore(ConstantInt::get(i32, 0), token);
    }

    /* Outer loops come later and are put first in the block, so the place is found once for each block. */
    void end_loop(const Chosen &chosen) {
        for (BasicBlock *exit : chosen.exits) {
            Instruction *&place = exit_places[exit];
            if (!place)
                place = &*exit->getFirstInsertionPt();
            end(place, chosen.site, chosen.token, chosen.at);
        }
    }
    std::map<BasicBlock *, Instruction *> exit_places;

    void rewind(const Arrival &arrival) {
        IRBuilder<> b(arrival.at);
        b.SetCurrentDebugLocation(location(arrival.at->getDebugLoc()));
        Value *depth = b.CreateLoad(i32, entry_depth);
        auto innermost_of = [&](AllocaInst *token) {
            Value *open = b.CreateLoad(i32, token);
            depth = b.CreateSelect(b.CreateICmpNE(open, ConstantInt::get(i32, 0)), open, depth);
        };
        if (own)
            innermost_of(own);
        for (size_t i : arrival.loops)
            innermost_of(loops[i].token);
        runtime.rewind(b, depth);
    }

    void end_function() {
        SmallVector<Instruction *, 4> ends;
        for (BasicBlock &block : f) {
            if (CallInst *tail = block.getTerminatingMustTailCall())
                ends.push_back(tail);
            else if (isa<ReturnInst>(block.getTerminator()) || isa<ResumeInst>(block.getTerminator()))
                ends.push_back(block.getTerminator());
        }
        for (Instruction *at : ends)
            end(at, own_site, own, at->getDebugLoc());
    }
};

bool calls_itself_as_part(const Function &f) {
    const std::string symbol = f.getName().str();
    if (symbol.compare(0, 2, "_Z") != 0)
        return false;
    for (const BasicBlock &block : f)
        for (const Instruction &i : block)
            if (auto *call = dyn_cast<CallBase>(&i)) {
                auto *callee = dyn_cast<GlobalValue>(call->getCalledOperand()->stripPointerCasts());
                if (callee && !callee->isDeclaration() && kasuri::calls_itself_as_part(symbol, callee->getName().str()))
                    return true;
            }
    return false;
}

bool is_coroutine(const Function &f) {
#if LLVM_VERSION_MAJOR >= 15
    return f.isPresplitCoroutine();
#else
    return f.hasFnAttribute("coroutine.presplit");
#endif
}

bool may_be_annotated(const Function &f) {
    return !f.isDeclaration() && !f.hasAvailableExternallyLinkage() && !f.hasFnAttribute(Attribute::Naked) &&
           !is_coroutine(f) && f.getName().take_front(6) != "kasuri" && !kasuri::is_compilers_own(f.getName().str()) &&
           !calls_itself_as_part(f);
}

class Annotate : public PassInfoMixin<Annotate> {
  public:
    PreservedAnalyses run(Module &m, ModuleAnalysisManager &) {
        kasuri::Choice choice;
        const char *path = std::getenv("KASURI_ANNOTATE");
        std::string wrong = choice.load(path ? path : "");
        if (!wrong.empty()) {
            m.getContext().emitError("kasuri: " + wrong);
            return PreservedAnalyses::all();
        }
        Runtime runtime(m);
        FunctionNames names(m);
        std::vector<std::pair<Function *, std::string>> functions;
        for (Function &f : m)
            if (may_be_annotated(f) && !names.of(f).empty())
                functions.emplace_back(&f, names.of(f));
        bool is_changed = false;
        for (auto &f : functions)
            is_changed |= Annotator(*f.first, f.second, runtime, choice).run();
        return is_changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
    }
    static bool isRequired() { return true; }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "kasuri-annotate", "1", [](PassBuilder &builder) {
                builder.registerPipelineStartEPCallback(
                    [](ModulePassManager &passes, auto) { passes.addPass(Annotate()); });
            }};
}
