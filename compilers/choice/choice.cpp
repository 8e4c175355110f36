/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "choice.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace kasuri {

static bool matches(const char *pattern, const char *text) {
    const char *star = nullptr, *resume = nullptr;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

/* 1 to 999,999,999, or 0: not such a number. */
static unsigned number_of(const std::string &text) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
        return 0;
    return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10));
}

std::string Choice::parse(const std::string &line) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string kind, name, number, more;
    if (!(words >> kind))
        return "";
    if (!(words >> name))
        return "'" + kind + "' needs a name";
    words >> number >> more;
    Rule rule{Kind::Function, name, 1};
    if (kind == "loops") {
        rule.kind = Kind::Loops;
        if (!number.empty() && !(rule.number = number_of(number)))
            return "'" + number + "' is not a depth";
        number.clear();
    } else if (kind == "loop") {
        size_t colon = name.rfind(':');
        rule.kind = Kind::Loop;
        rule.number = colon == std::string::npos ? 0 : number_of(name.substr(colon + 1));
        if (!rule.number)
            return "'loop' needs NAME:LINE, not '" + name + "'";
        rule.name = name.substr(0, colon);
    } else if (kind == "not") {
        rule.kind = Kind::Not;
    } else if (kind != "function") {
        return "'" + kind + "' is not one of function, loops, loop, not";
    }
    if (!number.empty() || !more.empty())
        return "'" + (number.empty() ? more : number) + "' is one word too many";
    rules.push_back(rule);
    return "";
}

std::string Choice::load(const std::string &path) {
    rules.clear();
    if (path.empty()) {
        rules.push_back({Kind::Loops, "*", 1});
        return "";
    }
    std::ifstream file(path);
    std::string line;
    unsigned number = 0;
    if (!file)
        return path + ": cannot be read";
    while (std::getline(file, line)) {
        number++;
        std::string wrong = parse(line);
        if (!wrong.empty())
            return path + ":" + std::to_string(number) + ": " + wrong;
    }
    return file.bad() ? path + ": cannot be read" : "";
}

bool Choice::applies(const Rule &rule, const std::string &name, bool in_system_header) const {
    bool is_pattern = rule.name.find_first_of("*?") != std::string::npos;
    return !(in_system_header && is_pattern) && matches(rule.name.c_str(), name.c_str());
}

/* The client's own functions, which may be compiled into the program, are never annotated. */
bool Choice::is_left_out(const std::string &name) const {
    if (name.compare(0, 7, "kasuri_") == 0)
        return true;
    for (const Rule &rule : rules)
        if (rule.kind == Kind::Not && applies(rule, name, false))
            return true;
    return false;
}

bool Choice::function(const std::string &name, bool in_system_header) const {
    if (is_left_out(name))
        return false;
    for (const Rule &rule : rules)
        if (rule.kind == Kind::Function && applies(rule, name, in_system_header))
            return true;
    return false;
}

bool Choice::any_loop(const std::string &name, bool in_system_header) const {
    if (is_left_out(name))
        return false;
    for (const Rule &rule : rules)
        if ((rule.kind == Kind::Loops || rule.kind == Kind::Loop) && applies(rule, name, in_system_header))
            return true;
    return false;
}

bool Choice::loop(const std::string &name, bool in_system_header, unsigned line, unsigned depth) const {
    if (is_left_out(name))
        return false;
    for (const Rule &rule : rules) {
        bool fits =
            (rule.kind == Kind::Loops && depth <= rule.number) || (rule.kind == Kind::Loop && line == rule.number);
        if (fits && applies(rule, name, in_system_header))
            return true;
    }
    return false;
}

std::string Names::loop(const std::string &parent, unsigned line) {
    std::string name = (parent.empty() ? function : parent) + ".loop" + (line ? std::to_string(line) : "");
    unsigned n = ++used[name];
    return n == 1 ? name : name + "#" + std::to_string(n);
}

std::string readable(const std::string &symbol, std::string (*demangle)(const std::string &)) {
    size_t module = symbol.find("_MOD_");
    if (symbol.compare(0, 2, "__") == 0 && module != std::string::npos)
        return symbol.substr(2, module - 2) + "::" + symbol.substr(module + 5);
    if (symbol.compare(0, 2, "_Z") == 0)
        return demangle(symbol);
    return symbol;
}

/* Symbols differ in the digit of C1, C2, C4, D0, D1, D2, D4, CI1, CI2, and the part's is the higher one. */
bool calls_itself_as_part(const std::string &symbol, const std::string &callee) {
    size_t at = 0;
    if (symbol.size() != callee.size() || symbol.compare(0, 2, "_Z") != 0)
        return false;
    while (at < symbol.size() && symbol[at] == callee[at])
        at++;
    if (at < 3 || at == symbol.size() || symbol.compare(at + 1, std::string::npos, callee, at + 1) != 0)
        return false;
    char kind = symbol[at - 1] == 'I' ? symbol[at - 2] : symbol[at - 1];
    return (kind == 'C' || kind == 'D') && symbol[at] >= '0' && callee[at] <= '9' && symbol[at] < callee[at];
}

bool is_compilers_own(const std::string &symbol) {
    for (const char *prefix : {"_ZTh", "_ZTv", "_ZTc", "_ZTW", "_ZTH", "_GLOBAL__"})
        if (symbol.compare(0, std::char_traits<char>::length(prefix), prefix) == 0)
            return true;
    return false;
}

} // namespace kasuri
