/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which functions and loops are annotated: a text file that both plugins read, named by KASURI_ANNOTATE. A line is
 *
 *     function NAME           these functions
 *     loops NAME [DEPTH]      the loops of these functions, nested up to DEPTH deep (1: outermost only)
 *     loop NAME:LINE          this loop
 *     not NAME                nothing in these functions, whatever else is said
 *
 * NAME is as in the recording (C++: with namespaces and classes, without parameters), with * and ? for any text and any
 * character. # begins a comment. Without a file: `loops *`.
 *
 * A function is called by its name; a loop by the function's, and for each loop from the outermost one on `.loop` and
 * its line: main.loop48.loop51. A second loop with the same name gets #2.
 */
#ifndef KASURI_CHOICE_H
#define KASURI_CHOICE_H

#include <map>
#include <string>
#include <vector>

namespace kasuri {

class Choice {
  public:
    /* Reads the file; an empty path: the default. Return: what is wrong with it, or empty. */
    std::string load(const std::string &path);
    /* in_system_header: patterns with a wildcard do not mean functions that the program did not write. */
    bool function(const std::string &name, bool in_system_header) const;
    /* depth: 1 for an outermost loop. */
    bool loop(const std::string &name, bool in_system_header, unsigned line, unsigned depth) const;
    /* Whether any loop of the function may be chosen. */
    bool any_loop(const std::string &name, bool in_system_header) const;

  private:
    enum class Kind { Function, Loops, Loop, Not };
    struct Rule {
        Kind kind;
        std::string name;
        unsigned number; /* DEPTH or LINE */
    };
    std::string parse(const std::string &line);
    bool applies(const Rule &rule, const std::string &name, bool in_system_header) const;
    bool is_left_out(const std::string &name) const;
    std::vector<Rule> rules;
};

/* The names of one function's sites. */
class Names {
  public:
    explicit Names(std::string function) : function(std::move(function)) {}
    /* parent: the name of the loop around it, or empty; line 0: not known. */
    std::string loop(const std::string &parent, unsigned line);

  private:
    std::string function;
    std::map<std::string, unsigned> used;
};

/* A function's name as users know it: demangled, MODULE::PROCEDURE in Fortran. demangle: a symbol of C++ -> its name with
 * namespaces and classes, without parameters and result. */
std::string readable(const std::string &symbol, std::string (*demangle)(const std::string &));

/* Whether a constructor or destructor is a part of itself: compilers make several functions of one (of a whole object, of a base,
 * one that also frees), which may call each other. Symbols; callee: what `symbol` calls. */
bool calls_itself_as_part(const std::string &symbol, const std::string &callee);

/* Whether the compiler made the function for itself: thunks, wrappers of thread-local variables, the module's constructor. */
bool is_compilers_own(const std::string &symbol);

} // namespace kasuri

#endif
